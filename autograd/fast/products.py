"""Matrix products and Einstein summation on several threads: replaces `product` of linalg.py and einsum.py."""

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..ops import linalg
from ..ops.einsum import product as einsum_product
from ..quick import replaces
from .parallel import FLOPS, MIN_SHARED, MIN_SHARED_VECTOR, one_blas_thread, parallel_for

#: A product of fewer multiplications is not divided among threads: it takes less than 50 microseconds.
MIN_DIVIDED = 1 << 21


@replaces(linalg.product)
def divided_product(x: Any, y: Any, out: Any = None) -> Any:
    """Return x @ y for matrices or stacks of matrices. If `out` is given, write into it.
    The rows or columns of a large product are divided among threads.
    """
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
