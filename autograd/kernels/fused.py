"""Launching the kernels of a training step beside attention: each function takes and returns device arrays.

Arrays are contiguous, float16 or float32; sums are float32. Dropout is named by `Drop`: its mask is never stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, array_module
from .loading import load_kernel

_THREADS = 256
_SORT_THREADS = 64  # few, so that the ids of a small batch occupy many multiprocessors
_SCRATCH = 32 * 4  # bytes that a sum over a block needs
_MOST_SHARED = 48 * 1024
#: The widest rows that layer normalisation holds in shared memory.
WIDEST_ROW = (_MOST_SHARED - _SCRATCH) // 8
#: Blocks that share the rows of a backward pass: about two for each multiprocessor of a large device.
_BLOCKS = 264


class Drop(NamedTuple):
    """One call of dropout: its seed on the device, (1,) uint64, its number, the threshold (probability times 65536)."""

    seed: Array
    call: int
    threshold: int

    @property
    def scale(self) -> float:
        """What the kept elements are multiplied by."""
        return 65536 / (65536 - self.threshold) if self.threshold < 65536 else 0.0

    def arguments(self) -> tuple[Any, ...]:
        return self.seed, np.uint64(self.call), np.uint32(self.threshold), np.float32(self.scale)


#: Nothing is dropped, and no seed read.
NO_DROP = Drop(None, 0, 0)


def is_half(x: Array) -> bool:
    return x.dtype == np.float16


def _launch(file: str, name: str, grid: Any, block: Any, args: Any, shared: int = 0, **constants: Any) -> None:
    load_kernel(file, name, **constants)(grid, block, args, shared_mem=shared)


# -- layer normalisation -----------------------------------------------------------------------------------------------


def layer_norm(
    x: Array, weight: Array, bias: Array, eps: float, residual: Array | None = None, drop: Drop | None = None
) -> tuple[Array, Array, Array, Array]:
    """Normalise the rows of z = x, or of residual + dropout(x): y, z and the rows' mean and 1 / standard deviation.

    x is (rows, width); `mean` and `rstd` are (rows,) float32. Raises ValueError for rows beyond `WIDEST_ROW`.
    """
    xp, (rows, width) = array_module(x), x.shape
    if width > WIDEST_ROW:
        raise ValueError(f"layer_norm: rows of {width} elements don't fit into shared memory, at most {WIDEST_ROW}")
    y, mean, rstd = xp.empty_like(x), xp.empty(rows, np.float32), xp.empty(rows, np.float32)
    z = x if residual is None else xp.empty_like(x)
    args: tuple[Any, ...] = (_aligned(x), weight, bias, y, mean, rstd, np.int32(width), np.float32(eps))
    if residual is not None:
        args += (_aligned(residual), z, *(drop or NO_DROP).arguments())
    constants = {"HALF": is_half(x), "RESIDUAL": int(residual is not None)}
    if rows:
        threads = _row_threads(-(-width // 8) + 1)
        _launch("normalization.cu", "layer_norm_forward", (rows,), (threads,), args, _SCRATCH, **constants)
    return y, z, mean, rstd


def layer_norm_backward(
    g: Array, z: Array, weight: Array, mean: Array, rstd: Array, drop: Drop | None = None, past: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """From the gradient at y: those of z, of x (dropout's; z's own without `drop`), of weight and bias.

    `past`: what else reaches z.
    """
    xp, (rows, width) = array_module(g), g.shape
    dz, blocks, residual = xp.empty_like(g), max(min(rows, _BLOCKS), 1), drop is not None or past is not None
    dx = dz if drop is None else xp.empty_like(g)
    partial = xp.empty((2, blocks, width), np.float32)
    args: tuple[Any, ...] = (_aligned(g), _aligned(z), weight, mean, rstd, dz, partial, np.int32(rows), np.int32(width))
    if residual:
        # Without dropout dx is dz, written twice.
        args += (None if past is None else _aligned(past), dx, *(drop or NO_DROP).arguments())
    constants = {"HALF": is_half(g), "RESIDUAL": int(residual)}
    shared = 8 * width + _SCRATCH
    _launch("normalization.cu", "layer_norm_backward", (blocks,), (_row_threads(width),), args, shared, **constants)
    return dz, dx, *_sum_chunks(partial, g.dtype)


def _row_threads(width: int) -> int:
    return min(_THREADS, -(-width // 32) * 32)


def _sum_chunks(partial: Array, dtype: Any) -> list[Array]:
    """For partial (1 or 2, chunks, width) as many sums (width,), each an array of its own."""
    kinds, chunks, width = partial.shape
    out = [array_module(partial).empty(width, dtype) for _ in range(kinds)]
    args = (partial, out[0], out[-1], np.int32(chunks), np.int32(width))
    grid = (-(-width // _THREADS), kinds)
    _launch("columns.cu", "sum_chunks", grid, (_THREADS,), args, HALF=dtype == np.float16)
    return out


def column_sums(x: Array) -> Array:
    """The sum of the rows of x (rows, width), in x's dtype, added up in float32 in an order that never changes."""
    rows, width = x.shape
    columns = -(-width // 32)
    chunks = max(min(-(-_BLOCKS // columns), -(-rows // 8)), 1)
    partial = array_module(x).empty((1, chunks, width), np.float32)
    args = (x, partial, np.int32(rows), np.int32(width), np.int32(-(-rows // chunks)))
    _launch("columns.cu", "column_sums", (columns, chunks), (32, 8), args, 1024, HALF=is_half(x))
    return _sum_chunks(partial, x.dtype)[0]


# -- dropout and feed-forward ------------------------------------------------------------------------------------------


def dropout_add(x: Array, drop: Drop, residual: Array | None = None) -> Array:
    """dropout(x), plus `residual` if there is one. Applied to a gradient it is the backward pass."""
    out = array_module(x).empty_like(x)
    args: tuple[Any, ...] = (_aligned(x), out, np.int64(x.size), *drop.arguments())
    if residual is not None:
        args += (_aligned(residual),)
    _launch_eights("dropout_add", x, args, RESIDUAL=int(residual is not None))
    return out


#: Activations by the number that the kernel knows them by.
ACTIVATIONS = {"relu": 1, "gelu": 2, "silu": 3}


def bias_activation_dropout(x: Array, bias: Array, activation: str, drop: Drop, out: Array | None = None) -> Array:
    """dropout(activation(x + bias)) for x (rows, width); `out` may be x itself."""
    out = array_module(x).empty_like(x) if out is None else out
    args = (_aligned(x), bias, out, np.int64(x.size), np.int32(x.shape[1]), *drop.arguments())
    _launch_eights("bias_activation_dropout", x, args, ACTIVATION=ACTIVATIONS[activation])
    return out


def bias_activation_dropout_backward(
    g: Array, x: Array, bias: Array, activation: str, drop: Drop
) -> tuple[Array, Array]:
    """The gradients of x and bias from that of the result."""
    dx = array_module(x).empty_like(x)
    args = (_aligned(g), _aligned(x), bias, dx, np.int64(x.size), np.int32(x.shape[1]), *drop.arguments())
    _launch_eights("bias_activation_dropout_backward", x, args, ACTIVATION=ACTIVATIONS[activation])
    return dx, column_sums(dx)


def _aligned(x: Array) -> Array:
    """x, or a copy of it where it is a view that starts between two multiples of 16 bytes."""
    return x if x.data.ptr % 16 == 0 else x.copy()


def _launch_eights(name: str, x: Array, args: tuple[Any, ...], **constants: int) -> None:
    groups = -(-x.size // 8)
    if groups:
        _launch("dropout.cu", name, (-(-groups // _THREADS),), (_THREADS,), args, HALF=is_half(x), **constants)


# -- losses and embeddings ---------------------------------------------------------------------------------------------


def cross_entropy_rows(
    logits: Array, bias: Array, target: Array, factor: Array | None, ignored: int, smoothing: float
) -> Array:
    """The loss of each row (rows,) float32 of logits + bias; 0 where the target, int64, is `ignored`.

    With `factor` (one float32 on the device) the logits are overwritten by their gradient times it.
    """
    rows, classes = logits.shape
    xp = array_module(logits)
    loss = xp.empty(rows, np.float32)
    given = loss if factor is None else factor
    args = (logits, bias, target, loss, given, np.int32(classes), np.int64(ignored), np.float32(smoothing))
    constants = {"HALF": is_half(logits), "GRADIENT": int(factor is not None)}
    if rows:
        _launch("cross_entropy.cu", "cross_entropy_rows", (rows,), (_THREADS,), args, _SCRATCH, **constants)
    return loss


def embedding(table: Array, ids: Array, scale: float = 1.0) -> Array:
    """scale * table[ids] for ids (count,) int64; NaN for an id outside the table."""
    out = array_module(table).empty((len(ids), table.shape[1]), table.dtype)
    args = (table, ids, out, *map(np.int32, table.shape), np.float32(scale))
    if len(ids):
        threads = _row_threads(table.shape[1])
        _launch("embedding.cu", "embedding_forward", (len(ids),), (threads,), args, HALF=is_half(table))
    return out


def embedding_backward(g: Array, ids: Array, rows: int, scale: float = 1.0, padding: int | None = None) -> Array:
    """The gradient of the table (rows, width): each row of g (count, width) added at its id, none at `padding`."""
    xp, (count, width) = array_module(g), g.shape
    out, order = xp.zeros((rows, width), g.dtype), xp.empty(count, np.int64)
    numbers = (*map(np.int32, (count, rows, width)), np.float32(scale), np.int64(-1 if padding is None else padding))
    if count:
        half, grid = is_half(g), (-(-count // _SORT_THREADS),)
        args = (ids, order, np.int32(count))
        _launch("embedding.cu", "embedding_order", grid, (_SORT_THREADS,), args, 8 * _SORT_THREADS, HALF=half)
        args = (g, ids, order, out, *numbers)
        _launch("embedding.cu", "embedding_backward", (count, -(-width // 32)), (32, 8), args, 4 * 256, HALF=half)
    return out
