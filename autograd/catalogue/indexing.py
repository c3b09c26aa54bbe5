"""Specifications of the ops that read and write by index."""

from typing import Any

import numpy as np

from .draw import Draw, spec


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


spec("getitem", views=True)(lambda d, shape: (d.array(shape), index_of(d, shape)))


@spec("setitem")
def _setitem(d: Draw, shape: tuple[int, ...]) -> Any:
    index = index_of(d, shape, repeated=False)
    chosen = np.empty(shape)[index].shape
    kind = d.choice("value", ("array", "array", "number", "leading axis"))
    # NumPy refuses a further leading axis if the index selects one element or is a mask.
    leading = kind == "leading axis" and chosen and not isinstance(index, np.ndarray)
    return d.array(shape), index, 0.5 if kind == "number" else d.array((1, *chosen) if leading else d.narrowed(chosen))


@spec("scatter_add")
def _scatter_add(d: Draw, shape: tuple[int, ...]) -> Any:
    index = index_of(d, shape)
    return d.array(shape), index, d.array(d.narrowed(np.empty(shape)[index].shape))


@spec("take", least=1, empty=False)
def _take(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.axis(shape, many=False)
    size = int(np.prod(shape)) if axis is None else shape[axis]
    indices = d.indices(d.shape(), size, negative=True)
    return d.array(shape), indices.tolist() if d.flag("a list") else indices, {"axis": axis}


@spec("take_along_axis", least=1, empty=False)
def _take_along_axis(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.axis(shape, many=False)
    if axis is None:
        return d.array(shape), d.indices((d.integer(0, 4),), int(np.prod(shape))), {"axis": None}
    # Every other axis may be broadcast, both of the indices and of x.
    x_shape = [1 if d.choice("stretched x", (False, False, True)) else side for side in shape]
    sizes = [1 if d.choice("stretched indices", (False, False, True)) else side for side in shape]
    x_shape[axis], sizes[axis] = shape[axis], d.integer(0, 4)
    return d.array(tuple(x_shape)), d.indices(tuple(sizes), shape[axis], negative=True), {"axis": axis}


@spec("embedding")
def _embedding(d: Draw, shape: tuple[int, ...]) -> Any:
    # `padding_id` is tested separately: its row has no gradient by definition, but a difference quotient.
    rows = d.integer(1, 4)
    return d.indices(shape, rows), d.array((rows, d.integer(1, 3))), d.maybe(scale=2.5)


@spec("gather", least=1, empty=False)
def _gather(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.position(shape)
    sides = [d.integer(1, size) for size in shape]
    sides[axis] = d.integer(1, 4)
    return d.array(shape), axis, d.indices(tuple(sides), shape[axis], negative=True)
