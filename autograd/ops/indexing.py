"""Ops that read and write elements with NumPy's indices. Reading is the backward rule of writing, and vice versa."""

import math
from typing import Any

import numpy as np

from ..arguments import integers
from ..backend import Array, array_module, is_array
from ..function import Function, run
from ..sums import running_dtype
from ..tensor import Tensor, array_of, shape_of
from .reduction import Axis, normalized_axes
from .registry import declare
from .shape import ravel


def plain_index(index: Any, x: Any) -> Any:
    """Return an index of x with its Tensors replaced by arrays on x's device. The arrays are copies, because the caller
    can change the original arrays before the backward pass.
    """
    if isinstance(index, tuple):
        return tuple(plain_index(part, x) for part in index)
    index = array_of(index)
    if is_array(index):
        return array_module(array_of(x), index).array(index)
    if isinstance(index, list):
        return [plain_index(part, x) if isinstance(part, list) else part for part in index]
    return index


def _selects_once(index: Any) -> bool:
    """Return whether the index has no lists or arrays of integers, and so selects no element twice."""
    for part in index if isinstance(index, tuple) else (index,):
        basic = part is None or part is Ellipsis or isinstance(part, int | np.integer | slice)
        part = np.asarray(part) if isinstance(part, list) else part
        if not basic and getattr(part, "dtype", np.dtype(bool)).kind != "b":  # what has no dtype is no index
            return False
    return True


def add_at(target: Array, index: Any, values: Array) -> Array:
    """Return `target`, which may be changed, plus `values` at an index; an element selected twice gets both."""
    if _selects_once(index):
        target[index] += values
        return target
    total = target.astype(running_dtype(target) or target.dtype, copy=False)
    array_module(target).add.at(total, index, values.astype(total.dtype, copy=False))
    return total.astype(target.dtype, copy=False)


class GetItem(Function):
    def __init__(self, index):
        self.index = index

    def forward(self, x):
        self.shape = x.shape
        return x[self.index]

    def backward(self, g):
        return run(PutInZeros(self.index, self.shape), g)


class PutInZeros(Function):
    """An array of zeros to which values are added at an index. This is the gradient of x in x[index]."""

    def __init__(self, index, shape):
        self.index, self.shape = index, shape

    def forward(self, values):
        out = array_module(values).zeros(self.shape, values.dtype)
        return add_at(out, self.index, values)

    def backward(self, g):
        return g[self.index]


@declare(lambda x, index: x[index])
def getitem(x: Any, index: Any) -> Tensor:
    """Return x[index], with slices, None, Ellipsis, integers, integer arrays and boolean masks as in NumPy."""
    return GetItem(plain_index(index, x))(x)


@declare(np.flip)
def flip(x: Any, axis: Axis = None) -> Tensor:
    """Reverse the order of the elements along `axis` (all axes by default)."""
    ndim = len(shape_of(x))
    axes = normalized_axes(axis, ndim)
    return getitem(x, tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(ndim)))


class _Write(Function):
    """A copy of x into which values are written at an index."""

    broadcasts = True

    def __init__(self, index):
        self.index = index

    def _recorded(self, array):  # called for a result that is not of a real floating dtype
        cure = "use a real floating dtype for x"
        raise TypeError(f"{self.name}: a value would lose its gradient in {array.dtype}: {cure}")


class SetItem(_Write):
    """A copy of x with x[index] = value; dx is g with g[index] = 0, and d(value) = g[index]."""

    def forward(self, x, value):
        self.value_shape = np.shape(value)
        repeated = None if _selects_once(self.index) else _repeated(self.index, np.shape(x), array_module(x))
        if repeated is not None:
            if math.prod(self.value_shape) != 1:
                raise IndexError("the index selects an element twice, for two values: to add them, use scatter_add")
            self.index, value = repeated, value if isinstance(value, int | float) else value.reshape(())
        out = array_module(x).array(x)
        out[self.index] = value
        return out

    def backward(self, g):
        gradient_value = g[self.index]
        if len(self.value_shape) > len(gradient_value.shape):  # NumPy accepts a (1, 1, n) value for n elements
            gradient_value = gradient_value.reshape(
                (1,) * (len(self.value_shape) - len(gradient_value.shape)) + gradient_value.shape
            )
        return run(SetItem(self.index), g, 0), gradient_value


def _repeated(index: Any, shape: tuple[int, ...], xp: Any) -> Any:
    """Return a mask of the selected elements if the index selects an element twice, else None."""
    named = xp.arange(math.prod(shape)).reshape(shape)[index].reshape(-1)
    if xp.unique(named).size == named.size:
        return None
    mask = xp.zeros(math.prod(shape), bool)
    mask[named] = True
    return mask.reshape(shape)


def _setitem_reference(x: np.ndarray, index: Any, value: Any) -> np.ndarray:
    out = x.astype(np.result_type(x, value))
    out[index] = value
    return out


@declare(_setitem_reference)
def setitem(x: Any, index: Any, value: Any) -> Tensor:
    """Return a copy of x with x[index] = value, which broadcasts. Raises IndexError for an element that is selected
    twice, unless `value` is a single number.
    """
    return SetItem(plain_index(index, x))(x, value)


class ScatterAdd(_Write):
    """A copy of x with values added at an index; dx = g, d(values) = g[index]."""

    def forward(self, x, values):
        x = array_module(x).asarray(x)
        # NumPy's add.at (2.4) reads out of bounds if the values don't have the shape of x[index].
        return add_at(x.copy(), self.index, array_module(x).broadcast_to(values, x[self.index].shape))

    def backward(self, g):
        return g, g[self.index]


def _scatter_add_reference(x: np.ndarray, index: Any, values: Any) -> np.ndarray:
    out = x.astype(np.result_type(x, values))
    np.add.at(out, index, np.broadcast_to(values, out[index].shape))
    return out


@declare(_scatter_add_reference)
def scatter_add(x: Any, index: Any, values: Any) -> Tensor:
    """Return a copy of x with `values` added to x[index]. `values` broadcast. Elements selected twice get two."""
    return ScatterAdd(plain_index(index, x))(x, values)


@declare(np.take)
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the elements of x at `indices` (any shape) along `axis`, or of the flattened x for None. Raises TypeError
    for indices that are not integers.
    """
    indices = integers("take: indices", indices)
    if axis is None or (axis in (0, -1) and not shape_of(x)):
        return getitem(ravel(x), (indices,))
    (axis,) = normalized_axes(axis, len(shape_of(x)))
    return getitem(x, (*(slice(None),) * axis, indices))


@declare(lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis))
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Tensor:
    """Compute out[i, j, k] = x[i, indices[i, j, k], k] (for axis 1). The other axes of x and `indices` broadcast.

    If `axis` is None, x is flattened and `indices` is 1-d. Raises ValueError unless x and `indices` have the same
    number of axes.
    """
    indices = integers("take_along_axis: indices", indices)
    if axis is None:
        x, axis = ravel(x), 0
    return getitem(x, along_axis(shape_of(x), indices, axis))


def along_axis(shape: tuple[int, ...], indices: Array, axis: int) -> tuple[Any, ...]:
    """Return the NumPy index that selects the elements at `indices` along `axis` in an array of `shape`."""
    (axis,) = normalized_axes(axis, len(shape))
    if indices.ndim != len(shape):
        raise ValueError(f"take_along_axis: indices of shape {indices.shape} don't fit a tensor of shape {shape}")
    xp = array_module(indices)
    index = [xp.arange(size).reshape((1,) * a + (size,) + (1,) * (len(shape) - a - 1)) for a, size in enumerate(shape)]
    index[axis] = indices
    return tuple(index)
