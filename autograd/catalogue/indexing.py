"""Specifications of the ops that read and write by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, Sample, spec


def _slice(d: Draw, size: int) -> slice:
    step = d.choice("step", (None, 1, 2, -1, -2))
    return slice(
        d.choice("start", (None, 0, 1, -2)),
        d.choice("stop", (None, size, -1)) if step is None or step > 0 else None,
        step,
    )


def index_of(d: Draw, shape: tuple[int, ...], *, repeated: bool = True) -> Any:
    """Draw an index of any kind that NumPy supports. If `repeated`, integer arrays can select it twice."""
    ndim = len(shape)
    full = 0 not in shape
    kinds = ["slices", "ellipsis", "new axis", "mask"] + ["integer", "integer arrays", "mixed"] * (full and ndim > 0)
    kind = d.choice(f"index of {min(ndim, 1) * full}", kinds)
    if kind == "slices":
        return tuple(_slice(d, size) for size in shape[: d.integer(0, ndim)])
    if kind == "ellipsis":
        return (..., _slice(d, shape[-1])) if ndim else ...
    if kind == "new axis":
        return (None, *(slice(None) for _ in shape[:1]), None)
    if kind == "mask":
        return d.mask(shape[: d.integer(0, ndim)])
    if kind == "integer":
        return tuple(d.integer(-size, size - 1) for size in shape[: d.integer(1, ndim)])
    if kind == "integer arrays":
        count = d.integer(1, ndim)
        if repeated:
            chosen = d.shape(1, 2)
            return tuple(d.indices(chosen, size, negative=True) for size in shape[:count])
        return (d.rng.permutation(shape[0])[: d.integer(1, shape[0])],)
    # Arrays and slices together; NumPy puts the axis of two arrays with a slice between them first.
    if ndim < 2:
        return (d.indices((2,), shape[0]), None) if repeated else (d.rng.permutation(shape[0]), None)
    if not repeated:
        return (slice(None, None, -1), d.rng.permutation(shape[1]))
    if ndim == 2:
        return (_slice(d, shape[0]), d.indices((3,), shape[1], negative=True))
    return (d.indices((2,), shape[0]), slice(None, None, -1), d.indices((2,), shape[2]))


@spec("getitem", views=True)
def _getitem(d: Draw) -> Sample:
    shape = d.shape()
    return Sample((d.array(shape), index_of(d, shape)), differentiable=(0,))


def _value_for(d: Draw, shape: tuple[int, ...], index: Any) -> Any:
    chosen = np.empty(shape)[index].shape
    kind = d.choice("value", ("array", "array", "number", "leading axis"))
    if kind == "number":
        return 0.5
    # NumPy refuses a further leading axis if the index selects one element or is a mask.
    leading = kind == "leading axis" and chosen and not isinstance(index, np.ndarray)
    return d.array((1, *chosen) if leading else d.narrowed(chosen))


@spec("setitem")
def _setitem(d: Draw) -> Sample:
    shape = d.shape()
    index = index_of(d, shape, repeated=False)
    value = _value_for(d, shape, index)
    return Sample((d.array(shape), index, value), differentiable=(0, 2) if isinstance(value, np.ndarray) else (0,))


@spec("scatter_add")
def _scatter_add(d: Draw) -> Sample:
    shape = d.shape()
    index = index_of(d, shape)
    chosen = np.empty(shape)[index].shape
    return Sample((d.array(shape), index, d.array(d.narrowed(chosen))), differentiable=(0, 2))


@spec("take")
def _take(d: Draw) -> Sample:
    shape = d.shape(1, empty=False)
    axis = d.axis(shape, many=False)
    size = int(np.prod(shape)) if axis is None else shape[axis]
    indices: Any = d.indices(d.shape(), size, negative=True)
    if d.flag("a list"):
        indices = indices.tolist()
    return Sample((d.array(shape), indices), {"axis": axis}, differentiable=(0,))


@spec("take_along_axis")
def _take_along_axis(d: Draw) -> Sample:
    shape = d.shape(1, empty=False)
    axis = d.axis(shape, many=False)
    if axis is None:
        return Sample((d.array(shape), d.indices((d.integer(0, 4),), int(np.prod(shape)))), {"axis": None})
    # Every other axis may be broadcast, both of the indices and of x.
    x_shape = [1 if d.choice("stretched x", (False, False, True)) else side for side in shape]
    sizes = [1 if d.choice("stretched indices", (False, False, True)) else side for side in shape]
    x_shape[axis], sizes[axis] = shape[axis], d.integer(0, 4)
    indices = d.indices(tuple(sizes), shape[axis], negative=True)
    return Sample((d.array(tuple(x_shape)), indices), {"axis": axis}, differentiable=(0,))


@spec("embedding")
def _embedding(d: Draw) -> Sample:
    rows = d.integer(1, 4)
    # `padding_id` is tested separately: its row has no gradient by definition, but a difference quotient.
    ids, table = d.indices(d.shape(), rows), d.array((rows, d.integer(1, 3)))
    return Sample((ids, table), {"scale": d.choice("scale", (1.0, 2.5))}, differentiable=(1,))
