"""The fully connected layer on several threads, for NumPy arrays: in place of the plain forms of linear.py.

Each thread calls BLAS for its own part, adds the bias and, in a feed-forward network, takes ReLU and dropout while the
product is in the cache. Gained with the other ops on threads: 1.16 to 1.38 of PyTorch's speed for a training step of
the paraphrase model, 1.05 to 1.23 for the headline model; dx and dW in one go of the threads: 8.1 to 6 ms of waiting
in a step of 27 layers (docs/log.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..costs import FLOPS, RELU_BACKWARD
from ..parallel import parallel_for, parallel_jobs
from ..random import GivenMask
from ..tensor import Tensor
from .linalg import rows_of
from .linear import Linear, check_shapes
from .reduction import sum_of_rows
from .registry import form, on_cpu, through_plain


@form("linear", "cpu", on_cpu)
class LinearOnCPU(Linear):
    """The product by rows, dx too; dW and db by output features: no part adds to another's result."""

    def forward(self, x, weight, bias=None):
        check_shapes(x, weight, bias)
        self.save(x, weight)
        rows = rows_of(x)
        out = np.empty((*x.shape[:-1], len(weight)), np.result_type(x.dtype, weight.dtype))

        def part(start, stop):
            y = rows_of(out)[start:stop]
            np.matmul(rows[start:stop], weight.T, out=y)
            if bias is not None:
                y += bias
            self.finish(y, start, stop)

        parallel_for(np, len(rows), part, cost=weight.size / FLOPS)
        return out

    def finish(self, y, start, stop):
        """What else is done to the rows start..stop of the result while they are in the cache."""

    def backward(self, g):
        if isinstance(g, Tensor):
            return Linear.backward(self, g)
        return self.gradients(rows_of(g), *self.saved)

    def gradients(self, g, x, weight):
        """dx, dW and db from the gradient g (rows, out_features) of x W^T + b."""
        needs, rows = (*self.needs, False)[:3], rows_of(x)
        dx = np.empty(x.shape, np.result_type(g.dtype, weight.dtype)) if needs[0] else None
        dw = np.empty(weight.shape, np.result_type(g.dtype, x.dtype)) if needs[1] else None
        db = np.empty(len(weight), g.dtype) if needs[2] else None

        def by_rows(start, stop):
            np.matmul(g[start:stop], weight, out=rows_of(dx)[start:stop])

        def by_features(start, stop):
            columns = g[:, start:stop]
            if dw is not None:
                np.matmul(columns.T, rows, out=dw[start:stop])
            if db is not None:
                db[start:stop] = sum_of_rows(columns)

        jobs = [(len(rows), by_rows, weight.size / FLOPS)] if dx is not None else []
        if dw is not None or db is not None:
            jobs.append((len(weight), by_features, rows.size / FLOPS))
        parallel_jobs(np, jobs)
        return (dx, dw, db)[: len(self.inputs)]


def only_relu(arrays: list[Any], options: dict[str, Any]) -> str | None:
    refused = None if options["activation"] == "relu" else "only ReLU's slope can be told from its result"
    return refused or on_cpu(arrays, options)


@form("linear_activation", "cpu", only_relu)
class LinearReLUOnCPU(LinearOnCPU):
    """relu(x W^T + b), then dropout, in the memory of the product.

    The result y tells all that the gradient needs: where it is zero the unit was off or dropped, elsewhere its
    derivative by x W^T + b is dropout's scale (also where it is NaN, which passes).
    """

    composed = through_plain

    def __init__(self, activation, dropout, generator):
        self.p, self.generator = dropout, generator

    def forward(self, x, weight, bias=None):
        keep_mask, self.scale = None, 1.0
        if self.p:
            keep_mask, self.scale = self.generator.keep_mask((math.prod(x.shape[:-1]), len(weight)), self.p)
        self.keep_rows = keep_mask
        out = LinearOnCPU.forward(self, x, weight, bias)
        self.keep_rows = None
        self.save(x, weight, *(() if bias is None else (bias,)))
        self.keep(out)
        return out

    def drawn(self):
        return GivenMask(~(self.kept[0] <= 0), self.scale)  # what is off has no gradient, dropped or not

    def finish(self, y, start, stop):
        np.maximum(y, 0, out=y)
        if self.keep_rows is not None:
            y *= self.keep_rows[start:stop]
            y *= y.dtype.type(self.scale)

    def backward(self, g):
        x, weight = self.saved[:2]
        g, out = rows_of(g), rows_of(self.kept[0])
        d_linear = np.empty(g.shape, g.dtype)

        def part(start, stop):
            d = d_linear[start:stop]
            np.multiply(g[start:stop], ~(out[start:stop] <= 0), out=d)
            if self.scale != 1:
                d *= d.dtype.type(self.scale)

        parallel_for(np, len(g), part, cost=RELU_BACKWARD * out.shape[1])
        return self.gradients(d_linear, x, weight)
