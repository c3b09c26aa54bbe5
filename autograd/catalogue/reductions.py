"""Specifications of reductions, running sums and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, Sample, spec


def reduced(
    d: Draw, *, distinct: bool = False, empty: bool = True, many: bool = True, low: float = -2, high: float = 2
) -> Sample:
    shape = d.shape(empty=empty)
    x = d.distinct(shape) if distinct else d.array(shape, low, high)
    kwargs: dict[str, Any] = {"axis": d.axis(shape, many=many)}
    if d.flag("keepdims"):
        kwargs["keepdims"] = True
    return Sample((x,), kwargs)


spec("sum")(reduced)
spec("mean")(lambda d: reduced(d, empty=False))
spec("max")(lambda d: reduced(d, distinct=True, empty=False))
spec("min")(lambda d: reduced(d, distinct=True, empty=False))
spec("logsumexp")(lambda d: reduced(d, empty=False))
spec("argmax", analytic=False, second_order=False)(lambda d: reduced(d, distinct=True, empty=False, many=False))
spec("argmin", analytic=False, second_order=False)(lambda d: reduced(d, distinct=True, empty=False, many=False))


@spec("prod")
def _prod(d: Draw) -> Sample:
    sample = reduced(d)
    zeros = d.choice("zeros", (0, 0, 1, 2))
    x = sample.args[0]
    if x.size:
        x.reshape(-1)[d.indices((zeros,), x.size)] = 0
    return sample


def _spread_out(d: Draw) -> Sample:
    """Draw an array for a variance: each axis has at least two elements, and all elements differ."""
    shape = tuple(size + 1 for size in d.shape(1, 3, empty=False))
    axis = d.axis(shape)
    kwargs = {"axis": axis if axis != () else None, "keepdims": d.flag("keepdims")}
    if d.flag("ddof"):
        kwargs["ddof"] = 1
    return Sample((d.distinct(shape),), kwargs)


spec("var", ulps=64)(_spread_out)
spec("std", ulps=64)(_spread_out)


@spec("norm")
def _norm(d: Draw) -> Sample:
    shape = d.shape(1, 3, empty=False)
    kind = d.choice("norm", ("all", "vector", "vector", "vector", "matrix"))
    x = d.distinct(shape)
    x = np.where(np.abs(x) < 0.1, x + np.copysign(0.15, x), x).astype(d.dtype)  # away from the kink of |x|
    kwargs: dict[str, Any] = {"keepdims": d.flag("keepdims")}
    if kind == "vector":
        kwargs |= {
            "ord": d.choice("p", (None, 1, 2, 3, 1.5, 0.5, -1, -2.5, np.inf, -np.inf)),
            "axis": d.integer(0, len(shape) - 1),
        }
        if abs(kwargs["ord"] or 0) == np.inf:
            # Their absolute values must differ too.
            x = (d.distinct(shape) + 5).astype(d.dtype) * np.where(d.mask(shape), 1, -1).astype(d.dtype)
    elif kind == "matrix" and len(shape) >= 2:
        kwargs |= {"ord": d.choice("matrix norm", (None, "fro")), "axis": (0, -1)}
    return Sample((x,), kwargs)


def _along(d: Draw, *, least: int = 0, empty: bool = True) -> tuple[tuple[int, ...], Any]:
    shape = d.shape(least, empty=empty)
    return shape, d.axis(shape, many=False) if shape else None


@spec("cumsum")
def _cumsum(d: Draw) -> Sample:
    shape, axis = _along(d)
    return Sample((d.array(shape),), {"axis": axis})


@spec("sort")
def _sort(d: Draw) -> Sample:
    shape, axis = _along(d)
    return Sample((d.distinct(shape),), {"axis": axis})


@spec("argsort", analytic=False, second_order=False)
def _argsort(d: Draw) -> Sample:
    shape, axis = _along(d, least=1)
    return Sample((d.distinct(shape),), {"axis": axis})


@spec("topk")
def _topk(d: Draw) -> Sample:
    shape = d.shape(1)
    axis = d.axis(shape, none=False, many=False)
    k = d.integer(0, shape[axis])
    return Sample((d.distinct(shape), k), {"axis": axis, "largest": d.flag("largest")})
