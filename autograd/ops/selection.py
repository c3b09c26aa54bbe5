"""Elementwise selection: where, masked_fill, maximum, minimum, clip."""

from typing import Any

import numpy as np

from ..backend import array_module, as_array
from ..function import Function
from ..tensor import Tensor, array_of, constant_array
from .registry import declare

#: Elements of a mask from which on NumPy's branch for each element takes longer than arithmetic on the bits.
MANY = 1 << 13
FEW = 1 << 10


def selected(g: Any, mask: Any, out: Any = None) -> Any:
    """Return g where `mask` is true, and 0 elsewhere, also for an infinite or NaN g, unlike g * mask."""
    if not isinstance(g, np.ndarray):
        return array_module(g).where(mask, g, 0.0)
    if out is None and (g.size < FEW or g.itemsize > 8):
        return np.where(mask, g, 0.0)
    out = np.empty_like(g) if out is None else out
    if g.itemsize > 8:
        np.copyto(out, np.where(mask, g, 0.0))
    else:  # np.where takes ten times as long for a random mask
        np.multiply(g.view(f"i{g.itemsize}"), mask, out=out.view(f"i{g.itemsize}"))
    return out


def chosen(mask: Any, x: Any, y: Any) -> Any:
    """Return x where `mask` (boolean) is true, y elsewhere."""
    xp = array_module(mask, x, y)
    if xp is not np or mask.size < MANY or (dtype := np.result_type(x, y)).char not in "fd":
        return xp.where(mask, x, y)
    # The bits y ^ (x ^ y) mask: np.where takes eight times as long for a random mask.
    x, y = (np.asarray(part, dtype).view(f"i{dtype.itemsize}") for part in (x, y))
    change = x ^ y
    out = np.multiply(change, mask, out=change if change.shape == mask.shape else None)
    return np.bitwise_xor(out, y, out=out).view(dtype)


class Where(Function):
    broadcasts = True

    def forward(self, condition, x, y):
        is_mask = hasattr(condition, "dtype") and condition.dtype.char == "?"
        mask = condition if is_mask else condition != np.bool_(False)
        self.keep(mask)
        return chosen(mask, x, y)

    def backward(self, g):
        (mask,) = self.kept
        _, needs_x, needs_y = self.needs
        return None, selected(g, mask) if needs_x else None, selected(g, ~mask) if needs_y else None


@declare(np.where)
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return x where `condition` (boolean) is true, y elsewhere. All three broadcast. The condition has no gradient."""
    return Where()(condition, x, y)


@declare(lambda x, mask, value: np.where(mask, value, x), composed=True)
def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """Return x with `value` (a number or a 0-d tensor) where `mask` (boolean, broadcasts with x) is true. Raises
    TypeError for a mask that is not boolean or for a complex value. Raises ValueError for a value with axes.
    """
    mask = mask if isinstance(mask, Tensor) else constant_array(mask, "masked_fill: mask")
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_fill: the mask must be boolean, not {mask.dtype}")
    if type(value) not in (float, int):
        value = value if hasattr(value, "dtype") else as_array(value, "masked_fill: value")
        if value.dtype.kind == "c":
            raise TypeError(f"masked_fill: a complex value ({value}) can't be stored in a real tensor")
        if value.shape:
            raise ValueError(f"masked_fill: the value must be a single number, not an array of shape {value.shape}")
    return Where()(mask, value, x)


class Extreme(Function):
    """The larger (or smaller) value. Equal values get half of the gradient each. With a NaN, both get all of it."""

    broadcasts = True

    def __init__(self, function):
        self.function = function

    @property
    def name(self):
        return self.function

    def forward(self, x, y):
        self.save(x, y)
        return getattr(array_module(x, y), self.function)(x, y)

    def backward(self, g):
        x, y = map(array_of, self.saved)
        first, second = (x, y) if self.function == "maximum" else (y, x)
        xp, tied = array_module(first, second), x == y
        needs_x, needs_y = self.needs

        def unless(lost):
            return selected(g, ~lost) * xp.where(tied, 0.5, 1.0).astype(g.dtype)

        return unless(first < second) if needs_x else None, unless(first > second) if needs_y else None


@declare(np.maximum)
def maximum(x: Any, y: Any) -> Tensor:
    """Return the larger of two values, elementwise. Equal values get half of the gradient each.
    Where a value is NaN, the result is NaN, and both values get the whole gradient.
    """
    return Extreme("maximum")(x, y)


@declare(np.minimum)
def minimum(x: Any, y: Any) -> Tensor:
    """Return the smaller of two values, elementwise. Equal values get half of the gradient each.
    Where a value is NaN, the result is NaN, and both values get the whole gradient.
    """
    return Extreme("minimum")(x, y)


class Clip(Function):
    """min(max(x, low), high). The gradient goes to the argument that equals the result, at a bound to x."""

    broadcasts = True

    def __init__(self, has_low, has_high):
        self.has_low, self.has_high = has_low, has_high

    def bounds(self, operands):
        bounds = iter(operands)
        return next(bounds) if self.has_low else None, next(bounds) if self.has_high else None

    def forward(self, x, *bounds):
        self.save(x, *bounds)
        low, high = self.bounds(bounds)
        return array_module(x, *bounds).clip(x, low, high)

    def backward(self, g):
        x, *bounds = map(array_of, self.saved)
        low, high = self.bounds(bounds)
        above = False if high is None else x > high
        below = False if low is None else x < low
        if low is not None and high is not None:
            above, below = above | (low > high), below & (low <= high)  # crossed bounds: the result is `high`
        gradients = [selected(g, ~(above | below))]
        if self.has_low:
            gradients.append(selected(g, below))
        if self.has_high:
            gradients.append(selected(g, above))
        return tuple(gradients)


def _clip_reference(x: np.ndarray, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Any:
    min, max = a_min if min is None else min, a_max if max is None else max
    out = x if min is None else np.where(np.real(x) < np.real(min), min, x)
    return out if max is None else np.where(np.real(out) > np.real(max), max, out)


@declare(_clip_reference)
def clip(x: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Tensor:
    """Limit x to [min, max]. The bounds are numbers or arrays that broadcast, or None for no bound.

    `a_min` and `a_max` are NumPy's older names of the bounds. The gradient goes to x where min <= x <= max, elsewhere
    to the bound. Raises ValueError if no bound is given, or if a bound is given by both names.
    """
    if (min is not None and a_min is not None) or (max is not None and a_max is not None):
        raise ValueError("clip: a_min is another name of min, and a_max of max; use only one of the two names")
    min, max = a_min if min is None else min, a_max if max is None else max
    if min is None and max is None:
        raise ValueError("clip: min, max or both are required")
    return Clip(min is not None, max is not None)(x, *(bound for bound in (min, max) if bound is not None))
