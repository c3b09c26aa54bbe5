"""Specifications of the ops that move, join, split and repeat elements."""

from typing import Any

import numpy as np

from .draw import Draw, spec


@spec("reshape", views=True)
def _reshape(d: Draw, shape: tuple[int, ...]) -> Any:
    size, rest = int(np.prod(shape)), (*shape[:1], -1) if 0 not in shape[:1] else (0, 1)
    return d.array(shape), d.choice("new shape", ((size,), shape[::-1], rest, (1, *shape, 1), size))


spec("ravel", views=True)(lambda d, shape: (d.array(shape),))


@spec("transpose", most=4, views=True)
def _transpose(d: Draw, shape: tuple[int, ...]) -> Any:
    if d.flag("axes left out"):
        return (d.array(shape),)
    back = len(shape) if d.flag("negative axes") else 0
    return d.array(shape), tuple(int(a) - back for a in d.rng.permutation(len(shape)))


spec("swapaxes", least=1, views=True)(lambda d, shape: (d.array(shape), d.position(shape), d.position(shape)))


@spec("moveaxis", least=1, views=True)
def _moveaxis(d: Draw, shape: tuple[int, ...]) -> Any:
    if d.flag("one axis"):
        return d.array(shape), d.position(shape), d.position(shape)
    count = d.integer(1, len(shape))
    return d.array(shape), *(tuple(int(a) for a in d.rng.permutation(len(shape))[:count]) for _ in range(2))


spec("expand_dims", views=True)(
    lambda d, shape: (d.array(shape), (0, -1) if d.flag("two axes") else d.position((1, *shape)))
)


@spec("squeeze", views=True)
def _squeeze(d: Draw, shape: tuple[int, ...]) -> Any:
    position = d.integer(0, len(shape))
    axis = d.choice("axis", (None, position, position - len(shape) - 1, (position,)))
    return d.array((*shape[:position], 1, *shape[position:])), {} if axis is None else {"axis": axis}


spec("broadcast_to", views=True)(lambda d, shape: (d.array(d.narrowed(shape)), shape))
spec("flip", views=True)(lambda d, shape: (d.array(shape), {"axis": d.axis(shape)}))


@spec("roll")
def _roll(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.axis(shape) or None
    if isinstance(axis, tuple):
        axis = tuple(a % len(shape) for a in axis)
    shift = tuple(d.integer(-4, 4) for _ in axis) if isinstance(axis, tuple) else d.integer(-4, 4)
    return d.array(shape), shift, {"axis": axis}


def _gathered(function: Any) -> Any:
    """Return an op that takes a list of tensors with the tensors as separate arguments."""
    return lambda *tensors, **kwargs: function(tensors, **kwargs)


@spec("concatenate", least=1, adapt=_gathered)
def _concatenate(d: Draw, shape: tuple[int, ...]) -> Any:
    axis, arrays = d.position(shape), []
    for _ in range(d.choice("tensors", (1, 2, 3))):
        sides = list(shape)
        sides[axis] = d.integer(0, 3)
        arrays.append(d.array(tuple(sides)))
    return *arrays, {"axis": axis}


@spec("stack", adapt=_gathered)
def _stack(d: Draw, shape: tuple[int, ...]) -> Any:
    return *(d.array(shape) for _ in range(d.choice("tensors", (1, 2, 3)))), {"axis": d.position((1, *shape))}


@spec("split", least=1, views=True)
def _split(d: Draw, shape: tuple[int, ...]) -> Any:
    sides, axis = list(shape), d.position(shape)
    parts: Any = sorted(d.integer(0, shape[axis]) for _ in range(d.choice("cuts", (1, 2))))
    if d.flag("equal parts"):
        parts = d.integer(1, 3)
        sides[axis] *= parts
    return d.array(tuple(sides)), parts, {"axis": axis}


@spec("tile", most=2, views=True)
def _tile(d: Draw, shape: tuple[int, ...]) -> Any:
    if d.flag("a number"):
        return d.array(shape), d.integer(0, 3)
    count = max(len(shape) + d.choice("more counts than axes", (-1, 0, 1)), 0)
    return d.array(shape), tuple(d.integer(1, 2) for _ in range(count))


@spec("repeat", views=True)
def _repeat(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.axis(shape, many=False) if shape else None
    size = int(np.prod(shape)) if axis is None else shape[axis]
    repeats: Any = d.rng.integers(0, 3, size).tolist() if d.flag("a list of counts") and size else d.integer(0, 3)
    return d.array(shape), repeats, {"axis": axis}


@spec("pad", least=1)
def _pad(d: Draw, shape: tuple[int, ...]) -> Any:
    mode = d.choice("mode", ("constant", "constant", "edge", "reflect", "symmetric", "wrap"))
    if mode != "constant":
        shape = tuple(max(side, 1) for side in shape)
    pairs = tuple((d.integer(0, 2), d.integer(0, 2)) for _ in shape)
    widths: Any = d.choice("widths", (d.integer(0, 2), pairs[0], pairs))
    return d.array(shape), widths, {"mode": mode, **(d.maybe(constant_values=0.5) if mode == "constant" else {})}


def _plane(d: Draw, shape: tuple[int, ...]) -> Any:
    first = d.position(shape)
    second = (first + d.integer(1, len(shape) - 1)) % len(shape)
    return d.array(shape), d.maybe(offset=d.integer(-3, 3), axis1=first, axis2=second)


spec("diagonal", least=2, most=4)(_plane)
spec("trace", least=2, most=4)(_plane)
for _name in ("tril", "triu"):
    spec(_name, least=2)(lambda d, shape: (d.array(shape), d.maybe(k=d.integer(-2, 2))))


@spec("split_heads", least=2, most=2, views=True)
def _split_heads(d: Draw, shape: tuple[int, ...]) -> Any:
    heads, parts, width = d.integer(1, 2), d.integer(1, 3), d.integer(1, 2)
    return d.array((*shape, heads * parts * width)), {"heads": heads, "parts": parts}


@spec("merge_heads", least=2, most=2)
def _merge_heads(d: Draw, shape: tuple[int, ...]) -> Any:
    (batch, length), heads, width = shape, d.integer(1, 3), d.integer(1, 2)
    return tuple(d.array((batch, heads, length, width)) for _ in range(d.choice("parts", (1, 2, 3))))
