"""Reading and writing elements by NumPy's indices; each is the other's backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..engine import is_grad_enabled
from ..function import Function, run
from ..tensor import Tensor
from .registry import declare


def plain_index(index: Any) -> Any:
    """The index with Tensors in it turned into their arrays."""
    if isinstance(index, tuple):
        return tuple(plain_index(part) for part in index)
    return index.data if isinstance(index, Tensor) else index


def _is_basic(index: Any) -> bool:
    """Only integers, slices, None and Ellipsis: no element is named twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, int | np.integer | slice) for part in parts)


def add_at(target: Array, index: Any, values: Array) -> None:
    """target[index] += values, in place, counting an element as often as the index names it."""
    if _is_basic(index):
        target[index] += values
    elif array_module(target) is np:
        np.add.at(target, index, values)
    else:
        import cupyx

        cupyx.scatter_add(target, index, values)


class GetItem(Function):
    def __init__(self, index):
        self.index = index

    def forward(self, x):
        self.shape = x.shape
        return x[self.index]

    def backward(self, g):
        return run(PutInZeros(self.index, self.shape), g)


class PutInZeros(Function):
    """Zeros of a shape, with values added at an index: the backward of reading there."""

    def __init__(self, index, shape):
        self.index, self.shape = index, shape

    def forward(self, values):
        out = array_module(values).zeros(self.shape, dtype=values.dtype)
        add_at(out, self.index, values)
        return out

    def backward(self, g):
        return g[self.index]


@declare(lambda x, index: x[index])
def getitem(x: Any, index: Any) -> Tensor:
    """x[index], with slices, None, Ellipsis, integers, integer arrays and boolean masks as in NumPy."""
    return GetItem(plain_index(index))(x)


class SetItem(Function):
    """A copy of x with x[index] = value."""

    broadcasts = True

    def __init__(self, index):
        self.index = index

    def forward(self, x, value):
        out = x.copy()
        out[self.index] = value
        if not _is_basic(self.index):
            _refuse_duplicates(self.index, x.shape)
        return out

    def backward(self, g):
        return run(ZeroAt(self.index), g), g[self.index]


class ZeroAt(Function):
    """A copy of x with zeros at an index."""

    def __init__(self, index):
        self.index = index

    def forward(self, x):
        out = x.copy()
        out[self.index] = 0
        return out

    def backward(self, g):
        return run(ZeroAt(self.index), g)


def _refuse_duplicates(index: Any, shape: tuple[int, ...]) -> None:
    """Which of two values wins at a place named twice is undefined on a GPU, and with it the gradient."""
    size = int(np.prod(shape))
    places = np.arange(size).reshape(shape)[index] if size else np.empty(0)
    if np.unique(places).size != places.size:
        raise IndexError(
            "the index names an element twice; which value would stay is undefined. Use scatter_add to add them"
        )


def _setitem_reference(x: np.ndarray, index: Any, value: Any) -> np.ndarray:
    out = x.copy()
    out[index] = value
    return out


@declare(_setitem_reference)
def setitem(x: Any, index: Any, value: Any) -> Tensor:
    """A copy of x in which x[index] is `value` (broadcast there). Raises IndexError if a place is named twice."""
    return SetItem(plain_index(index))(x, value)


def setitem_(x: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`: x becomes the result of `setitem`; under no_grad a leaf is changed in place."""
    if (
        x.is_leaf
        and not (x.requires_grad and is_grad_enabled())
        and not (is_grad_enabled() and isinstance(value, Tensor) and value.requires_grad)
    ):
        x.data[plain_index(index)] = value.data if isinstance(value, Tensor) else value
        x.mark_changed()
        return
    if x.is_leaf and x.requires_grad:
        raise RuntimeError(
            "setting elements of a leaf that requires a gradient would cut it from its own gradient: set them under "
            "no_grad(), or in a result computed from it (x * 1), or use setitem(x, index, value)"
        )
    result = setitem(x, index, value)
    x.data, x.requires_grad, x._origin = result.data, result.requires_grad, result._origin
