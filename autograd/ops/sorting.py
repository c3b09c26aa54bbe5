"""Sorting along an axis.
Indices have no gradient. The gradient of a sorted value is the gradient of the input element with this value.
"""

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..tensor import Tensor, array_of, shape_of
from .indexing import take_along_axis
from .reduction import normalized_axes
from .registry import declare
from .shape import ravel


def _order(x: Any, axis: int, descending: bool = False) -> Array:
    """Return the indices of the sorted elements. Equal ones keep their order, and NaN is larger than any number."""
    x = array_of(x)
    xp = array_module(x)
    if descending:  # the ascending order of the flipped array, flipped: so equal elements stay in their order
        return np.shape(x)[axis] - 1 - xp.flip(_order(xp.flip(x, axis), axis), axis)
    # CuPy's argsort takes no `kind`; it is always stable.
    return np.argsort(x, axis=axis, kind="stable") if xp is np else xp.argsort(x, axis=axis)


@declare(lambda x, axis=-1: np.argsort(x, axis=axis, kind="stable"))
def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """Return the indices that sort x along `axis`, of the flattened x for None, without a gradient."""
    if axis is None:
        x, axis = ravel(x), 0
    normalized_axes(axis, len(shape_of(x)))
    return Tensor(_order(x, axis))


@declare(np.sort)
def sort(x: Any, axis: int | None = -1) -> Tensor:
    """Return the elements of x in ascending order along `axis`, of the flattened x for None; NaN last."""
    if axis is None:
        x, axis = ravel(x), 0
    normalized_axes(axis, len(shape_of(x)))
    return take_along_axis(x, _order(x, axis), axis)


def _topk_reference(x: np.ndarray, k: int, axis: int = -1, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-x if largest else x, axis=axis)
    indices = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, indices, axis), indices


@declare(_topk_reference)
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the values and the indices of the k largest (or smallest) elements along `axis`, starting with the largest
    (or smallest).

    Equal elements keep their order, as in `argmax`; NaN is larger than any number, as in `sort`.
    Raises ValueError unless 0 <= k <= size of the axis.
    """
    shape = shape_of(x)
    (axis,) = normalized_axes(axis, len(shape))
    if not 0 <= k <= shape[axis]:
        raise ValueError(f"topk: k = {k} is out of range for axis {axis} of shape {shape}")
    indices = _order(x, axis, descending=largest)[(*(slice(None),) * axis, slice(k))]
    return take_along_axis(x, indices, axis), Tensor(indices)
