"""Launches of the kernels of a training step, except attention's. The functions take and return device arrays of
float16 or float32; the first array of each call is in row-major order. Sums are float32. A `DropoutKey` determines the
dropout mask, which is never stored.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, array_module
from .loading import launch, load_kernel

_THREADS = 256
_PIECE = 64  # of sorted ids, as in embedding.cu
_SCRATCH = 32 * 4  # bytes that a sum over a block needs
_FLAGS = 2 * 4  # bytes by which a block learns that it is the last
_MAX_SHARED = 48 * 1024
#: The widest rows that layer normalisation holds in shared memory.
WIDEST_ROW = (_MAX_SHARED - _SCRATCH - _FLAGS) // 8
#: The widest row that a warp holds in its registers.
WIDEST_OF_A_WARP = 1024
#: Blocks that share the rows of a backward pass: about two for each multiprocessor of a large device.
_BLOCKS = 264


class DropoutKey(NamedTuple):
    """The values that determine a dropout mask. Its fields are the seed, (1,) uint64 on the device, the number of the
    call, and the threshold, 65536 p.
    """

    seed: Array
    call: int
    threshold: int

    @property
    def scale(self) -> float:
        """The factor by which dropout multiplies the elements that it keeps."""
        return 65536 / (65536 - self.threshold) if self.threshold < 65536 else 0.0

    def arguments(self) -> tuple[Any, ...]:
        return self.seed, np.uint64(self.call), np.uint32(self.threshold), np.float32(self.scale)


#: Nothing is dropped, and no seed is read.
NO_DROPOUT = DropoutKey(None, 0, 0)


def is_half(x: Array) -> bool:
    return x.dtype == np.float16


def _launch(file: str, name: str, grid: Any, block: Any, args: Any, shared: int = 0, **constants: Any) -> None:
    launch(load_kernel(file, name, **constants), grid, block, args, shared)


# -- layer normalisation -----------------------------------------------------------------------------------------------


def layer_norm(
    x: Array, weight: Array, bias: Array, eps: float, residual: Array | None = None, drop: DropoutKey | None = None
) -> tuple[Array, Array, Array, Array]:
    """Normalise the rows of z, which is x or, if `residual` is given, residual + dropout(x).
    Return y, z and the rows' mean and 1 / standard deviation.

    x is (..., width) with at most `WIDEST_ROW` columns, `mean` and `rstd` are (rows,) float32.
    """
    xp, width = array_module(x), x.shape[-1]
    rows = x.size // width
    y, mean, rstd = xp.empty_like(x), xp.empty(rows, np.float32), xp.empty(rows, np.float32)
    z = x if residual is None else xp.empty_like(x)
    operands = _aligned(x), _aligned(weight), _aligned(bias)
    args: tuple[Any, ...] = (*operands, y, mean, rstd, np.int32(rows), np.int32(width), np.float32(eps))
    if residual is not None:
        args += (_aligned(residual), z, *(drop or NO_DROPOUT).arguments())
    constants = {"HALF": is_half(x), "RESIDUAL": int(residual is not None)}
    if rows and _fits_a_warp(width):
        constants["EIGHTS"] = -(-width // 256)
        _launch("normalization_warps.cu", "layer_norm_forward", (-(-rows // 4),), (128,), args, **constants)
    elif rows:
        threads = _row_threads(-(-width // 8) + 1)
        _launch("normalization.cu", "layer_norm_forward", (rows,), (threads,), args, _SCRATCH, **constants)
    return y, z, mean, rstd


def layer_norm_backward(
    g: Array,
    z: Array,
    weight: Array,
    mean: Array,
    rstd: Array,
    drop: DropoutKey | None = None,
    past: Array | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute the gradients of z, x, weight and bias from the gradient of y. Without `drop`, the gradients of x and z
    are equal. `past`, if given, is added to the gradient of z.
    """
    xp, width = array_module(g), g.shape[-1]
    rows = g.size // width
    dz, residual, of_warps = xp.empty_like(g), drop is not None or past is not None, _fits_a_warp(width)
    dx = dz if drop is None else xp.empty_like(g)
    dweight, dbias = xp.empty(width, g.dtype), xp.empty(width, g.dtype)
    blocks = max(min(-(-rows // 8) if of_warps else rows, _BLOCKS), 1)
    partial = xp.empty((blocks, 2, width), np.float32)
    args: tuple[Any, ...] = (_aligned(g), _aligned(z), _aligned(weight), mean, rstd, dz, dweight, dbias)
    args += (partial, _tickets(g), np.int32(rows), np.int32(width))
    if residual:
        # Without dropout dx is dz, written twice.
        args += (None if past is None else _aligned(past), dx, *(drop or NO_DROPOUT).arguments())
    constants = {"HALF": is_half(g), "RESIDUAL": int(residual)}
    shared = 8 * width + _FLAGS
    if of_warps:
        constants["EIGHTS"] = -(-width // 256)
        _launch("normalization_warps.cu", "layer_norm_backward", (blocks,), (256,), args, shared, **constants)
    else:
        threads = _row_threads(width)
        _launch("normalization.cu", "layer_norm_backward", (blocks,), (threads,), args, shared + _SCRATCH, **constants)
    return dz, dx, dweight, dbias


def _fits_a_warp(width: int) -> bool:
    """Return whether a warp can process a row: rows begin at multiples of 16 bytes, a lane stores up to 32 elements."""
    return width % 8 == 0 and width <= WIDEST_OF_A_WARP


def _row_threads(width: int) -> int:
    return min(_THREADS, -(-width // 32) * 32)


def column_sums(x: Array) -> Array:
    """Sum the rows of x (rows, width) in float32, in a fixed order. The sums are returned in x's dtype."""
    xp, (rows, width) = array_module(x), x.shape
    columns = -(-width // 256)
    chunks = max(min(_BLOCKS // columns, -(-rows // 8)), 1)
    out, partial = xp.empty(width, x.dtype), xp.empty((chunks, width), np.float32)
    args = (_aligned(x), out, partial, _tickets(x), np.int32(rows), np.int32(width), np.int32(-(-rows // chunks)))
    _launch("columns.cu", "column_sums", (columns, chunks), (32, 8), args, 4 * (8 * 256 + 1), HALF=is_half(x))
    return out


def _tickets(x: Array, least: int = _BLOCKS) -> Array:
    """Return at least `least` counters, by which a kernel identifies the last block of its launch; they are 0 between
    launches. All kernels of a device use one array of counters, so these kernels must not run on two streams at once.
    """
    return _tickets_of(array_module(x), x.device.id, max(least, _BLOCKS).bit_length())


@cache
def _tickets_of(xp: Any, device: int, bits: int) -> Array:
    return xp.zeros(1 << bits, np.uint32)  # never freed: a captured graph continues to use them


# -- dropout and feed-forward ------------------------------------------------------------------------------------------


def dropout_add(x: Array, drop: DropoutKey, residual: Array | None = None) -> Array:
    """Return dropout(x), plus `residual` if it is given. Dropout of the output's gradient gives the gradient of x."""
    out = array_module(x).empty_like(x)
    args: tuple[Any, ...] = (_aligned(x), out, np.int64(x.size), *drop.arguments())
    if residual is not None:
        args += (_aligned(residual),)
    _launch_eights("dropout_add", x, args, RESIDUAL=int(residual is not None))
    return out


#: The number of each activation in the kernel.
ACTIVATIONS = {"relu": 1, "gelu": 2, "silu": 3}


def bias_activation_dropout(
    x: Array, bias: Array | None, activation: str, drop: DropoutKey, out: Array | None = None
) -> Array:
    """Compute dropout(activation(x + bias)) for x (rows, width). `out` may be x itself."""
    out = array_module(x).empty_like(x) if out is None else out
    bias = None if bias is None else _aligned(bias)
    args = (_aligned(x), bias, out, np.int64(x.size), np.int32(x.shape[1]), *drop.arguments())
    _launch_eights("bias_activation_dropout", x, args, ACTIVATION=ACTIVATIONS[activation])
    return out


def bias_activation_dropout_backward(
    g: Array, x: Array, bias: Array | None, activation: str, drop: DropoutKey
) -> tuple[Array, Array]:
    """Return the gradients of x and bias in `bias_activation_dropout`. g is the gradient of the result."""
    dx = array_module(x).empty_like(x)
    bias = None if bias is None else _aligned(bias)
    args = (_aligned(g), _aligned(x), bias, dx, np.int64(x.size), np.int32(x.shape[1]), *drop.arguments())
    _launch_eights("bias_activation_dropout_backward", x, args, ACTIVATION=ACTIVATIONS[activation])
    return dx, column_sums(dx)


def _aligned(x: Array) -> Array:
    """Return x, or a copy in row-major order if x has gaps or does not start at a multiple of 16 bytes."""
    return x if x.data.ptr % 16 == 0 and x.flags.c_contiguous else x.copy()


def _launch_eights(name: str, x: Array, args: tuple[Any, ...], **constants: int) -> None:
    groups = -(-x.size // 8)
    if groups:
        _launch("dropout.cu", name, (-(-groups // _THREADS),), (_THREADS,), args, HALF=is_half(x), **constants)


# -- losses and embeddings ---------------------------------------------------------------------------------------------


def cross_entropy_rows(
    logits: Array,
    bias: Array | None,
    target: Array,
    ignored: int,
    smoothing: float,
    *,
    gradient: bool = False,
    factor: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the loss of each row of logits + bias into `out`, (rows,) float32.

    The loss is 0 where the target (int64) is `ignored`. If `gradient` is true, the logits are overwritten by their
    gradient, multiplied by `factor` (one float32 on the device) if `factor` is given. The logits must then start at a
    multiple of 16 bytes.
    """
    rows, classes = logits.shape
    loss = array_module(logits).empty(rows, np.float32) if out is None else out
    logits, bias = logits if gradient else _aligned(logits), None if bias is None else _aligned(bias)
    args = (logits, bias, target, loss, factor, np.int32(classes), np.int64(ignored), np.float32(smoothing))
    constants = {"HALF": is_half(logits), "GRADIENT": int(gradient)}
    if rows:
        threads = _row_threads(-(-classes // 8) + 1)
        _launch("cross_entropy.cu", "cross_entropy_rows", (rows,), (threads,), args, _SCRATCH, **constants)
    return loss


def total_loss(losses: Array, target: Array, ignored: int, dtype: Any, *, mean: bool) -> tuple[Array, Array | None]:
    """Return the sum of the rows' losses as an array () of `dtype`.
    If `mean` is true, return the mean over the targets that are not `ignored` instead.

    The second result is the number of these targets, (1,) float32 and at least 1, or None if `mean` is false.
    """
    xp = array_module(losses)
    total, count = xp.empty((), dtype), xp.empty(1, np.float32) if mean else None
    args = (losses, target, total, count, np.int32(len(losses)), np.int64(ignored))
    constants = {"HALF": np.dtype(dtype) == np.float16, "GRADIENT": 0}
    _launch("cross_entropy.cu", "total_loss", (1,), (_THREADS,), args, _SCRATCH, **constants)
    return total, count


def scale_gradients(g: Array, count: Array | None, gradients: Sequence[Array | None], dtype: Any) -> list[Array | None]:
    """Multiply up to three gradients by g / count in one launch.
    A gradient of `dtype` is changed in place; a float32 gradient is rounded to `dtype` in a new array.
    """
    xp, args, largest = array_module(g), [], 1
    found: list[Array | None] = []
    for x in gradients:
        out = x if x is None or x.dtype == dtype else xp.empty(x.shape, dtype)
        found.append(out)
        args += [x, out, np.int64(0 if x is None else x.size), np.int32(x is not out)]
        largest = max(largest, 0 if x is None else x.size)
    args += [None, None, np.int64(0), np.int32(0)] * (3 - len(found))
    grid = min(-(-largest // (8 * _THREADS)), 4 * _BLOCKS), len(found)
    constants = {"HALF": int(dtype == np.float16), "GRADIENT": 0}
    g = g if g.dtype == np.float32 else g.astype(np.float32)
    _launch("cross_entropy.cu", "scale_gradients", grid, (_THREADS,), (g, count, *args), **constants)
    return found


def embedding(table: Array, ids: Array, scale: float = 1.0) -> Array:
    """Compute scale * table[ids] for ids (count,) int64. The row of an id outside the table is NaN."""
    out = array_module(table).empty((len(ids), table.shape[1]), table.dtype)
    args = (_aligned(table), ids, out, *map(np.int32, table.shape), np.float32(scale))
    if len(ids):
        threads = _row_threads(-(-table.shape[1] // 8))
        _launch("embedding.cu", "embedding_forward", (len(ids),), (threads,), args, HALF=is_half(table))
    return out


def embedding_backward(g: Array, ids: Array, rows: int, scale: float = 1.0, padding: int | None = None) -> Array:
    """Compute the table's gradient (rows, width): add each row of g to the row of its id, unless it is `padding`."""
    xp, (count, width) = array_module(g), g.shape
    out = xp.empty((rows, width), g.dtype)
    if out.size:
        order = sorted_ids(ids, rows, padding)
        pieces, tiles = -(-count // _PIECE) if count > _PIECE else 0, -(-width // 256)
        partial = xp.empty((pieces, 2, width), np.float32)
        args = (_aligned(g), order, out, partial, _tickets(g, pieces * tiles), *map(np.int32, (count, rows, width)))
        grid, shared = (-(-rows // 8) + pieces, tiles), 4 * (8 * 256 + 1)
        name = "embedding_backward"
        _launch("embedding.cu", name, grid, (32, 8), (*args, np.float32(scale)), shared, HALF=is_half(g))
    return out


def sorted_ids(ids: Array, rows: int, padding: int | None = None) -> Array:
    """Return an array (4, count) uint32: the sorted ids, the position of each in `ids`, and scratch space. The sort is
    stable. The id `padding`, and every id outside 0 .. rows - 1, is replaced by `rows` and comes last.
    """
    count = len(ids)
    out = array_module(ids).empty((4, count), np.uint32)
    if count:
        numbers = np.int32(count), np.int32(rows), np.int64(-1 if padding is None else padding)
        warps, passes = min(-(-count // 128), 32), np.int32(-(-rows.bit_length() // 8))
        args = (ids, out, *numbers, passes)
        _launch("embedding.cu", "embedding_order", (1,), (32 * warps,), args, 4 * 257 * warps, HALF=False)
    return out
