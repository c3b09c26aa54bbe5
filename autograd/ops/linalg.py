"""Matrix products, computed as few, large, two-dimensional products by BLAS and cuBLAS."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import integers
from ..backend import array_module
from ..bfloat16 import rounded, rounds
from ..function import Function
from ..quick import replaceable
from ..tensor import Tensor, shape_of
from .elementwise import multiply
from .reduction import normalized_axes
from .registry import declare
from .shape import reshape, transpose


def rows_of(x: Any) -> Any:
    """Reshape (..., features) to (rows, features). The number of rows isn't -1, which fails for empty arrays."""
    return x if len(x.shape) == 2 else x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


@replaceable
def product(x: Any, y: Any, out: Any = None) -> Any:
    """Return x @ y for matrices or stacks of matrices. If `out` is given, write into it."""
    if rounds(x, y):
        x, y = rounded(x), rounded(y)
    return x @ y if out is None else array_module(x, y).matmul(x, y, out=out)


def contiguous_rows(x: Any) -> Any:
    """Return `rows_of(x)` in row-major order."""
    return array_module(x).ascontiguousarray(rows_of(x))


def transposed(x: Any) -> Any:
    """Exchange the last two axes."""
    return x.T if len(x.shape) == 2 else x.swapaxes(-1, -2)


class MatMul(Function):
    """x @ y for operands with at least two dimensions; dx = g @ y^T and dy = x^T @ g, on the last two axes."""

    broadcasts = True  # the leading axes

    def forward(self, x, y):
        self.save(x, y)
        if y.ndim == 2 and x.ndim > 2:
            # NumPy would compute one product for each matrix of the stack; a single product of all rows is much faster.
            return product(rows_of(x), y).reshape((*x.shape[:-1], y.shape[-1]))
        return product(x, y)

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        gradient_x = gradient_y = None
        if y.ndim == 2 and x.ndim > 2:
            rows = rows_of(g)
            if needs_x:
                gradient_x = product(rows, y.T).reshape(x.shape)
            if needs_y:
                gradient_y = product(rows_of(x).T, rows)
        else:
            if needs_x:
                gradient_x = product(g, transposed(y))
            if needs_y:
                gradient_y = product(transposed(x), g)
        return gradient_x, gradient_y


@declare(np.matmul)
def matmul(x: Any, y: Any) -> Tensor:
    """Compute x @ y: (..., m, k) @ (..., k, n) -> (..., m, n). A 1-d operand is a row if it is x, and a column if it is
    y. Raises ValueError for a 0-d operand or sizes that don't fit.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.data.ndim > 1 and y.data.ndim > 1:
        return MatMul()(x, y)  # the usual case, first: for small products the checks below take a noticeable time
    x_shape, y_shape = shape_of(x, "matmul"), shape_of(y, "matmul")
    if not (x_shape and y_shape):
        raise ValueError(f"matmul: shapes {x_shape} and {y_shape}: multiply by a number with *")
    if len(x_shape) != 1 and len(y_shape) != 1:
        return MatMul()(x, y)
    if x_shape[-1] != (y_shape[0] if len(y_shape) == 1 else y_shape[-2]):
        raise ValueError(f"matmul: shapes {x_shape} and {y_shape} don't fit")
    rows = x if len(x_shape) != 1 else reshape(x, (1, x_shape[0]))
    columns = y if len(y_shape) != 1 else reshape(y, (y_shape[0], 1))
    out = MatMul()(rows, columns)
    return out.reshape(out.shape[: -2 if len(x_shape) == 1 else -1] + (() if len(y_shape) == 1 else out.shape[-1:]))


@declare(np.outer)
def outer(x: Any, y: Any) -> Tensor:
    """Compute x_i y_j for all pairs of elements of the flattened x and y: (x.size, y.size)."""
    return multiply(reshape(x, (math.prod(shape_of(x, "outer")), 1)), reshape(y, (math.prod(shape_of(y, "outer")),)))


@declare(np.tensordot, composed=True)
def tensordot(x: Any, y: Any, axes: int | Sequence[Any] = 2) -> Tensor:
    """Sum the products of x and y over pairs of axes. If `axes` is a number, the last `axes` axes of x are paired with
    the first axes of y. Otherwise `axes` is two lists of paired axes. The result has the remaining axes of x, then the
    remaining axes of y. Raises ValueError for axes that don't fit.
    """
    x_shape, y_shape = shape_of(x, "tensordot"), shape_of(y, "tensordot")
    pairs = integers("tensordot: axes", axes).tolist()
    if isinstance(pairs, int):
        axes = pairs
        if not 0 <= axes <= min(len(x_shape), len(y_shape)):
            raise ValueError(f"tensordot: shapes {x_shape} and {y_shape} don't have {axes} axes each")
        over_x, over_y = tuple(range(len(x_shape) - axes, len(x_shape))), tuple(range(axes))
    else:
        if len(pairs) != 2:
            raise ValueError(f"tensordot: axes must be a number or two lists of axes, not {axes}")
        over_x, over_y = normalized_axes(pairs[0], len(x_shape)), normalized_axes(pairs[1], len(y_shape))
    if [x_shape[a] for a in over_x] != [y_shape[a] for a in over_y]:
        raise ValueError(f"tensordot: shapes {x_shape} and {y_shape} don't fit along axes {axes}")
    kept_x = tuple(a for a in range(len(x_shape)) if a not in over_x)
    kept_y = tuple(a for a in range(len(y_shape)) if a not in over_y)
    rows, columns = tuple(x_shape[a] for a in kept_x), tuple(y_shape[a] for a in kept_y)
    summed = math.prod(x_shape[a] for a in over_x)
    left = reshape(transpose(x, kept_x + over_x), (math.prod(rows), summed))
    right = reshape(transpose(y, over_y + kept_y), (summed, math.prod(columns)))
    return MatMul()(left, right).reshape(rows + columns)


@declare(np.dot)
def dot(x: Any, y: Any) -> Tensor:
    """Compute NumPy's dot: the inner product of vectors, the product of matrices, or the product of a number and an
    array. In general, sum over the last axis of x and the second to last axis of y. Raises ValueError for shapes that
    don't fit.
    """
    x_ndim, y_ndim = len(shape_of(x, "dot")), len(shape_of(y, "dot"))
    if x_ndim == 0 or y_ndim == 0:
        return multiply(x, y)
    return tensordot(x, y, ((x_ndim - 1,), (max(y_ndim - 2, 0),)))


@declare(np.inner, composed=True)
def inner(x: Any, y: Any) -> Tensor:
    """Sum products of x and y over the last axis of both. Raises ValueError for shapes that don't fit."""
    x_ndim, y_ndim = len(shape_of(x, "inner")), len(shape_of(y, "inner"))
    if x_ndim == 0 or y_ndim == 0:
        return multiply(x, y)
    return tensordot(x, y, ((x_ndim - 1,), (y_ndim - 1,)))
