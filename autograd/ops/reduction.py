"""Sums, means and extrema over axes, as NumPy defines them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor
from .registry import declare

Axis = int | tuple[int, ...] | None


def normalized_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """`axis` as a tuple of non-negative numbers; all for None. Raises ValueError if out of range or named twice."""
    axes = tuple(range(ndim)) if axis is None else (axis,) if not isinstance(axis, tuple) else axis
    if any(not -ndim <= a < ndim for a in axes):
        raise ValueError(f"axis {axis} is out of range for {ndim} dimensions")
    axes = tuple(a % ndim for a in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} names one axis twice")
    return axes


def spread(g: Any, axis: Axis, shape: tuple[int, ...]) -> Any:
    """A reduction's result or gradient with its reduced axes put back as size 1, so that it broadcasts to `shape`."""
    axes = normalized_axes(axis, len(shape))
    return g.reshape(tuple(1 if a in axes else size for a, size in enumerate(shape)))


class Reduction(Function):
    def __init__(self, axis: Axis, keepdims: bool):
        self.axis = axis
        self.keepdims = keepdims


class Sum(Reduction):
    def forward(self, x):
        self.shape = x.shape
        return x.sum(axis=self.axis, keepdims=self.keepdims, dtype=accumulator(x)).astype(x.dtype, copy=False)

    def backward(self, g):
        return array_module(g).broadcast_to(spread(g, self.axis, self.shape), self.shape)


def accumulator(x: Any) -> Any:
    """The dtype in which to sum: float32 for float16, whose 11 bits lose every addend beyond 2048 ones."""
    return np.float32 if x.dtype == np.float16 else None


@declare(np.sum)
def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis` (all axes by default). float16 is accumulated in float32."""
    return Sum(axis, keepdims)(x)


class Mean(Reduction):
    def forward(self, x):
        self.shape = x.shape
        return x.mean(axis=self.axis, keepdims=self.keepdims, dtype=accumulator(x)).astype(x.dtype, copy=False)

    def backward(self, g):
        count = 1
        for axis in normalized_axes(self.axis, len(self.shape)):
            count *= self.shape[axis]
        return array_module(g).broadcast_to(spread(g / max_(count, 1), self.axis, self.shape), self.shape)


max_ = max  # Python's, before NumPy's name takes its place below


@declare(np.mean)
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over `axis` (all axes by default). float16 is accumulated in float32."""
    return Mean(axis, keepdims)(x)


class Extremum(Reduction):
    """The largest (or smallest) element; where several are equal they share the gradient evenly."""

    method: str

    def forward(self, x):
        self.shape = x.shape
        out = getattr(x, self.method)(axis=self.axis, keepdims=self.keepdims)
        hits = x == spread(np.asarray(out) if isinstance(out, np.generic) else out, self.axis, x.shape)
        self.keep(hits / hits.sum(axis=self.axis, keepdims=True))
        return out

    def backward(self, g):
        (share,) = self.kept
        return spread(g, self.axis, self.shape) * share.astype(g.dtype)


class Max(Extremum):
    method = "max"


class Min(Extremum):
    method = "min"


@declare(np.max)
def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over `axis`. Equal largest elements share the gradient evenly."""
    return Max(axis, keepdims)(x)


@declare(np.min)
def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over `axis`. Equal smallest elements share the gradient evenly."""
    return Min(axis, keepdims)(x)
