"""Ops that move elements without changing them. Each one's backward is the move back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import array_module, device_of
from ..backend import to_device as move_array
from ..function import Function
from ..tensor import Tensor
from .registry import declare


class Reshape(Function):
    def __init__(self, shape):
        self.new_shape = shape

    def forward(self, x):
        self.old_shape = x.shape
        return x.reshape(self.new_shape)

    def backward(self, g):
        return g.reshape(self.old_shape)


@declare(np.reshape)
def reshape(x: Any, shape: int | Sequence[int]) -> Tensor:
    """The same elements in another shape, last axis fastest; one size may be -1."""
    return Reshape(shape)(x)


class Transpose(Function):
    def __init__(self, axes):
        self.axes = axes

    def forward(self, x):
        return x.transpose(self.axes)

    def backward(self, g):
        if self.axes is None:
            return g.transpose()
        inverse = [0] * len(self.axes)
        for new, old in enumerate(self.axes):
            inverse[old] = new
        return g.transpose(tuple(inverse))


@declare(np.transpose)
def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Axes permuted: axis i of the result is axis `axes[i]` of x; reversed by default."""
    return Transpose(None if axes is None else tuple(axes))(x)


class SwapAxes(Function):
    def __init__(self, axis1, axis2):
        self.axis1, self.axis2 = axis1, axis2

    def forward(self, x):
        return x.swapaxes(self.axis1, self.axis2)

    def backward(self, g):
        return g.swapaxes(self.axis1, self.axis2)


@declare(np.swapaxes)
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    return SwapAxes(axis1, axis2)(x)


class BroadcastTo(Function):
    broadcasts = True

    def __init__(self, shape):
        self.shape = shape

    def forward(self, x):
        return array_module(x).broadcast_to(x, self.shape)

    def backward(self, g):
        return g  # summed over the stretched axes by the base class


@declare(np.broadcast_to)
def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    """x stretched to `shape` by the broadcasting rules."""
    return BroadcastTo(tuple(shape))(x)


class Concatenate(Function):
    def __init__(self, axis):
        self.axis = axis

    def forward(self, *arrays):
        self.sizes = [a.shape[self.axis] for a in arrays]
        return array_module(*arrays).concatenate(arrays, axis=self.axis)

    def backward(self, g):
        pieces, start = [], 0
        for size in self.sizes:
            index = [slice(None)] * len(g.shape)
            index[self.axis] = slice(start, start + size)
            pieces.append(g[tuple(index)])
            start += size
        return tuple(pieces)


@declare(np.concatenate)
def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along an axis that they have; all other sizes agree."""
    return Concatenate(axis)(*tensors)


class ToDevice(Function):
    def __init__(self, device):
        self.device = device

    def forward(self, x):
        self.home = device_of(x)
        return move_array(x, self.device)

    def backward(self, g):
        return to_device(g, self.home) if isinstance(g, Tensor) else move_array(g, self.home)


def to_device(x: Any, device: str) -> Tensor:
    """x on `device` ("cpu", "cuda", "cuda:N"); its gradient comes back to where x is. Raises DeviceError."""
    return ToDevice(device)(x)
