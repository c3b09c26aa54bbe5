"""The ops of a training step on device arrays: one kernel forward, one or two backward.

`layer_norm`, `dropout`, `embedding` and `cross_entropy` come here for float16 and float32 arrays on a device;
`composed` is the same op as the CPU computes it, which serves for second derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function, run
from ..kernels import fused
from ..kernels.fused import Drop
from ..random import Generator


def runs_kernels(*arrays: Any) -> bool:
    """Whether these are device arrays that the kernels take: all of one dtype, float16 or float32."""
    first = arrays[0]
    if isinstance(first, np.ndarray) or array_module(*arrays) is np:
        return False
    return first.dtype in (np.float16, np.float32) and all(array.dtype == first.dtype for array in arrays)


def contiguous_rows(x: Array) -> Array:
    """x as contiguous rows (n, width)."""
    return array_module(x).ascontiguousarray(x).reshape(-1, x.shape[-1])


def drop_of(x: Array, p: float, generator: Generator) -> Drop:
    """The generator's next call of dropout, on the device of x."""
    return Drop(*generator.next_call(x), round(p * 65536))


def fits(x: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...]) -> bool:
    """Whether rows of these shapes can be normalised by the kernel."""
    return x[-1:] == weight == bias and 0 < x[-1] <= fused.WIDEST_ROW and 0 not in x


class LayerNormOnDevice(Function):
    """LayerNorm of `normalization.py` for rows that fit into shared memory."""

    def __init__(self, eps, composed):
        self.eps, self.composed = eps, composed

    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        y, z, mean, rstd = fused.layer_norm(contiguous_rows(x), weight, bias, self.eps)
        self.keep(z, mean, rstd)
        return y.reshape(x.shape)

    def backward(self, g):
        rows, (z, mean, rstd) = contiguous_rows(g), self.kept
        _, dx, dweight, dbias = fused.layer_norm_backward(rows, z, self.saved[1], mean, rstd)
        return dx.reshape(g.shape), dweight, dbias


class ResidualLayerNormOnDevice(Function):
    """LayerNorm of residual + dropout(x), and the sum itself if `both`, in one kernel; without a `drop` nothing is
    dropped."""

    def __init__(self, drop, eps, both, composed):
        self.drop, self.eps, self.both, self.composed = drop, eps, both, composed

    def forward(self, x, residual, weight, bias):
        self.save(x, residual, weight, bias)
        rows, past = contiguous_rows(x), contiguous_rows(residual)
        y, z, mean, rstd = fused.layer_norm(rows, weight, bias, self.eps, past, self.drop)
        self.keep(z, mean, rstd)
        return (y.reshape(x.shape), z.reshape(x.shape)) if self.both else y.reshape(x.shape)

    def backward(self, g, past=None):
        (x, _, weight, _), (z, mean, rstd) = self.saved, self.kept
        g = array_module(x).zeros_like(x) if g is None else g
        past = None if past is None else contiguous_rows(past)
        dz, dx, dweight, dbias = fused.layer_norm_backward(contiguous_rows(g), z, weight, mean, rstd, self.drop, past)
        return dx.reshape(x.shape), dz.reshape(x.shape), dweight, dbias


class DropoutOnDevice(Function):
    """Dropout whose mask is drawn in the kernel, and again in the backward pass."""

    def __init__(self, drop):
        self.drop = drop

    def forward(self, x):
        xp = array_module(x)
        return fused.dropout_add(xp.ascontiguousarray(x), self.drop)

    def backward(self, g):
        return run(DropoutOnDevice(self.drop), g)


class DropoutAddOnDevice(Function):
    """residual + dropout(x) in one kernel."""

    def __init__(self, drop):
        self.drop = drop

    def forward(self, x, residual):
        if x.shape != residual.shape:
            raise ValueError(f"{x.dtype}{list(x.shape)} does not add to {residual.dtype}{list(residual.shape)}")
        xp = array_module(x)
        return fused.dropout_add(xp.ascontiguousarray(x), self.drop, xp.ascontiguousarray(residual))

    def backward(self, g):
        return run(DropoutOnDevice(self.drop), g), g


class CrossEntropyOnDevice(Function):
    """CrossEntropy of `loss.py` without class weights: nothing of the logits' size is held in float32.

    The gradient is written over a copy of the logits, in the backward pass.
    """

    def __init__(self, target, ignore_index, reduction, label_smoothing, composed):
        self.target, self.ignore_index, self.reduction = target, ignore_index, reduction
        self.label_smoothing, self.composed = label_smoothing, composed

    def forward(self, logits):
        self.save(logits)
        xp = array_module(logits)
        rows = contiguous_rows(logits)
        loss = self.losses(rows, None)
        if self.reduction == "sum":
            return loss.sum().astype(logits.dtype)
        real = (self.target != self.ignore_index).sum()
        self.keep(xp.maximum(real, 1).astype(np.float32))
        divisor = xp.where(real == 0, np.float32(np.nan), self.kept[0])  # the mean over no target is no number
        return (loss.sum() / divisor).astype(logits.dtype)

    def losses(self, rows, factor):
        bias = array_module(rows).zeros(rows.shape[1], rows.dtype)
        return fused.cross_entropy_rows(rows, bias, self.target, factor, self.ignore_index, self.label_smoothing)

    def backward(self, g):
        (logits,) = self.saved
        factor = g.astype(np.float32)
        if self.reduction == "mean":
            factor = factor / self.kept[0]
        gradient = contiguous_rows(logits).copy()
        self.losses(gradient, factor.reshape(1))
        return gradient.reshape(logits.shape)


class EmbeddingOnDevice(Function):
    """Embedding of `embedding.py`: the gradient is summed in float32, row by row of the table."""

    def __init__(self, ids, padding_id, composed):
        self.ids, self.padding_id, self.composed = ids, padding_id, composed

    def forward(self, table):
        self.save(table)
        self.rows = len(table)
        flat = self.flat_ids()
        return fused.embedding(array_module(table).ascontiguousarray(table), flat).reshape(*self.ids.shape, -1)

    def flat_ids(self):
        return array_module(self.ids).ascontiguousarray(self.ids.reshape(-1).astype(np.int64, copy=False))

    def backward(self, g):
        return fused.embedding_backward(contiguous_rows(g), self.flat_ids(), self.rows, padding=self.padding_id)
