"""Specifications of reductions, running sums and sorting."""

from typing import Any

import numpy as np

from .draw import Draw, spec


def _reduced(d: Draw, shape: tuple[int, ...], *, distinct: bool = False, many: bool = True) -> Any:
    axis = d.axis(shape, many=many)
    return d.distinct(shape) if distinct else d.array(shape), {"axis": axis, **d.maybe(keepdims=True)}


spec("sum")(_reduced)
spec("mean", empty=False)(_reduced)
spec("logsumexp", empty=False)(_reduced)
for _name in ("max", "min"):
    spec(_name, empty=False)(lambda d, shape: _reduced(d, shape, distinct=True))
for _name in ("argmax", "argmin"):
    spec(_name, empty=False, analytic=False, second_order=False)(
        lambda d, shape: _reduced(d, shape, distinct=True, many=False)
    )


@spec("prod")
def _prod(d: Draw, shape: tuple[int, ...]) -> Any:
    x, options = _reduced(d, shape)
    zeros = d.choice("zeros", (0, 0, 1, 2))
    if x.size:
        x.reshape(-1)[d.indices((zeros,), x.size)] = 0
    return x, options


def _spread_out(d: Draw, shape: tuple[int, ...]) -> Any:
    """Draw an array for a variance: each axis has at least two elements, and all elements differ."""
    axis = d.axis(shape)
    x = d.distinct(tuple(size + 1 for size in shape))
    return x, {"axis": axis if axis != () else None, "keepdims": d.flag("keepdims"), **d.maybe(ddof=1)}


spec("var", least=1, empty=False, ulps=64)(_spread_out)
spec("std", least=1, empty=False, ulps=64)(_spread_out)


@spec("norm", least=1, empty=False)
def _norm(d: Draw, shape: tuple[int, ...]) -> Any:
    kind = d.choice("norm", ("all", "vector", "vector", "vector", "matrix"))
    x = d.distinct(shape)
    x = np.where(np.abs(x) < 0.1, x + np.copysign(0.15, x), x).astype(d.dtype)  # away from the kink of |x|
    kwargs: dict[str, Any] = {"keepdims": d.flag("keepdims")}
    if kind == "vector":
        p = d.choice("p", (None, 1, 2, 3, 1.5, 0.5, -1, -2.5, np.inf, -np.inf))
        kwargs |= {"ord": p, "axis": d.integer(0, len(shape) - 1)}
        if p in (np.inf, -np.inf):  # the absolute values must differ too
            x = (d.distinct(shape) + 5).astype(d.dtype) * np.where(d.mask(shape), 1, -1).astype(d.dtype)
    elif kind == "matrix" and len(shape) >= 2:
        kwargs |= {"ord": d.choice("matrix norm", (None, "fro")), "axis": (0, -1)}
    return x, kwargs


def _along(d: Draw, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"axis": d.axis(shape, many=False) if shape else None}


spec("cumsum")(lambda d, shape: (d.array(shape), _along(d, shape)))
spec("sort")(lambda d, shape: (d.distinct(shape), _along(d, shape)))
spec("argsort", least=1, analytic=False, second_order=False)(lambda d, shape: (d.distinct(shape), _along(d, shape)))


@spec("topk", least=1)
def _topk(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.position(shape)
    return d.distinct(shape), d.integer(0, shape[axis]), {"axis": axis, "largest": d.flag("largest")}
