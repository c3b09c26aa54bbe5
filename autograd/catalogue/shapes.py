"""Specifications of the ops that move, join, split and repeat elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, Sample, gathered, spec


@spec("reshape", views=True)
def _reshape(d: Draw) -> Sample:
    shape = d.shape()
    new: Any = d.choice("new shape", ("flat", "reversed", "minus one", "split", "one number"))
    size = int(np.prod(shape))
    target: Any = {
        "flat": (size,),
        "reversed": shape[::-1],
        "minus one": (*shape[:1], -1) if 0 not in shape[:1] else (0, 1),
        "split": (1, *shape, 1),
        "one number": size,
    }[new]
    return Sample((d.array(shape), target))


spec("ravel", views=True)(lambda d: Sample((d.array(d.shape()),)))


@spec("transpose", views=True)
def _transpose(d: Draw) -> Sample:
    shape = d.shape()
    if d.flag("axes left out"):
        return Sample((d.array(shape),))
    axes = [int(a) for a in d.rng.permutation(len(shape))]
    if d.flag("negative axes"):
        axes = [a - len(shape) for a in axes]
    return Sample((d.array(shape), tuple(axes)))


@spec("swapaxes", views=True)
def _swapaxes(d: Draw) -> Sample:
    shape = d.shape(1)
    n = len(shape)
    return Sample((d.array(shape), d.integer(-n, n - 1), d.integer(-n, n - 1)))


@spec("moveaxis", views=True)
def _moveaxis(d: Draw) -> Sample:
    shape = d.shape(1)
    n = len(shape)
    if d.flag("one axis"):
        return Sample((d.array(shape), d.integer(-n, n - 1), d.integer(-n, n - 1)))
    count = d.integer(1, n)
    source, destination = (tuple(int(a) for a in d.rng.permutation(n)[:count]) for _ in range(2))
    return Sample((d.array(shape), source, destination))


@spec("expand_dims", views=True)
def _expand_dims(d: Draw) -> Sample:
    shape = d.shape()
    n = len(shape)
    axis: Any = (0, -1) if d.flag("two axes") else d.integer(-n - 1, n)
    return Sample((d.array(shape), axis))


@spec("squeeze", views=True)
def _squeeze(d: Draw) -> Sample:
    shape = list(d.shape())
    position = d.integer(0, len(shape))
    shape.insert(position, 1)
    axis = d.choice("axis", (None, position, position - len(shape), (position,)))
    return Sample((d.array(tuple(shape)),), {} if axis is None else {"axis": axis})


@spec("broadcast_to", views=True)
def _broadcast_to(d: Draw) -> Sample:
    shape = d.shape()
    return Sample((d.array(d.narrowed(shape)), shape))


@spec("flip", views=True)
def _flip(d: Draw) -> Sample:
    shape = d.shape()
    return Sample((d.array(shape),), {"axis": d.axis(shape)})


@spec("roll")
def _roll(d: Draw) -> Sample:
    shape = d.shape()
    axis = d.axis(shape) or None
    if isinstance(axis, tuple):
        axis = tuple(a % len(shape) for a in axis)
        return Sample((d.array(shape), tuple(d.integer(-4, 4) for _ in axis)), {"axis": axis})
    return Sample((d.array(shape), d.integer(-4, 4)), {"axis": axis})


def _joined(d: Draw) -> tuple[list[tuple[int, ...]], int]:
    shape = d.shape(1)
    axis = d.integer(-len(shape), len(shape) - 1)
    shapes = []
    for _ in range(d.choice("tensors", (1, 2, 3))):
        sides = list(shape)
        sides[axis] = d.integer(0, 3)
        shapes.append(tuple(sides))
    return shapes, axis


@spec("concatenate", **gathered("concatenate"))
def _concatenate(d: Draw) -> Sample:
    shapes, axis = _joined(d)
    return Sample(tuple(d.array(shape) for shape in shapes), {"axis": axis})


@spec("stack", **gathered("stack"))
def _stack(d: Draw) -> Sample:
    shape = d.shape()
    tensors = tuple(d.array(shape) for _ in range(d.choice("tensors", (1, 2, 3))))
    return Sample(tensors, {"axis": d.integer(-len(shape) - 1, len(shape))})


@spec("split", views=True)
def _split(d: Draw) -> Sample:
    shape = list(d.shape(1))
    axis = d.integer(-len(shape), len(shape) - 1)
    if d.flag("equal parts"):
        parts = d.integer(1, 3)
        shape[axis] *= parts
        return Sample((d.array(tuple(shape)), parts), {"axis": axis})
    cuts = sorted(d.integer(0, shape[axis]) for _ in range(d.choice("cuts", (1, 2))))
    return Sample((d.array(tuple(shape)), cuts), {"axis": axis})


@spec("tile")
def _tile(d: Draw) -> Sample:
    shape = d.shape(most=2)
    reps = d.choice("reps", ("number", "fewer", "as many", "more"))
    count = {"fewer": max(len(shape) - 1, 0), "as many": len(shape), "more": len(shape) + 1}.get(reps, 0)
    return Sample(
        (d.array(shape), d.integer(0, 3) if reps == "number" else tuple(d.integer(1, 2) for _ in range(count)))
    )


@spec("repeat")
def _repeat(d: Draw) -> Sample:
    shape = d.shape()
    axis = d.axis(shape, many=False) if shape else None
    size = int(np.prod(shape)) if axis is None else shape[axis]
    repeats: Any = d.rng.integers(0, 3, size).tolist() if d.flag("a list of counts") and size else d.integer(0, 3)
    return Sample((d.array(shape), repeats), {"axis": axis})


@spec("pad")
def _pad(d: Draw) -> Sample:
    shape = d.shape(1)
    mode = d.choice("mode", ("constant", "constant", "edge", "reflect", "symmetric", "wrap"))
    if mode != "constant":
        shape = tuple(max(side, 1) for side in shape)
    widths: Any = {
        "number": d.integer(0, 2),
        "pair": (d.integer(0, 2), d.integer(0, 2)),
        "pairs": tuple((d.integer(0, 2), d.integer(0, 2)) for _ in shape),
    }[d.choice("widths", ("number", "pair", "pairs"))]
    kwargs: dict[str, Any] = {"mode": mode}
    if mode == "constant" and d.flag("a value"):
        kwargs["constant_values"] = 0.5
    return Sample((d.array(shape), widths), kwargs)


def _plane(d: Draw) -> Sample:
    shape = d.shape(2, 4)
    n = len(shape)
    first = d.integer(-n, n - 1)
    second = (first + d.integer(1, n - 1)) % n
    kwargs = {"offset": d.integer(-3, 3), "axis1": first, "axis2": second} if d.flag("axes given") else {}
    return Sample((d.array(shape),), kwargs)


spec("diagonal")(_plane)
spec("trace")(_plane)


def _triangle(d: Draw) -> Sample:
    return Sample((d.array(d.shape(2, 3)),), {"k": d.integer(-2, 2)} if d.flag("k given") else {})


spec("tril")(_triangle)
spec("triu")(_triangle)


@spec("split_heads", views=True)
def _split_heads(d: Draw) -> Sample:
    heads, parts, width = d.integer(1, 2), d.integer(1, 3), d.integer(1, 2)
    batch, length = d.shape(2, 2)
    return Sample((d.array((batch, length, heads * parts * width)),), {"heads": heads, "parts": parts})


@spec("merge_heads")
def _merge_heads(d: Draw) -> Sample:
    (batch, length), heads, width = d.shape(2, 2), d.integer(1, 3), d.integer(1, 2)
    return Sample(tuple(d.array((batch, heads, length, width)) for _ in range(d.choice("parts", (1, 2, 3)))))
