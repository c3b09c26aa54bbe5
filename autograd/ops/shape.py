"""Ops that change the shape, the order of elements or the device. The backward rule of each op is its inverse."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import integers, sizes
from ..backend import array_module, device_of
from ..backend import to_device as move_array
from ..function import Function
from ..tensor import Tensor, shape_of
from .reduction import Axis, axis_of, normalized_axes
from .registry import declare


class Reshape(Function):
    def __init__(self, shape):
        self.new_shape = shape

    def forward(self, x):
        self.old_shape = np.shape(x)  # x can be a Python number
        return array_module(x).reshape(x, self.new_shape)

    def backward(self, g):
        return g.reshape(self.old_shape)


@declare(np.reshape)
def reshape(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return the elements of x in another shape, in row-major order. One size may be -1."""
    return Reshape(shape if type(shape) is int else sizes("reshape: shape", shape))(x)


class Transpose(Function):
    def __init__(self, axes):
        self.axes = axes

    def forward(self, x):
        try:
            return x.transpose(self.axes)
        except ValueError as error:
            cure = "; to exchange two axes, as PyTorch's transpose does, write x.swapaxes(a, b)"
            raise ValueError(f"the axes {self.axes} must name each axis once{cure}") from error

    def backward(self, g):
        if self.axes is None:
            return g.transpose()
        inverse = [0] * len(self.axes)
        for new, old in enumerate(self.axes):
            inverse[old] = new
        return g.transpose(tuple(inverse))


@declare(np.transpose)
def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Permute the axes: axis i of the result is axis `axes[i]` of x. By default the order of the axes is reversed."""
    return Transpose(None if axes is None else sizes("transpose: axes", axes))(x)


@declare(np.swapaxes)
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes."""
    axes = list(range(len(shape_of(x))))
    try:
        axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    except IndexError:
        raise ValueError(f"axis {axis1} or {axis2} is out of bounds for an array of {len(axes)} axes") from None
    return transpose(x, tuple(axes))


class BroadcastTo(Function):
    broadcasts = True

    def __init__(self, shape):
        self.shape = shape

    def forward(self, x):
        return array_module(x).broadcast_to(x, self.shape)

    def backward(self, g):
        return g  # summed over the stretched axes by the base class


@declare(np.broadcast_to)
def broadcast_to(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Broadcast x to `shape`, by NumPy's rules."""
    return BroadcastTo(sizes("broadcast_to: shape", shape))(x)


@declare(np.ravel, composed=True)
def ravel(x: Any) -> Tensor:
    """Return all elements of x in one axis, in row-major order."""
    return Reshape((-1,))(x)


def _moved(x: Any, axes: Axis) -> tuple[int, ...]:
    return normalized_axes(axes, len(shape_of(x)))


@declare(np.moveaxis)
def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Move the axes `source` to the positions `destination`. The other axes keep their order.
    Raises ValueError unless `source` and `destination` have the same length.
    """
    old, new = _moved(x, source), _moved(x, destination)
    if len(old) != len(new):
        raise ValueError(f"moveaxis: {len(old)} axes ({source}) can't move to {len(new)} positions ({destination})")
    order = [axis for axis in range(len(shape_of(x))) if axis not in old]
    for position, axis in sorted(zip(new, old, strict=True)):
        order.insert(position, axis)
    return transpose(x, tuple(order))


@declare(np.expand_dims)
def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Tensor:
    """Insert axes of size 1, so that they are at the positions `axis` of the result."""
    shape = shape_of(x)
    added = normalized_axes(axis, len(shape) + np.size(axis))
    sizes = iter(shape)
    return reshape(x, tuple(1 if i in added else next(sizes) for i in range(len(shape) + len(added))))


@declare(np.squeeze)
def squeeze(x: Any, axis: Axis = None) -> Tensor:
    """Remove axes of size 1: `axis`, by default all. Raises ValueError if a given axis has another size."""
    shape = shape_of(x)
    axis = axis_of(x, axis)
    if axis is None:
        axis = tuple(i for i, size in enumerate(shape) if size == 1)
    axes = normalized_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {shape} is not of size 1")
    return reshape(x, tuple(size for i, size in enumerate(shape) if i not in axes))


class Roll(Function):
    def __init__(self, shift, axis):
        self.shift, self.axis = shift, axis

    def forward(self, x):
        return array_module(x).roll(x, self.shift, axis=self.axis)

    def backward(self, g):
        back = tuple(-s for s in self.shift) if isinstance(self.shift, tuple) else -self.shift
        return array_module(g).roll(g, back, axis=self.axis)


@declare(np.roll)
def roll(x: Any, shift: int | tuple[int, ...], axis: Axis = None) -> Tensor:
    """Shift elements cyclically by `shift` along `axis`, of the flattened x for None."""
    shifts = integers("roll: shift", shift).tolist()
    return Roll(tuple(shifts) if isinstance(shifts, list) else shifts, axis)(x)


class ToDevice(Function):
    def __init__(self, device):
        self.device = device

    def forward(self, x):
        self.home = device_of(x)
        return move_array(x, self.device)

    def backward(self, g):
        return to_device(g, self.home) if isinstance(g, Tensor) else move_array(g, self.home)


def to_device(x: Any, device: str) -> Tensor:
    """Return x on `device` ("cpu", "cuda", "cuda:N"); the gradient is moved back. Raises DeviceError."""
    return ToDevice(device)(x)
