"""Diagonals and triangles of matrices."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..tensor import Tensor, array_of, shape_of
from .indexing import getitem
from .reduction import normalized_axes, sum
from .registry import declare
from .selection import where
from .shape import moveaxis


@declare(np.diagonal)
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a copy of the elements x[i, i + offset] of two axes, as the result's last axis. Raises ValueError unless
    axis1 and axis2 are two different axes of x.
    """
    shape = shape_of(x)
    if len(shape) < 2 or len(set(normalized_axes((axis1, axis2), len(shape)))) < 2:
        raise ValueError(f"axis1 and axis2 must be two different axes of x, not {axis1} and {axis2} for shape {shape}")
    rows, columns = np.arange(shape[axis1]), np.arange(shape[axis1]) + offset
    inside = (columns >= 0) & (columns < shape[axis2])
    return getitem(moveaxis(x, (axis1, axis2), (-2, -1)), (..., rows[inside], columns[inside]))


@declare(np.trace)
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the sum of the diagonal of two axes."""
    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


def _triangle(x: Any, k: int, lower: bool) -> Tensor:
    x, shape = Tensor(x) if isinstance(x, list) else x, shape_of(x)
    if len(shape) < 2:
        raise ValueError("tril and triu need an array of at least two dimensions")
    xp = array_module(array_of(x))
    distance = xp.arange(shape[-1]) - xp.arange(shape[-2])[:, None] - k  # CuPy's tri can't make booleans
    return where(distance <= 0 if lower else distance >= 0, x, x.dtype.type(0))


@declare(np.tril)
def tril(x: Any, k: int = 0) -> Tensor:
    """Return the lower triangles of matrices (..., rows, columns), with zeros above diagonal k."""
    return _triangle(x, k, lower=True)


@declare(np.triu)
def triu(x: Any, k: int = 0) -> Tensor:
    """Return the upper triangles of matrices (..., rows, columns), with zeros below diagonal k."""
    return _triangle(x, k, lower=False)
