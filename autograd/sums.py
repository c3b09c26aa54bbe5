"""Sums over axes, with an error near that of a pairwise sum along any axis.

NumPy sums pairwise along the axis that is contiguous in memory only. Along other axes it adds one row after another:
the float32 sum of 2^25 rows of ones is 2^24, and each smaller sum loses digits too. Every sum of an op or a backward
rule is therefore computed by `summed`, which adds blocks of rows first and then the results of the blocks in float64.
Where an element is added after the other by nature (running sums, sums at repeated indices), the sum itself is float64.
"""

import math
from typing import Any

import numpy as np

from .backend import array_module, is_array
from .half import HALF

#: The number of rows that are added one after another.
BLOCK = 16
#: Elements of an array that is added in float64 as it is, which takes longer than blocks for more.
FEW = 1 << 13
#: Bytes of consecutive rows that are added as one longer row: NumPy is slow for short rows.
LONG_ROW = 2048
#: The shortest and the longest rows that BLAS adds: it uses several threads for longer ones.
WIDTHS = 32, 576
_reduce: Any = np.add.reduce  # faster than the method `sum`, which calls it


def summed(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Sum an array or a Tensor over `axis` (all axes by default). float16 is accumulated in float32.

    The rounding error for an array on the CPU is a few ulps of the sum of the absolute values, however many elements
    are added and in whichever order they are in memory. CuPy's sums on a GPU are of this kind already.
    """
    if type(x) is not np.ndarray or x.dtype.char not in "fd":
        if is_array(x) and x.dtype == HALF:
            return summed(x.astype(np.float32), axis, keepdims).astype(np.float16)
        return x.sum(axis=axis, keepdims=keepdims)
    if x.size <= BLOCK or (
        # NumPy's own sum runs along the memory, or adds few numbers.
        x.flags.forc if axis is None
        else x.flags.c_contiguous and (axis == -1 or axis == x.ndim - 1 or (axis == 0 and len(x) <= BLOCK))
    ):  # fmt: skip
        return _reduce(x, axis, None, None, keepdims)
    if x.size <= FEW:
        return _reduce(x, axis, np.float64, None, keepdims).astype(x.dtype)
    if axis in (0, (0,)) and x.ndim == 2 and x.strides[1] == x.itemsize and WIDTHS[0] <= x.shape[1] <= WIDTHS[1]:
        total = _sum_of_rows(x)
        return total[None] if keepdims else total
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    for one in sorted(axes, key=lambda one: _stride(x, one), reverse=True):
        x = _sum_along(x, one)
    return x if keepdims else x.squeeze(axes)


def unbroadcast(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum `gradient` (an array or a Tensor) over the axes along which an array of `shape` was broadcast.

    This is the adjoint of broadcasting: a value used n times gets the sum of n gradients. float16 is summed in float32.
    Raises ValueError if `shape` does not broadcast to the gradient's shape.
    """
    extra = len(gradient.shape) - len(shape)
    spread = gradient.shape[max(extra, 0) :]
    if extra < 0 or any(size not in (1, full) for size, full in zip(shape, spread, strict=True)):
        raise ValueError(f"shape {shape} does not broadcast to the gradient's shape {gradient.shape}")
    stretched = (extra + axis for axis, size in enumerate(shape) if size == 1 and spread[axis] != 1)
    axes = (*range(extra), *stretched)
    return summed(gradient, axes, keepdims=True).reshape(shape) if axes else gradient


def _sum_of_rows(x: np.ndarray) -> np.ndarray:
    """Sum over the rows of a matrix. BLAS adds the rows of a block, as a product with ones, in half of NumPy's time."""
    whole = len(x) - len(x) % BLOCK
    parts = np.ones(BLOCK, x.dtype) @ x[:whole].reshape(-1, BLOCK, x.shape[1])
    total = _reduce(parts, 0, np.float64)
    if whole < len(x):
        total += _reduce(x[whole:], 0, np.float64)
    return total.astype(x.dtype, copy=False)


def _stride(x: np.ndarray, axis: int) -> float:
    """Return the distance between neighbours along an axis. Those of a broadcast axis are taken for far apart."""
    return abs(x.strides[axis]) or math.inf


def _sum_along(x: np.ndarray, axis: int) -> np.ndarray:
    """Sum over one axis, which is kept with length 1."""
    n, step = x.shape[axis], _stride(x, axis)
    nearest = x.strides[axis] and all(step <= _stride(x, other) for other in range(x.ndim) if x.shape[other] > 1)
    if n <= BLOCK or nearest:  # along the nearest neighbours in memory NumPy adds pairwise
        return x.sum(axis=axis, keepdims=True)
    # The axis becomes (blocks, BLOCK, rows): the rows of a block that are one longer row are added later.
    rows = max(min(LONG_ROW // max(abs(x.strides[axis]), 1), n // (4 * BLOCK)), 1)
    blocks = n // (BLOCK * rows)
    before, after = (slice(None),) * axis, x.shape[axis + 1 :]
    whole = x[(*before, slice(blocks * BLOCK * rows))].reshape(*x.shape[:axis], blocks, BLOCK, rows, *after)
    parts = np.add.reduce(whole, axis=axis + 1)
    total = parts.sum(axis=(axis, axis + 1), dtype=np.float64)
    if blocks * BLOCK * rows < n:
        total += x[(*before, slice(blocks * BLOCK * rows, None))].sum(axis=axis, dtype=np.float64)
    return np.expand_dims(total, axis).astype(x.dtype)


def running_dtype(x: Any) -> Any:
    """Return the dtype in which to add elements one after another: float64 for float32 on the CPU, where the error
    would grow with their number; float32 for float16.
    """
    return np.float64 if x.dtype == np.float32 and array_module(x) is np else np.float32 if x.dtype == HALF else None
