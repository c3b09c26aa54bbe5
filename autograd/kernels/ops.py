"""The ops of a training step by CUDA kernels: one kernel in the forward pass, one or two in the backward pass.

They replace the plain implementations of `layer_norm`, `residual_layer_norm`, `dropout`, `dropout_add`, `cross_entropy`
and `embedding` for float16 and float32 arrays on a device. A kernel reads and writes each array once, whereas separate
NumPy calls read and write arrays in each step of a formula. `@implements` names the condition of each implementation.
"""

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function, run
from ..ops.dropout import Dropout, dropout_add_plain
from ..ops.embedding import Embedding
from ..ops.linalg import contiguous_rows
from ..ops.loss import cross_entropy_plain
from ..ops.normalization import LayerNorm, residual_layer_norm_plain
from ..ops.registry import QuickImplementation, all_of, implements
from ..random import Generator, ReplayedMask
from ..tensor import array_of
from . import fused
from .fused import DropoutKey


def by_kernels(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the arrays are on a device and of one dtype, float16 or float32."""
    first = arrays[0]
    if array_module(*arrays) is np:
        return "the arrays are on the CPU"
    if first.dtype not in (np.float16, np.float32) or any(array.dtype != first.dtype for array in arrays):
        return f"the kernels take float16 or float32, all of one kind, not {', '.join(str(a.dtype) for a in arrays)}"
    return None


def contiguous(x: Array) -> Array:
    """Return x in row-major order. Unlike CuPy's function, this keeps the shape of an array without axes."""
    return x if x.flags.c_contiguous else array_module(x).ascontiguousarray(x)


def dropout_key(x: Array, p: float, generator: Generator) -> DropoutKey:
    """Return the key of the generator's next call of dropout, on the device of x."""
    return DropoutKey(*generator.next_call(x), round(p * 65536))


def mask_again(drop: DropoutKey | None, shape: tuple[int, ...], like: Array) -> ReplayedMask:
    """Return the factors by which a call of dropout multiplies, as an array for the plain implementation."""
    return ReplayedMask(
        None if drop is None else fused.dropout_add(array_module(like).ones(shape, like.dtype), drop), 1.0
    )


def in_shared_memory(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the rows of the arrays fit into shared memory."""
    x, weight, bias = (array.shape for array in arrays[-3:])
    if x[-1:] == weight == bias and 0 < x[-1] <= fused.WIDEST_ROW and 0 not in x:
        return None
    return f"rows of {x[-1:]} with weight {weight} and bias {bias}: it takes 1 to {fused.WIDEST_ROW}, none empty"


@implements(LayerNorm, "device", all_of(by_kernels, in_shared_memory))
class LayerNormOnDevice(QuickImplementation):
    """The op LayerNorm of `normalization.py` for rows that fit into shared memory."""

    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        y, *kept = fused.layer_norm(contiguous(x), weight, bias, self.eps)
        self.keep(*kept)
        return y

    def backward(self, g):
        return fused.layer_norm_backward(contiguous(g), self.kept[0], self.saved[1], *self.kept[1:])[1:]


@implements(residual_layer_norm_plain, "device", all_of(by_kernels, in_shared_memory))
class ResidualLayerNormOnDevice(QuickImplementation):
    """LayerNorm of residual + dropout(x), in one kernel. If `both` is true, it also returns residual + dropout(x)."""

    def forward(self, x, residual, weight, bias):
        self.save(x, residual, weight, bias)
        self.drop = dropout_key(x, self.p, self.generator) if self.p else None
        y, *kept = fused.layer_norm(contiguous(x), weight, bias, self.eps, residual, self.drop)
        self.keep(*kept)
        return (y, kept[0]) if self.both else y

    def backward(self, g, past=None):
        (x, _, weight, _), (z, mean, rstd) = self.saved, self.kept
        g = array_module(x).zeros_like(x) if g is None else g
        dz, dx, dweight, dbias = fused.layer_norm_backward(contiguous(g), z, weight, mean, rstd, self.drop, past)
        return dx, dz, dweight, dbias

    def dropout_mask(self):
        return mask_again(self.drop, self.saved[0].shape, array_of(self.saved[0]))


@implements(Dropout, "device", by_kernels)
class DropoutOnDevice(QuickImplementation):
    """Dropout, and the addition of a residual if there is one, by a kernel that draws the mask again in backward."""

    composed: Any = None

    def forward(self, x, *residual):
        self.drop = dropout_key(x, self.p, self.generator)
        return fused.dropout_add(contiguous(x), self.drop, *residual)

    def backward(self, g):
        return (run(SameDrop(self.drop), g), g)[: len(self.inputs)]


@implements(dropout_add_plain, "device", by_kernels)
class DropoutAddOnDevice(DropoutOnDevice):
    pass


class SameDrop(Function):
    """Dropout with the mask of an earlier call."""

    def __init__(self, drop):
        self.drop = drop

    def forward(self, x):
        return fused.dropout_add(contiguous(x), self.drop)

    def backward(self, g):
        return run(SameDrop(self.drop), g)


def by_kernels_without_weights(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Return the reason why the kernels of cross-entropy don't support the arrays and options, or None if they do."""
    weighted = options.get("weight", options.get("class_weight")) is not None
    if weighted or options["reduction"] == "none" or not arrays[0].size:
        return "the kernel takes no class weights, no reduction 'none' and no empty array"
    return by_kernels(arrays, options)


@implements(cross_entropy_plain, "device", by_kernels_without_weights)
class CrossEntropyOnDevice(QuickImplementation):
    """The op CrossEntropy of `loss.py` without class weights. No array of the logits' size is stored in float32. The
    backward pass overwrites a copy of the logits by their gradient.
    """

    float16 = "mixed"
    target: Any

    def forward(self, logits):
        self.target = array_module(logits).ascontiguousarray(self.target.astype(np.int64, copy=False))
        self.save(logits)
        losses = self.losses(contiguous_rows(logits))
        mean = self.reduction == "mean"
        loss, count = fused.total_loss(losses, self.target, self.ignore_index, logits.dtype, mean=mean)
        self.keep(count)
        return loss

    def losses(self, rows, **options):
        return fused.cross_entropy_rows(rows, None, self.target, self.ignore_index, self.label_smoothing, **options)

    def backward(self, g):
        ((logits,), (count,)), factor = (self.saved, self.kept), g.astype(np.float32, copy=False)
        gradient = contiguous_rows(logits).copy()
        self.losses(gradient, gradient=True, factor=factor if count is None else factor / count)
        return gradient.reshape(logits.shape)


def by_kernels_of_a_table(arrays: list[Any], options: dict[str, Any]) -> str | None:
    return by_kernels(arrays, options) if arrays[0].size else "the table is empty"


@implements(Embedding, "device", by_kernels_of_a_table)
class EmbeddingOnDevice(QuickImplementation):
    """The op Embedding of `embedding.py`. Each row of the table's gradient is summed in float32."""

    def forward(self, table):
        self.save(table)
        self.rows = len(table)
        flat = self.flat_ids()
        return fused.embedding(contiguous(table), flat, self.scale).reshape(*self.ids.shape, table.shape[1])

    def flat_ids(self):
        return array_module(self.ids).ascontiguousarray(self.ids.reshape(-1).astype(np.int64, copy=False))

    def backward(self, g):
        return fused.embedding_backward(contiguous_rows(g), self.flat_ids(), self.rows, self.scale, self.padding_id)
