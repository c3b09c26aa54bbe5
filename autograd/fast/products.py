"""Matrix products and Einstein summation on several threads: replaces `product` of linalg.py and einsum.py.

`multiply` is the product that the linear layers compute in each thread: by NumPy's library or MKL, or in bfloat16.
"""

import functools
import math
from typing import Any

import numpy as np

from .. import bfloat16 as plainly
from ..backend import array_module
from ..bfloat16 import rounded, rounding, rounds
from ..ops import linalg
from ..ops.einsum import product as einsum_product
from ..quick import replaces
from ..sums import summed
from . import compiled, mkl
from .parallel import FLOPS, MIN_SHARED, MIN_SHARED_VECTOR, one_blas_thread, parallel_for

#: A product of fewer multiplications is not divided among threads: it takes less than 50 microseconds.
MIN_DIVIDED = 1 << 21


# -- bfloat16 ----------------------------------------------------------------------------------------------------------


@functools.cache
def no_instructions() -> str | None:
    """Return the reason why the processor's instructions for bfloat16 are not used, or None if they are."""
    if why := compiled.missing():
        return why
    from llvmlite import binding
    from numba import config

    chosen: Any = config
    if chosen.CPU_NAME or chosen.CPU_FEATURES:
        return "Numba compiles for another processor: NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set"
    return None if binding.get_host_cpu_features().get("avx512bf16") else "this processor has no AVX512-BF16"


@functools.cache
def _loops() -> Any:
    from . import bfloat16  # imports Numba

    return bfloat16


@replaces(plainly.bfloat16_carried_out)
def bfloat16_carried_out() -> str:
    if why := no_instructions():
        return f"rounds the operands and multiplies in float32, which is slower than fp32 ({why})"
    return "multiplies by the processor's AVX512-BF16 instructions"


class Packed:
    """The right operand (k, n) of products, rounded to bfloat16 and packed once for all threads and parts."""

    def __init__(self, b: np.ndarray):
        self.shape = b.shape
        inner, columns = self.shape
        b, stride, along = _lines(b, inner_axis=0)
        strips = -(-columns // _loops().COLUMNS)
        self.bits = np.empty(-(-inner // 2) * strips * _loops().COLUMNS, np.uint32)

        def some_strips(start: int, stop: int) -> None:
            _loops().pack_right(b.ctypes.data, stride, along, inner, columns, self.bits, start, stop)

        parallel_for(np, strips, some_strips, cost=0.5 * inner * _loops().COLUMNS)


def _lines(x: np.ndarray, inner_axis: int) -> tuple[np.ndarray, int, bool]:
    """Return a matrix whose rows or columns are contiguous, a copy if need be; the distance of these lines; and whether
    they run along the axis.
    """
    for axis in (inner_axis, 1 - inner_axis):
        along, across = x.strides[axis], x.strides[1 - axis]
        if along == 4 and across % 4 == 0 and across >= 0:
            return x, across // 4, axis == inner_axis
    x = np.ascontiguousarray(x)
    return x, x.shape[1], inner_axis == 1


def right_operand(b: np.ndarray) -> Any:
    """Return what `multiply` takes as b, if several parts multiply by the same matrix."""
    return b if not rounds(b) else rounded(b) if no_instructions() else Packed(b)


def multiply(a: np.ndarray, b: Any, out: np.ndarray, add: bool = False) -> None:
    """Compute out = a @ b for a (m, k) and a matrix or `right_operand` b (k, n); or add the product to `out`.

    `out` (m, n) must share no memory with a or b, and the numbers of a row must be contiguous.
    """
    if not isinstance(b, Packed):
        if not rounds(a, b, out):
            mkl.multiply(a, b, out, add)
            return
        b = right_operand(b)
    if isinstance(b, Packed):
        inner, columns = b.shape
        if not inner and not add:
            out[...] = 0
        rows, stride, along = _lines(a, inner_axis=1)
        _loops().multiply(
            rows.ctypes.data, stride, along, b.bits, out.ctypes.data, out.strides[0] // 4, len(a), inner, columns, add
        )
    else:
        mkl.multiply(rounded(a), b, out, add)


#: The number of rows of which BLAS computes one sum: its error grows with this number.
SUMMED_ROWS = 64


def sum_of_rows(x: np.ndarray) -> np.ndarray:
    """Return the sum of the rows of x (rows, columns). BLAS adds some rows, and their sums are added in float64."""
    blocks = len(x) // SUMMED_ROWS
    if not blocks:
        return summed(x, 0)
    whole = x[: blocks * SUMMED_ROWS].reshape(blocks, SUMMED_ROWS, x.shape[1])
    total = np.matmul(np.ones((1, SUMMED_ROWS), x.dtype), whole).sum(axis=(0, 1), dtype=np.float64)
    return (total + x[blocks * SUMMED_ROWS :].sum(axis=0, dtype=np.float64)).astype(x.dtype)


# -- products and Einstein summation -----------------------------------------------------------------------------------


@replaces(linalg.product)
def divided_product(x: Any, y: Any, out: Any = None) -> Any:
    """Return x @ y for matrices or stacks of matrices. If `out` is given, write into it.
    The rows or columns of a large product are divided among threads.
    """
    if rounding.get() and rounds(x, y):  # the first alone takes less time, which matters for small products
        return _bfloat16_product(x, y, np.empty((len(x), y.shape[1]), np.float32) if out is None else out)
    multiplications = x.size * y.shape[-1]
    if multiplications < MIN_SHARED_VECTOR or not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return x @ y if out is None else array_module(x, y).matmul(x, y, out=out)
    rows, columns = x.shape[-2], y.shape[-1]
    if multiplications <= MIN_SHARED and min(rows, columns) > 1:
        return np.matmul(x, y, out=out)
    if multiplications < MIN_DIVIDED:
        with one_blas_thread:
            return np.matmul(x, y, out=out)
    if out is None:
        out = np.empty((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), rows, columns), np.result_type(x, y))

    def some_rows(start: int, stop: int) -> None:
        np.matmul(x[..., start:stop, :], y, out=out[..., start:stop, :])

    def some_columns(start: int, stop: int) -> None:
        np.matmul(x, y[..., start:stop], out=out[..., start:stop])

    longer = max(rows, columns)
    cost = multiplications / FLOPS + (x.size + y.size) / 10  # nanoseconds, with reading the operands
    parallel_for(np, longer, some_rows if rows == longer else some_columns, cost=cost / longer)
    return out


def _bfloat16_product(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> np.ndarray:
    right = right_operand(y)
    parallel_for(np, len(x), lambda start, stop: multiply(x[start:stop], right, out[start:stop]), y.size / FLOPS)
    return out


@replaces(einsum_product)
def divided_einsum(equation: str, *arrays: Any) -> Any:
    """Compute the sum of products. The longest axis of a large result of two operands is divided among threads."""
    (*inputs, output), sizes = equation.replace("->", ",").split(","), dict[str, int]()
    for letters, array in zip(inputs, arrays, strict=True):
        for letter, size in zip(letters, array.shape, strict=True):
            if size != 1 or letter not in sizes:
                sizes[letter] = size
    multiplications = math.prod(sizes.values())
    if array_module(*arrays) is not np or multiplications < MIN_SHARED_VECTOR:
        return array_module(*arrays).einsum(equation, *arrays, optimize=True)
    if not output or multiplications < MIN_DIVIDED or len(arrays) > 2:
        with one_blas_thread:
            return np.einsum(equation, *arrays, optimize=True)
    divided = max(output, key=lambda letter: sizes[letter])
    out = np.empty([sizes[letter] for letter in output], np.result_type(*arrays))

    def part(start: int, stop: int) -> None:
        some = [_slice(array, own.find(divided), start, stop) for own, array in zip(inputs, arrays, strict=True)]
        _slice(out, output.index(divided), start, stop)[...] = np.einsum(equation, *some, optimize=True)

    parallel_for(np, sizes[divided], part, cost=multiplications / FLOPS / sizes[divided])
    return out


def _slice(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    """Return the elements start to stop of an axis. Return the whole array for axis -1 or if its size there is 1."""
    return array[(slice(None),) * axis + (slice(start, stop),)] if axis >= 0 and array.shape[axis] > 1 else array
