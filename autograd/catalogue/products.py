"""Specifications of products of matrices and tensors."""

from typing import Any

import numpy as np

from ..ops import ACTIVATIONS
from .draw import Draw, spec, with_seed


@spec("matmul", least=2, most=2, empty=False)
def _matmul(d: Draw, batch: tuple[int, ...]) -> Any:
    m, k, n = (d.integer(1, 3) for _ in range(3))
    if d.choice("empty", (False, False, False, True)):
        m, k, n = d.choice("empty side", ((0, k, n), (m, 0, n), (m, k, 0)))
    kind = d.choice("ranks", ("1 1", "1 2", "2 1", "2 2", "3 2", "2 3", "3 3", "1 3", "3 1", "broadcast"))
    if kind == "broadcast":
        return d.array((*d.narrowed(batch), m, k)), d.array((*d.narrowed(batch), k, n))
    left, right = (int(rank) for rank in kind.split())
    return d.array((2, m, k)[-left:]), d.array((k,) if right == 1 else (2, k, n)[-right:])


@spec("linear", most=2)
def _linear(d: Draw, rows: tuple[int, ...]) -> Any:
    features, outputs = d.integer(0, 3), d.integer(1, 3)
    x, weight = d.array((*rows, features)), d.array((outputs, features))
    return (x, weight, d.array((outputs,))) if d.flag("bias") else (x, weight)


@spec("linear_activation", most=2, adapt=with_seed, analytic=False)
def _linear_activation(d: Draw, rows: tuple[int, ...]) -> Any:
    features, outputs = d.integer(1, 3), d.integer(1, 3)
    # The weights and the bias of an output have the same sign, so that the output is well above or below 0.
    sign = np.where(d.mask((outputs,)), 1, -1).astype(d.dtype)
    bias = (d.array((outputs,), 0.1, 1) * sign,) if d.flag("bias") else ()
    names = [name for name, row in ACTIVATIONS.items() if not row.gated]
    kwargs = d.choice("activation", ({}, *({"activation": name} for name in names)))
    # Not far from 0, where the derivatives of a GELU are too small for differences.
    x, weight = d.array((*rows, features), 0.2, 1), d.array((outputs, features), 0.2, 1) * sign[:, None]
    return x, weight, *bias, {**kwargs, **d.maybe(dropout=0.4, seed=d.integer(0, 9))}


spec("outer", most=2)(lambda d, shape: (d.array(shape), d.array(d.shape(most=2))))


@spec("dot")
def _dot(d: Draw, shape: tuple[int, ...]) -> Any:
    k = d.integer(0, 3)
    kind = d.choice("ranks", ("0 n", "n 0", "1 1", "n 1", "1 n", "n m"))
    if "0" in kind:
        operands = d.array(()), d.array(shape)
        return operands if kind == "0 n" else operands[::-1]
    left = (k,) if kind.startswith("1") else (*d.shape(1, 2, empty=False), k)
    right = (k,) if kind.endswith("1") else (*d.shape(0, 1, empty=False), k, d.integer(1, 3))
    return d.array(left), d.array(right)


@spec("inner", most=2, empty=False)
def _inner(d: Draw, shape: tuple[int, ...]) -> Any:
    if d.choice("a number", (False, False, False, True)):
        return d.array(shape), d.array(())
    k = d.integer(0, 3)
    return d.array((*shape, k)), d.array((*d.shape(0, 2, empty=False), k))


@spec("tensordot", most=2, empty=False)
def _tensordot(d: Draw, shared: tuple[int, ...]) -> Any:
    left, right = d.shape(0, 1), d.shape(0, 1)
    x, y = d.array((*left, *shared)), d.array((*shared, *right))
    if d.flag("a number of axes"):
        return x, y, {"axes": len(shared)}
    over_x, over_y = tuple(range(len(left), x.ndim)), tuple(range(len(shared)))
    if d.flag("reversed axes"):
        x, y = x.transpose(), y.transpose()
        over_x, over_y = tuple(x.ndim - 1 - a for a in over_x), tuple(-1 - a for a in over_y)
    return x, y, {"axes": (over_x, over_y)}


EQUATIONS = (
    "ij,jk->ik", "ij,jk", "bij,bjk->bik", "i,i->", "i,j->ij", "ij->ji", "ij->", "ij->i", "ij", "ji", "ii->i",
    "ii->", "ii", "iij->j", "iji,j->i", "ij,ij->ij", "ij,k->i", "ij,jk,kl->il", "bhqd,bhkd->bhqk",
    "...i,...i->...", "...ij,...jk->...ik", "i...,i...->...", "...,...", "...,...->...", "...i,...->...",
    "b...i->b...", "->", ",i->i", "i,i,i->i",
)  # fmt: skip


@spec("einsum", views=True)
def _einsum(d: Draw, _: tuple[int, ...]) -> Any:
    dotted = d.flag("ellipsis")
    equation = d.choice(f"equation with ellipsis: {dotted}", [e for e in EQUATIONS if ("..." in e) == dotted])
    sizes = {letter: d.integer(1, 3) for letter in sorted(set(equation) - set("->,."))}
    # Different sizes, so that axes in the wrong order don't fit.
    dots = d.choice("axes of the ellipsis", ((), (2,), (2, 3), (2, 3)))
    operands = []
    for part in equation.partition("->")[0].split(","):
        before, found, after = part.partition("...")
        middle = d.narrowed(dots) if found else ()
        diagonal = len(set(before + after)) < len(before + after)  # its sizes must be equal; others may broadcast
        first, last = ([1 if not diagonal and d.flag("size 1") else sizes[x] for x in part] for part in (before, after))
        operands.append(d.array((*first, *middle, *last)))
    return equation, *operands
