"""Ops that join, split, repeat and pad."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kinds import one_of
from ..arguments import integers, sizes
from ..backend import Array, array_module, is_capturing
from ..function import Function, run
from ..tensor import Tensor, array_of, shape_of
from .indexing import take
from .reduction import AlongAxis, normalized_axes
from .registry import declare
from .shape import broadcast_to, ravel, reshape


class Concatenate(AlongAxis):
    def forward(self, *arrays):
        try:
            self.sizes = [a.shape[self.axis] for a in arrays]
        except IndexError:
            raise ValueError(f"axis {self.axis} is out of bounds: every tensor needs this axis") from None
        return joined(arrays, self.axis)

    def backward(self, g):
        starts = np.cumsum(self.sizes)[:-1].tolist()
        return tuple(array_module(g).split(g, starts, axis=self.axis))


def joined(arrays: Sequence[Array], axis: int) -> Array:
    """Concatenate arrays. For more than eight arrays, CuPy copies the arrays' addresses from the host, which a CUDA
    graph can't record. While a graph is captured, groups of eight are therefore joined first.
    """
    if len(arrays) > 8 and is_capturing():
        return joined([joined(arrays[start : start + 8], axis) for start in range(0, len(arrays), 8)], axis)
    return array_module(*arrays).concatenate(arrays, axis=axis)


@declare(np.concatenate)
def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Join tensors along an existing axis. The tensors must have equal sizes along the other axes."""
    return Concatenate(axis)(*_listed("concatenate", tensors))


def _listed(name: str, tensors: Any) -> Any:
    if type(tensors) in (list, tuple) and tensors:
        return tensors
    if isinstance(tensors, str | bytes) or not hasattr(tensors, "__len__") or getattr(tensors, "shape", None) == ():
        raise TypeError(f"{name}: a list of tensors is needed, not {tensors!r:.60}")
    if len(tensors) == 0:
        raise ValueError(f"{name}: the list of tensors is empty")
    return tensors


class Stack(AlongAxis):
    def forward(self, *arrays):
        return joined([array_module(a).expand_dims(a, self.axis) for a in arrays], self.axis)

    def backward(self, g):
        parts = array_module(g).moveaxis(g, self.axis, 0)
        return tuple(parts[i] for i in range(len(self.inputs)))


@declare(np.stack)
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    return Stack(axis)(*_listed("stack", tensors))


class Split(Function):
    def __init__(self, sections, axis):
        self.sections, self.axis = sections, axis

    def forward(self, x):
        parts = tuple(array_module(x).split(x, self.sections, axis=self.axis))
        self.shapes = [part.shape for part in parts]
        if sum(shape[self.axis] for shape in self.shapes) > x.shape[self.axis]:
            raise ValueError(f"the indices {self.sections} do not ascend, so that the parts overlap: use slices of x")
        return parts

    def backward(self, *gradients):
        present = array_of(next(g for g in gradients if g is not None))
        xp = array_module(present)
        filled = [
            xp.zeros(shape, dtype=present.dtype) if g is None else g
            for g, shape in zip(gradients, self.shapes, strict=True)
        ]
        return run(Concatenate(self.axis), *filled)


@declare(np.split)
def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Split x along `axis` into equal parts (`sections` is a number), or before each index of the list `sections`.
    Raises ValueError if x can't be divided into equal parts, or if the indices don't ascend.
    """
    parts = integers("split: sections", sections).tolist()
    if isinstance(parts, int) and parts < 1:
        raise ValueError(f"split: sections must be a number of parts, at least 1, not {parts}")
    return Split(parts, axis)(x)


@declare(np.tile, composed=True)
def tile(x: Any, reps: int | Sequence[int]) -> Tensor:
    """Repeat x `reps[i]` times along axis i. The shorter of x's shape and `reps` is padded with ones in front."""
    shape, counts = shape_of(x), list(sizes("tile: reps", reps))
    ndim = max(len(counts), len(shape))
    counts, sides = [1] * (ndim - len(counts)) + counts, [1] * (ndim - len(shape)) + list(shape)
    apart = tuple(part for side in sides for part in (1, side))  # x with an axis of size 1 before each axis
    spread = tuple(part for pair in zip(counts, sides, strict=True) for part in pair)
    whole = tuple(count * side for count, side in zip(counts, sides, strict=True))
    return reshape(broadcast_to(reshape(x, apart), spread), whole)


@declare(np.repeat)
def repeat(x: Any, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Repeat each element along `axis` (of the flattened x for None); `repeats` is one number or one for each."""
    if axis is None or not shape_of(x):
        x, axis = ravel(x), axis or 0
    counts, shape = integers("repeat: repeats", repeats), shape_of(x)
    (axis,) = normalized_axes(axis, len(shape))
    before, size, behind = shape[:axis], shape[axis], shape[axis + 1 :]
    if not counts.ndim:
        times = int(counts)
        each = broadcast_to(reshape(x, (*before, size, 1, *behind)), (*before, size, times, *behind))
        return reshape(each, (*before, size * times, *behind))
    if counts.shape not in ((size,), (1,)):
        raise ValueError(f"repeat: repeats of shape {counts.shape} don't fit {size} elements")
    return take(x, np.repeat(np.arange(size), counts), axis=axis)


class Pad(Function):
    def __init__(self, widths, value):
        self.widths, self.value = widths, value

    def forward(self, x):
        return array_module(x).pad(x, self.widths, mode="constant", constant_values=self.value)

    def backward(self, g):
        return g[tuple(slice(b, size - a) for (b, a), size in zip(self.widths, g.shape, strict=True))]


@declare(lambda x, pad_width, mode="constant", **value: np.pad(x, pad_width, mode=mode, **value))
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Tensor:
    """Add elements before and after x along each axis.

    Args:
        pad_width: a pair (before, after) for each axis, one pair for all axes, or one number for all.
        mode: "constant", or NumPy's "edge", "reflect", "symmetric", "wrap", which repeat elements of x.
        constant_values: one number.

    Raises ValueError for another mode or negative widths.
    """
    ndim = len(shape_of(x))
    try:
        widths = [(int(b), int(a)) for b, a in np.broadcast_to(integers("pad: pad_width", pad_width), (ndim, 2))]
    except ValueError as error:
        raise ValueError(f"pad: pad_width {pad_width} has no pair (before, after) for each of {ndim} axes") from error
    one_of("pad: mode", mode, ("constant", "edge", "reflect", "symmetric", "wrap"))
    if any(b < 0 or a < 0 for b, a in widths):
        raise ValueError(f"pad: widths can't be negative: {pad_width}")
    if mode == "constant" or not any(any(pair) for pair in widths):
        return Pad(widths, constant_values)(x)
    for axis, pair in enumerate(widths):
        if any(pair):
            x = take(x, np.pad(np.arange(shape_of(x)[axis]), pair, mode=mode), axis=axis)  # type: ignore[call-overload]
    return x
