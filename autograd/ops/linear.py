"""The fully connected layer: x W^T + b, alone or with what follows it in a feed-forward network."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..kernels.fused import NO_DROP, column_sums
from ..kernels.products import product
from ..parallel import parallel_for, parallel_jobs
from ..random import Generator, default_generator
from ..tensor import Tensor, array_of
from .activation import gelu, relu, silu
from .dropout import _dropout_reference
from .dropout import dropout as drop_out
from .elementwise import promoted
from .linalg import rows_of
from .linear_on_device import LinearActivationOnDevice
from .on_device import DropoutOnDevice, drop_of, runs_kernels
from .reduction import sum_of_rows, summed
from .registry import OPS, declare

#: Multiplications and additions of a matrix product that one core does in a nanosecond, roughly; (m, k) by (k, n) takes
#: m k n of them. For `split`, which only asks whether waking a thread up pays.
FLOPS = 50


class Linear(Function):
    """x W^T + b for rows x; one matrix product forward and two backward whatever the number of leading axes.

    dx = g W, by rows; dW = g^T x and db = sum of g, by output features: no part adds to another's result.
    """

    def forward(self, x, weight, bias=None):
        if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
            raise ValueError(f"an input of shape {x.shape} does not fit a weight (out, in) of shape {weight.shape}")
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ValueError(f"a bias of shape {bias.shape} for {weight.shape[0]} output features")
        self.save(x, weight)
        xp, rows = array_module(x), rows_of(x)
        out = xp.empty((*x.shape[:-1], len(weight)), np.result_type(x.dtype, weight.dtype))

        def part(start, stop):
            y = rows_of(out)[start:stop]
            product(rows[start:stop], weight.T, out=y)
            if bias is not None:
                y += bias
            self.finish(y, start, stop)

        parallel_for(xp, len(rows), part, cost=weight.size / FLOPS)
        return out

    def finish(self, y, start, stop):
        """What else is done to the rows start..stop of the result while they are in the cache."""

    def backward(self, g):
        x, weight = self.saved
        return self.gradients(rows_of(g), x, weight)

    def gradients(self, g, x, weight):
        """dx, dW and db from the gradient g (rows, out_features) of x W^T + b; all arrays, or all Tensors."""
        needs, rows = (*self.needs, False)[:3], rows_of(x)
        if isinstance(g, Tensor):
            gradients = (
                (g @ weight).reshape(x.shape) if needs[0] else None,
                g.T @ rows if needs[1] else None,
                summed(g, 0) if needs[2] else None,
            )
            return gradients[: len(self.inputs)]
        xp = array_module(g)
        if runs_kernels(g, x, weight) and g.size:
            g = xp.ascontiguousarray(g)
            dx = product(g, weight).reshape(x.shape) if needs[0] else None
            gradients = dx, product(g.T, rows) if needs[1] else None, column_sums(g) if needs[2] else None
            return gradients[: len(self.inputs)]
        dx = xp.empty(x.shape, np.result_type(g.dtype, weight.dtype)) if needs[0] else None
        dw = xp.empty(weight.shape, np.result_type(g.dtype, x.dtype)) if needs[1] else None
        db = xp.empty(len(weight), g.dtype) if needs[2] else None

        def by_rows(start, stop):
            xp.matmul(g[start:stop], weight, out=rows_of(dx)[start:stop])

        def by_features(start, stop):
            columns = g[:, start:stop]
            if dw is not None:
                xp.matmul(columns.T, rows, out=dw[start:stop])
            if db is not None:
                db[start:stop] = sum_of_rows(columns)

        jobs = [(len(rows), by_rows, weight.size / FLOPS)] if dx is not None else []
        if dw is not None or db is not None:
            jobs.append((len(weight), by_features, rows.size / FLOPS))
        parallel_jobs(xp, jobs)
        return (dx, dw, db)[: len(self.inputs)]


class LinearReLU(Linear):
    """relu(x W^T + b), then dropout, in the memory of the product.

    The result y tells all that the gradient needs: where it is zero the unit was off or dropped, elsewhere its
    derivative by x W^T + b is dropout's scale (also where it is NaN, which passes).
    """

    def __init__(self, p, generator):
        self.p, self.generator = p, generator

    def forward(self, x, weight, bias=None):
        keep_mask, self.scale = None, 1.0
        if self.p:
            keep_mask, self.scale = self.generator.keep_mask((math.prod(x.shape[:-1]), len(weight)), self.p)
            keep_mask = array_module(x).asarray(keep_mask)
        self.keep_rows = keep_mask
        out = super().forward(x, weight, bias)
        self.keep_rows = None
        self.save(x, weight, *(() if bias is None else (bias,)))
        self.keep(out)
        return out

    def finish(self, y, start, stop):
        array_module(y).maximum(y, 0, out=y)
        if self.keep_rows is not None:
            y *= self.keep_rows[start:stop]
            y *= y.dtype.type(self.scale)

    def backward(self, g):
        x, weight = self.saved[:2]
        g, out = rows_of(g), rows_of(self.kept[0])
        xp = array_module(g)
        d_linear = xp.empty(g.shape, g.dtype)

        def part(start, stop):
            d = d_linear[start:stop]
            xp.multiply(g[start:stop], ~(out[start:stop] <= 0), out=d)
            if self.scale != 1:
                d *= d.dtype.type(self.scale)

        parallel_for(xp, len(g), part, cost=0.6 * out.shape[1])
        return self.gradients(d_linear, x, weight)

    def composed(self, x, weight, bias=None):
        on = ~(self.kept[0] <= 0)
        return linear(x, weight, bias) * (on * self.kept[0].dtype.type(self.scale))


def _linear_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    out = np.einsum("...i,oi->...o", x, weight)
    return out if bias is None else out + bias


@declare(_linear_reference)
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias: x (..., in_features), weight (out_features, in_features), bias (out_features,) or None."""
    x, weight, bias = promoted(x, weight, bias)
    return Linear()(x, weight) if bias is None else Linear()(x, weight, bias)


def _linear_relu_reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    dropout: float = 0.0,
    generator: Generator | None = None,
) -> np.ndarray:
    out = _linear_reference(x, weight, bias)
    out = np.where(out > 0, out, 0.0)
    if dropout and generator is not None:
        keep_mask, scale = generator.keep_mask(out.shape, dropout)
        out = np.where(keep_mask, out * scale, 0.0)
    return out


@declare(_linear_relu_reference)
def linear_relu(
    x: Any, weight: Any, bias: Any = None, *, dropout: float = 0.0, generator: Generator | None = None
) -> Tensor:
    """dropout(relu(linear(x, weight, bias))) in one: the first half of a feed-forward network.

    Args:
        x, weight, bias: as `linear` takes them.
        dropout: probability of dropping a unit; the rest is scaled by 1 / (1 - dropout).
    """
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    if runs_kernels(*map(array_of, operands)):
        return _on_device("relu", operands, dropout, generator)
    return LinearReLU(dropout, generator or default_generator)(*operands)


_ACTIVATIONS = {"relu": relu, "gelu": gelu, "silu": silu}


def _linear_activation_reference(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, *, activation: str = "relu", **dropout: Any
) -> np.ndarray:
    out = OPS[activation].reference(_linear_reference(x, weight, bias))
    p, generator = dropout.get("dropout", 0.0), dropout.get("generator")
    return _dropout_reference(out, p, generator=generator) if p and generator is not None else out


@declare(_linear_activation_reference)
def linear_activation(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: str = "relu",
    dropout: float = 0.0,
    generator: Generator | None = None,
) -> Tensor:
    """dropout(activation(linear(x, weight, bias))): the first half of a feed-forward network; on a device one kernel
    beside the product.

    Args:
        activation: "relu", "gelu" or "silu".
        x, weight, bias, dropout: as `linear_relu` takes them.

    Raises ValueError for an unknown activation.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"linear_activation: {activation!r} is none of {', '.join(_ACTIVATIONS)}")
    if activation == "relu":
        return linear_relu(x, weight, bias, dropout=dropout, generator=generator)
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    if runs_kernels(*map(array_of, operands)):
        return _on_device(activation, operands, dropout, generator)
    return drop_out(_ACTIVATIONS[activation](linear(x, weight, bias)), dropout, generator=generator)


def _on_device(activation: str, operands: tuple[Any, ...], p: float, generator: Generator | None) -> Tensor:
    drop = drop_of(array_of(operands[0]), p, generator or default_generator) if p else NO_DROP

    def composed(*tensors: Tensor) -> Tensor:
        y = _ACTIVATIONS[activation](linear(*tensors))
        return DropoutOnDevice(drop)(y) if p else y

    return LinearActivationOnDevice(activation, drop, composed)(*operands)
