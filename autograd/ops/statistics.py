"""Reductions of more than one step: variance, norms, log-sum-exp, running sums."""

from typing import Any

import numpy as np

from ..backend import array_module, as_array
from ..function import run
from ..half import in_float32
from ..sums import running_dtype, summed
from ..tensor import Tensor, array_of, shape_of
from .elementwise import abs, divide, promoted, sign, square, subtract
from .reduction import (
    AlongAxis,
    Axis,
    Reduction,
    axis_of,
    count,
    floating,
    max,
    mean,
    min,
    normalized_axes,
    spread,
    sum,
)
from .registry import declare
from .shape import reshape


def _divisor(axis: Axis, shape: tuple[int, ...], ddof: float) -> float:
    """Return n - ddof, or 0 if n < ddof. For 0, NumPy warns, since the variance is then NaN or infinite."""
    rest = float(count(axis, shape) - ddof)
    return rest if rest > 0 else 0.0


@declare(lambda x, axis=None, keepdims=False, ddof=0: _std_reference(x, axis, keepdims, ddof) ** 2)
def var(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """Compute the variance over `axis` (all by default) with the divisor n - ddof; NaN or infinite unless n > ddof."""
    (x,), axis = promoted(x if hasattr(x, "dtype") else as_array(x, "var")), axis_of(x, axis)
    return _var(x, axis=axis, keepdims=keepdims, ddof=ddof)


@in_float32
def _var(x: Any, *, axis: Axis, keepdims: bool, ddof: int) -> Tensor:
    squares = square(subtract(x, mean(x, axis, keepdims=True)))
    return divide(sum(squares, axis, keepdims), _divisor(axis, x.shape, ddof))


class Root(Reduction):
    """The base class of reductions whose gradient is divided by the result, and is 0 where the result is 0."""

    float16 = "widened"

    def save_root(self, x, out):
        """Save x and the result, also as it is before it is rounded to float16. Return the result."""
        self.save(x, out)
        self.keep(out)
        return out

    def saved_root(self, g):
        """Return x, and the result and g with 1 and 0 where the result is 0."""
        x, out = self.saved
        out = out if isinstance(out, Tensor) else self.kept[0]
        xp, zero = array_module(g), array_of(out) == 0
        return x, xp.where(zero, 1.0, out), xp.where(zero, 0.0, g)


class Std(Root):
    """The square root of the variance; dx = g (x - mean) / ((n - ddof) std), and 0 where std is 0."""

    def __init__(self, axis, keepdims, ddof):
        super().__init__(axis, keepdims)
        self.ddof = ddof

    def forward(self, x):
        xp, divisor = array_module(x), _divisor(self.axis, x.shape, self.ddof)
        centred = x - self.mean(x)
        with np.errstate(over="ignore"):
            squares = summed(centred * centred, self.axis, self.keepdims)
        least, most = (f(squares) if xp is np and squares.size else 0.0 for f in (np.min, np.max))
        if least > 1e-30 and most < np.inf:
            return self.save_root(x, xp.sqrt(squares / divisor))
        # Squares may have overflowed, or underflowed to 0: divide by the largest element first.
        top = xp.abs(centred).max(axis=self.axis, keepdims=True) if x.size else summed(centred, self.axis, True)
        top = xp.where((top == 0) | (top == np.inf), 1, top)
        squares = summed((centred / top) ** 2, self.axis, self.keepdims)
        return self.save_root(x, xp.sqrt(squares / divisor) * top.reshape(squares.shape))

    def backward(self, g):
        x, std, g = self.saved_root(g)
        g, std = (spread(each, self.axis, x.shape) for each in (g / _divisor(self.axis, x.shape, self.ddof), std))
        return g * ((x - self.mean(x)) / std)  # g / std may overflow

    def mean(self, x):
        return summed(x, self.axis, keepdims=True) / (count(self.axis, x.shape) or np.nan)


def _std_reference(x: np.ndarray, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Any:
    n = count(axis, x.shape)
    mean = x.sum(axis=axis, keepdims=True) / n
    return np.sqrt(((x - mean) ** 2).sum(axis=axis, keepdims=keepdims) / (n - ddof))


@declare(_std_reference)
def std(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """Compute the standard deviation over `axis`. The gradient is 0 where the standard deviation is 0. The result is
    NaN or infinite unless n > ddof.
    """
    return Std(axis_of(x, axis), keepdims, ddof)(x)


class LogSumExp(Reduction):
    """log sum exp x; dx = g softmax(x)."""

    float16 = "widened"

    def forward(self, x):
        xp = array_module(x)
        wide = floating(x)
        if count(self.axis, x.shape):
            top = wide.max(axis=self.axis, keepdims=True)
            top = xp.where(xp.isfinite(top), top, 0)  # so that a row of -inf has the sum 0, not NaN
        else:
            top = wide.sum(axis=self.axis, keepdims=True)
        e, at_top = xp.exp(wide - top), wide == top
        # The largest elements are counted, so that the sum of the others keeps its digits beside their sum.
        count_top = at_top.sum(axis=self.axis, keepdims=True).astype(e.dtype)
        rest = summed(xp.where(at_top, 0, e), self.axis, keepdims=True)
        total = count_top + rest
        with np.errstate(divide="ignore"):
            log = xp.where(count_top, xp.log1p(rest / xp.maximum(count_top, 1)) + xp.log(count_top), xp.log(rest))
            out = log + top
        self.save(x)
        self.keep(top, total + (total == 0))
        return out if self.keepdims else xp.squeeze(out, normalized_axes(self.axis, x.ndim))

    def backward(self, g):
        (x,) = self.saved
        top, total = self.kept  # more accurate than exp(x - out) where out is large
        e = array_module(x).exp(x - top)
        if isinstance(x, Tensor):  # recorded: it depends on x
            total = summed(e, self.axis, keepdims=True)
            total = total + (total == 0)
        return spread(g, self.axis, x.shape) * (e / total)


@declare(lambda x, axis=None, keepdims=False: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)))
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Compute log(sum(exp(x))) over `axis` (all axes by default), without overflow.
    The result is -inf if there are no elements, or if all elements are -inf.
    """
    return LogSumExp(axis_of(x, axis), keepdims)(x)


class PNorm(Root):
    """(sum |x|^p)^(1/p); dx = g sign(x) (|x| / norm)^(p-1), and 0 where the norm is 0."""

    def __init__(self, p, axis, keepdims):
        super().__init__(axis, keepdims)
        self.p = p

    def forward(self, x):
        size = array_module(x).abs(x)
        extreme = size.max if self.p > 0 else size.min
        top = extreme(axis=self.axis, keepdims=True) if x.size else size.sum(axis=self.axis, keepdims=True)
        top = array_module(x).where((top == 0) | (top == np.inf), 1, top)  # powers of |x| / top don't overflow
        with np.errstate(divide="ignore", over="ignore"):  # a negative power of 0 is infinite, and the norm 0
            total = summed((size / top) ** self.p, self.axis, self.keepdims)
        return self.save_root(x, total ** (1 / self.p) * top.reshape(total.shape))

    def backward(self, g):
        x, norm, g = self.saved_root(g)
        norm, g, xp = spread(norm, self.axis, x.shape), spread(g, self.axis, x.shape), array_module(g)
        if self.p == 2:
            return g * (x / norm)
        ratio = xp.abs(x) / norm
        x_is_zero = array_of(x) == 0  # for p < 1 the power of 0 is infinite; the derivative there is 0
        return g * xp.sign(x) * xp.where(x_is_zero, 1.0, ratio) ** (self.p - 1)


def _norm_reference(x: np.ndarray, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Any:
    size = np.where(x.real > 0, x, -x)
    if ord in (np.inf, -np.inf):
        return (np.max if ord == np.inf else np.min)(size, axis=axis, keepdims=keepdims)
    p: Any = 2.0 if ord in (None, "fro") else ord
    return np.sum(size**p, axis=axis, keepdims=keepdims) ** (1 / p)


@declare(_norm_reference)
def norm(x: Any, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Compute the p-norm of vectors, (sum |x|^p)^(1/p), or Frobenius' norm of matrices.

    Args:
        ord: the number p, inf (for the largest |x|), -inf (for the smallest |x|), 0 (for the number of non-zero
            elements), "fro", or None, which means 2.
        axis: one axis (vectors), two (matrices) or None (all elements). If `ord` is a number, `axis` must be one axis;
            if `ord` is "fro", two axes. The other matrix norms of numpy.linalg.norm are not supported.

    The gradient is 0 where the norm is 0. Raises ValueError for another `ord`, or for axes that don't fit `ord`.
    """
    ndim = len(shape_of(x))
    if not ndim and axis in (0, -1):
        return norm(reshape(x, 1), ord, 0)
    axes = normalized_axes(axis, ndim)
    (x,) = promoted(x)
    if ord == "fro" and len(axes) != 2:
        raise ValueError(f"norm: ord='fro' needs two axes, but axis is {axis} for an array of {ndim} dimensions")
    if isinstance(ord, str) and ord != "fro":
        raise ValueError(f"norm: ord={ord!r} is not supported: use a number, None or 'fro'")
    if ord not in (None, "fro") and len(axes) != 1:
        raise ValueError(f"norm: ord={ord} with axis={axis}: a p-norm needs exactly one axis")
    if ord in (np.inf, -np.inf):
        return (max if ord == np.inf else min)(abs(x), axis=axes, keepdims=keepdims)
    if ord == 1:
        return sum(abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum(abs(sign(x)), axis=axes, keepdims=keepdims)
    return PNorm(2.0 if ord in (None, "fro") else float(ord), axes, keepdims)(x)


class CumSum(AlongAxis):
    """y_i = sum of x_j for j <= i; dx_j = sum of g_i for i >= j, a running sum from the end."""

    float16 = "widened"

    def forward(self, x):
        out = array_module(x).cumsum(x, axis=self.axis, dtype=running_dtype(x))
        return out if x.dtype.kind in "iub" else out.astype(x.dtype, copy=False)

    def backward(self, g):
        xp = array_module(g)
        return xp.flip(run(CumSum(self.axis), xp.flip(g, axis=self.axis)), axis=self.axis)


@declare(np.cumsum)
def cumsum(x: Any, axis: int | None = None) -> Tensor:
    """Compute the running sum along `axis`, of the flattened x for None. float16 is accumulated in float32."""
    if axis is None or not shape_of(x):
        return CumSum(axis or 0)(reshape(x, -1))
    return CumSum(axis)(x)
