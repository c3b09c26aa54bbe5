"""Sums, means, products and extrema over axes, as NumPy defines them."""

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..sums import summed
from ..tensor import Tensor, array_of, shape_of
from .registry import declare
from .selection import where

Axis = int | tuple[int, ...] | None


def normalized_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return `axis` as a tuple of axes from 0 on, all for None. Raises ValueError for an invalid or repeated axis."""
    return tuple(range(ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def axis_of(x: Any, axis: Axis) -> Axis:
    """Return `axis`, or () if x is 0-d and `axis` is 0 or -1, which NumPy's sum and PyTorch's reductions accept."""
    return () if axis is not None and axis in (0, -1) and not shape_of(x) else axis


def spread(g: Any, axis: Axis, shape: tuple[int, ...]) -> Any:
    """Return a reduction's result or gradient with the reduced axes as axes of size 1, which broadcasts to `shape`."""
    if axis is None:
        return g
    axes = normalized_axes(axis, len(shape))
    return g.reshape(tuple(1 if a in axes else size for a, size in enumerate(shape)))


def count(axis: Axis, shape: tuple[int, ...]) -> int:
    """Return the number of elements that a reduction over `axis` of an array of `shape` combines into one element."""
    return math.prod(shape[a] for a in normalized_axes(axis, len(shape)))


def floating(x: Any) -> Any:
    """Convert integers and booleans to float64, in which differences can't wrap around. Other dtypes are unchanged."""
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


class Reduction(Function):
    def __init__(self, axis: Axis, keepdims: bool):
        self.axis = axis
        self.keepdims = keepdims


class AlongAxis(Function):
    """The base class of ops along one axis."""

    def __init__(self, axis):
        self.axis = axis


class Sum(Reduction):
    float16 = "mixed"

    def forward(self, x):
        self.shape = x.shape
        return summed(x, self.axis, self.keepdims)

    def backward(self, g):
        return array_module(g).broadcast_to(spread(g, self.axis, self.shape), self.shape)


@declare(np.sum)
def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis` (all axes by default). float16 is accumulated in float32, integers and booleans in int64."""
    return Sum(axis_of(x, axis), keepdims)(x)


class Mean(Reduction):
    float16 = "widened"

    def forward(self, x):
        self.shape = x.shape
        return summed(floating(x), self.axis, self.keepdims) / count(self.axis, x.shape)

    def backward(self, g):
        g = g / max_(count(self.axis, self.shape), 1)
        return array_module(g).broadcast_to(spread(g, self.axis, self.shape), self.shape)


max_ = max  # Python's, since the op below has the same name


@declare(np.mean)
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Compute the mean over `axis` (all axes by default), in float32 for float16; integers give float64."""
    return Mean(axis_of(x, axis), keepdims)(x)


class Prod(Reduction):
    """The product over axes. Its derivative by one element is the product of all other elements, even if some are 0."""

    float16 = "widened"

    def forward(self, x):
        self.save(x)
        return x.prod(axis=self.axis, keepdims=self.keepdims)

    def backward(self, g):
        (x,) = self.saved
        xp = array_module(x)
        axes = normalized_axes(self.axis, x.ndim)
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        # One row for each product, (rows, n).
        lines = x.transpose(kept + axes).reshape((-1 if x.size else 0, max_(count(self.axis, x.shape), 1)))
        others = _others_recorded(lines) if isinstance(x, Tensor) else _others(lines, xp)
        sizes = tuple(x.shape[a] for a in kept + axes)
        back = sorted(range(x.ndim), key=(kept + axes).__getitem__)
        return spread(g, self.axis, x.shape) * others.reshape(sizes).transpose(back)


def _others(lines: Any, xp: Any) -> Any:
    """Return for each element the product of the elements before it times that of the elements after it, by row."""
    before, after = xp.ones_like(lines), xp.ones_like(lines)
    before[:, 1:] = xp.cumprod(lines[:, :-1], axis=1)
    after[:, :-1] = xp.cumprod(lines[:, :0:-1], axis=1)[:, ::-1]
    return before * after


def _others_recorded(lines: Tensor) -> Any:
    """Compute `_others` by recorded ops, as products of n copies of each row. In copy i, element i is 1."""
    rows, n = lines.shape
    xp = array_module(lines.data)
    return prod(where(xp.eye(n, dtype=bool), 1.0, lines.reshape((rows, 1, n))), axis=-1)


@declare(np.prod)
def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Compute the product over `axis` (by default all), in float32 for float16; the gradient is exact even at 0."""
    return Prod(axis_of(x, axis), keepdims)(x)


class Extremum(Reduction):
    """The largest (or smallest) element. If several elements are equal, the gradient is divided evenly among them."""

    def __init__(self, method, axis, keepdims):
        super().__init__(axis, keepdims)
        self.method = method

    @property
    def name(self):
        return self.method.capitalize()

    def forward(self, x):
        out = getattr(x, self.method)(axis=self.axis, keepdims=self.keepdims)
        self.save(x, out)
        return out

    def backward(self, g):
        x, out = map(array_of, self.saved)
        hits = x == spread(out, self.axis, x.shape)
        # The result of a row with NaN is NaN, which equals nothing: its NaNs get the gradient.
        hits |= x != x
        share = hits / hits.sum(axis=self.axis, keepdims=True)
        return spread(g, self.axis, x.shape) * share.astype(g.dtype)


@declare(np.max)
def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over `axis`; NaN if one is NaN. Equal elements share the gradient evenly."""
    return Extremum("max", axis_of(x, axis), keepdims)(x)


@declare(np.min)
def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over `axis`; NaN if one is NaN. Equal elements share the gradient evenly."""
    return Extremum("min", axis_of(x, axis), keepdims)(x)


class ArgExtremum(Reduction):
    method: str

    def forward(self, x):
        return getattr(x, self.method)(axis=self.axis, keepdims=self.keepdims)


class ArgMax(ArgExtremum):
    method = "argmax"


class ArgMin(ArgExtremum):
    method = "argmin"


@declare(np.argmax)
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element along `axis` (of the flattened x for None).
    The first of equal elements is selected. There is no gradient.
    """
    return ArgMax(axis, keepdims)(x)


@declare(np.argmin)
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element along `axis` (of the flattened x for None).
    The first of equal elements is selected. There is no gradient.
    """
    return ArgMin(axis, keepdims)(x)
