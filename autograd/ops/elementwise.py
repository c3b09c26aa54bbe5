"""Elementwise arithmetic, with NumPy's broadcasting.

In each `backward`, `g` is the gradient of the loss at the op's output, d(loss)/d(output), and the result is that at its
inputs. The base class sums it over broadcast axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .reduction import widened
from .registry import declare


class Add(Function):
    broadcasts = True

    def forward(self, x, y):
        return x + y

    def backward(self, g):
        return g, g


@declare(np.add)
def add(x: Any, y: Any) -> Tensor:
    """x + y."""
    return Add()(x, y)


class Subtract(Function):
    broadcasts = True

    def forward(self, x, y):
        return x - y

    def backward(self, g):
        return g, -g if self.needs[1] else None


@declare(np.subtract)
def subtract(x: Any, y: Any) -> Tensor:
    """x - y."""
    return Subtract()(x, y)


class Multiply(Function):
    broadcasts = True

    def forward(self, x, y):
        # A Python number gets no gradient, so the other factor is not needed.
        self.save(None if type(y) is float else x, None if type(x) is float else y)
        return x * y

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        return g * y if needs_x else None, g * x if needs_y else None


@declare(np.multiply)
def multiply(x: Any, y: Any) -> Tensor:
    """x * y, elementwise."""
    return Multiply()(x, y)


class Divide(Function):
    """q = x / y; dx = g / y, dy = -(g q) / y, without y^2, which underflows, or 1 / y, which overflows, too early."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x / y

    def backward(self, g):
        x, y = map(widened, self.saved)
        needs_x, needs_y = self.needs
        return g / y if needs_x else None, -(g * (x / y)) / y if needs_y else None


@declare(np.divide)
def divide(x: Any, y: Any) -> Tensor:
    """x / y, elementwise. Integers give float64, as in NumPy."""
    return Divide()(x, y)


class Reciprocal(Function):
    def forward(self, x):
        out = 1.0 / x
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return -g * out * out


@declare(lambda x: np.divide(1.0, x))
def reciprocal(x: Any) -> Tensor:
    """1 / x, elementwise. Integers give float64 (NumPy's own truncates them)."""
    return Reciprocal()(x)


class Negative(Function):
    def forward(self, x):
        return -x

    def backward(self, g):
        return -g


@declare(np.negative)
def negative(x: Any) -> Tensor:
    """-x."""
    return Negative()(x)


class Power(Function):
    """x**y; dx = g y x**(y-1), dy = g x**y log x.

    The first is 0 where y = 0, the second where x = 0 and y >= 0, 0**0 included. 0**-1 and its derivative are infinite.
    """

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x**y

    def backward(self, g):
        x, y = map(widened, self.saved)
        g = widened(g)
        xp = array_module(g)
        needs_x, needs_y = self.needs
        gradient_x = gradient_y = None
        if needs_x:
            gradient_x = g * _power_slope(x, y, xp)
        if needs_y:
            zero = (array_of(x) == 0) & (array_of(y) >= 0)
            logarithm = xp.log(xp.where(zero, 1.0, x)).astype(g.dtype)  # of a Python number it is float64
            gradient_y = g * xp.where(zero, 0.0, x**y * logarithm)
        return gradient_x, gradient_y


def _power_slope(x: Any, y: Any, xp: Any) -> Any:
    """y x**(y-1); 0 where y = 0, even at x = 0, where the other factor is infinite."""
    if isinstance(y, int | float):
        return y * x ** (y - 1) if y else xp.zeros_like(x)
    constant = array_of(y) == 0
    return xp.where(constant, 0.0, y * x ** xp.where(constant, 1.0, y - 1).astype(x.dtype))


@declare(np.power)
def power(x: Any, y: Any) -> Tensor:
    """x to the power y, elementwise."""
    return Power()(x, y)


class Square(Function):
    def forward(self, x):
        self.save(x)
        return x * x

    def backward(self, g):
        (x,) = self.saved
        return 2 * (g * x)  # (2 * g) * x may overflow where this doesn't


@declare(np.square)
def square(x: Any) -> Tensor:
    """x * x."""
    return Square()(x)


class Abs(Function):
    """|x|; the gradient at 0 is 0."""

    def forward(self, x):
        self.save(x)
        return array_module(x).abs(x)

    def backward(self, g):
        (x,) = self.saved
        return g * array_module(x).sign(x)


@declare(lambda x: np.where(np.real(x) > 0, x, -x))  # np.abs is not analytic, as complex-step derivatives require
def abs(x: Any) -> Tensor:
    """Absolute value, elementwise; the gradient at 0 is 0."""
    return Abs()(x)


class Step(Function):
    """A NumPy function that is constant between its jumps, by name; the gradient is 0 everywhere."""

    def __init__(self, function):
        self.function = function

    @property
    def name(self):
        return self.function

    def forward(self, x):
        return getattr(array_module(x), self.function)(x)

    def backward(self, g):
        return array_module(g).zeros_like(g)


@declare(np.sign)
def sign(x: Any) -> Tensor:
    """-1, 0 or 1, elementwise; the gradient is 0 everywhere."""
    return Step("sign")(x)


@declare(np.floor)
def floor(x: Any) -> Tensor:
    """The largest integer not above x; the gradient is 0 everywhere."""
    return Step("floor")(x)


@declare(np.ceil)
def ceil(x: Any) -> Tensor:
    """The smallest integer not below x; the gradient is 0 everywhere."""
    return Step("ceil")(x)


@declare(np.trunc)
def trunc(x: Any) -> Tensor:
    """x without its fraction; the gradient is 0 everywhere."""
    return Step("trunc")(x)


@declare(np.rint)
def rint(x: Any) -> Tensor:
    """The nearest integer, halves to even; the gradient is 0 everywhere."""
    return Step("rint")(x)


class Round(Step):
    def __init__(self, decimals):
        super().__init__("round")
        self.decimals = decimals

    def forward(self, x):
        return array_module(x).round(x, self.decimals)


@declare(np.round)
def round(x: Any, decimals: int = 0) -> Tensor:
    """x rounded to `decimals` decimals, halves to even; the gradient is 0 everywhere."""
    return Round(decimals)(x)


class FloorDivide(Function):
    """floor(x / y), which is constant between its jumps: the gradients are 0 everywhere."""

    broadcasts = True

    def forward(self, x, y):
        return x // y

    def backward(self, g):
        zeros = array_module(g).zeros_like(g)
        return tuple(zeros if needed else None for needed in self.needs)


@declare(np.floor_divide)
def floor_divide(x: Any, y: Any) -> Tensor:
    """The largest integer not above x / y, elementwise; the gradients are 0 everywhere."""
    return FloorDivide()(x, y)


class Remainder(Function):
    """x - y floor(x / y); dx = g, dy = -g floor(x / y)."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x % y

    def backward(self, g):
        x, y = map(array_of, self.saved)
        return g, -g * (x // y) if self.needs[1] else None


@declare(np.remainder)
def remainder(x: Any, y: Any) -> Tensor:
    """x mod y with the sign of y, elementwise."""
    return Remainder()(x, y)


class AsType(Function):
    def __init__(self, dtype):
        self.dtype = np.dtype(dtype).newbyteorder("=")

    def forward(self, x):
        self.input_dtype = x.dtype
        return x.astype(self.dtype)

    def backward(self, g):
        return g.astype(self.input_dtype)


@declare(lambda x, dtype: x.astype(dtype))
def astype(x: Any, dtype: Any) -> Tensor:
    """Cast to `dtype`; the gradient is cast back. A cast to integers or booleans cuts the graph."""
    return AsType(dtype)(x)


def promoted(*operands: Any) -> tuple[Any, ...]:
    """The operands (None stays None) in their common dtype by NumPy's rules; integers and booleans become float64.

    For ops whose code, or kernel, takes a single floating dtype. The gradient of a cast operand is cast back.
    """
    first = getattr(operands[0], "dtype", np.dtype(object))
    if first.kind == "f" and all(x is None or getattr(x, "dtype", None) == first for x in operands):
        return operands
    operands = tuple(x if x is None or hasattr(x, "dtype") else np.asarray(x) for x in operands)
    dtype = np.result_type(*{x.dtype for x in operands if x is not None})
    dtype = np.dtype(np.float64) if dtype.kind in "iub" else dtype
    return tuple(x if x is None or x.dtype == dtype else astype(x, dtype) for x in operands)
