"""The fully connected layer for NumPy arrays on several threads: replaces the plain implementations of linear.py.

Each thread calls BLAS for its part, adds the bias and, in a feed-forward network, applies ReLU and dropout while the
product is in the thread's cache. One start of the threads computes both dx and dW.
"""

import math
from typing import Any

import numpy as np

from ..ops.linalg import rows_of
from ..ops.linear import Linear, check_shapes, linear_activation_plain
from ..ops.registry import QuickImplementation, all_of, implements, on_cpu
from ..ops.selection import selected
from ..random import ReplayedMask
from ..tensor import Tensor
from .parallel import FLOPS, parallel_for, parallel_jobs
from .products import divided_product, multiply, right_operand, sum_of_rows

#: A linear layer with at most so many multiplications is left to the plain one, whose calls of NumPy take less time.
MIN_MULTIPLICATIONS = 1 << 18


def large(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the product is large, and the arrays are on the CPU."""
    if arrays[0].size * len(arrays[1]) <= MIN_MULTIPLICATIONS:
        return f"the product has at most {MIN_MULTIPLICATIONS:,} multiplications: NumPy's calls cost little"
    return on_cpu(arrays, options)


@implements(Linear, "cpu", large)
class LinearOnCPU(Linear):
    """The linear layer on the CPU.
    The rows of y and dx, and the output features of dW and db, are divided among the threads. No two threads write to
    the same element.
    """

    def forward(self, x, weight, bias=None):
        check_shapes(x, weight, bias)
        self.save(x, weight)
        rows = rows_of(x)
        out = np.empty((*x.shape[:-1], len(weight)), np.result_type(x.dtype, weight.dtype))

        right = None if len(rows) == 1 else right_operand(weight.T)

        def part(start, stop):
            y = rows_of(out)[start:stop]
            multiply(rows[start:stop], right, out=y)
            self.finish(y, bias, start, stop)

        if len(rows) == 1:
            divided_product(rows, weight.T, out=rows_of(out))
            self.finish(rows_of(out), bias, 0, 1)
        else:
            parallel_for(np, len(rows), part, cost=weight.size / speed(weight))
        return out

    def finish(self, y, bias, start, stop):
        """Add the bias to rows `start` to `stop` of the product y in the cache. Subclasses add further steps."""
        if bias is not None:
            y += bias

    def backward(self, g):
        if isinstance(g, Tensor):
            return Linear.backward(self, g)
        return self.gradients(rows_of(g), *self.saved)

    def gradients(self, g, x, weight):
        """Compute dx, dW and db from the gradient g (rows, out_features) of x W^T + b."""
        needs, rows = (*self.needs, False)[:3], rows_of(x)
        dx = np.empty(x.shape, np.result_type(g.dtype, weight.dtype)) if needs[0] else None
        dw = np.empty(weight.shape, np.result_type(g.dtype, x.dtype)) if needs[1] else None
        db = np.empty(len(weight), g.dtype) if needs[2] else None

        right_of_dx = right_operand(weight) if needs[0] else None
        right_of_dw = right_operand(rows) if needs[1] else None

        def by_rows(start, stop):
            multiply(g[start:stop], right_of_dx, out=rows_of(dx)[start:stop])

        def by_features(start, stop):
            columns = g[:, start:stop]
            if dw is not None:
                multiply(columns.T, right_of_dw, out=dw[start:stop])
            if db is not None:
                db[start:stop] = sum_of_rows(columns)

        jobs = [(len(rows), by_rows, weight.size / speed(weight))] if dx is not None else []
        if dw is not None or db is not None:
            jobs.append((len(weight), by_features, rows.size / speed(weight)))
        parallel_jobs(np, jobs)
        return (dx, dw, db)[: len(self.inputs)]


def speed(weight: Any) -> float:
    """Return the multiply-adds in a nanosecond of a product with these weights: few if they are a vector."""
    return FLOPS if min(weight.shape) > 1 else 2


def only_relu(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the activation is "relu"."""
    return None if options["activation"] == "relu" else "only ReLU's derivative follows from its result"


@implements(linear_activation_plain, "cpu", all_of(only_relu, on_cpu))
class LinearReLUOnCPU(QuickImplementation, LinearOnCPU):
    """The linear layer with ReLU and dropout on the CPU: relu(x W^T + b), then dropout, in place.

    The gradient needs only the result y. Where y is 0, the unit was negative or dropped, and the derivative is 0. Where
    y is positive or NaN, the derivative is dropout's scale.
    """

    def forward(self, x, weight, bias=None):
        keep_mask, self.scale = None, 1.0
        if self.dropout:
            keep_mask, self.scale = self.generator.keep_mask((math.prod(x.shape[:-1]), len(weight)), self.dropout)
        self.mask = keep_mask
        out = LinearOnCPU.forward(self, x, weight, bias)
        self.mask = None
        self.save(x, weight, *(() if bias is None else (bias,)))
        self.keep(out)
        return out

    def dropout_mask(self):
        return ReplayedMask(~(self.kept[0] <= 0), self.scale)  # a negative unit has no gradient, dropped or not

    def finish(self, y, bias, start, stop):
        LinearOnCPU.finish(self, y, bias, start, stop)
        np.maximum(y, 0, out=y)
        if self.mask is not None:
            y *= self.mask[start:stop]
            y *= y.dtype.type(self.scale)

    def backward(self, g):
        x, weight = self.saved[:2]
        g, out = rows_of(g), rows_of(self.kept[0])
        d_linear = np.empty(g.shape, g.dtype)

        def part(start, stop):
            self.mask_gradient(g[start:stop], out[start:stop], d_linear[start:stop])

        parallel_for(np, len(g), part, cost=0.6 * out.shape[1])
        return self.gradients(d_linear, x, weight)

    def mask_gradient(self, g, out, d):
        """Compute d = g * scale where the result `out` is above 0, else 0."""
        selected(g, ~(out <= 0), out=d)
        if self.scale != 1:
            d *= d.dtype.type(self.scale)
