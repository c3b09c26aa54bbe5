"""Elementwise arithmetic and mathematical functions, with NumPy's broadcasting.

`g` is the gradient that arrives from above: d(loss)/d(output).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor
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
        self.save(x, y)
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
    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x / y

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        return g / y if needs_x else None, -g * x / (y * y) if needs_y else None


@declare(np.divide)
def divide(x: Any, y: Any) -> Tensor:
    """x / y, elementwise. Integers give float64, as in NumPy."""
    return Divide()(x, y)


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
    """x**y; d/dx = y x**(y-1), d/dy = x**y log x. Both are 0 where their factor is (0**0 included)."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x**y

    def backward(self, g):
        x, y = self.saved
        xp = array_module(g)
        needs_x, needs_y = self.needs
        gradient_x = gradient_y = None
        if needs_x:
            # Where the exponent is 0 the derivative is 0 even at x = 0, where x**(y-1) is infinite.
            constant = y == 0
            gradient_x = g * xp.where(constant, 0.0, y * x ** xp.where(constant, 1.0, y - 1).astype(g.dtype))
        if needs_y:
            zero = x == 0
            gradient_y = g * xp.where(zero, 0.0, x**y * xp.log(xp.where(zero, 1.0, x)))
        return gradient_x, gradient_y


@declare(np.power)
def power(x: Any, y: Any) -> Tensor:
    """x to the power y, elementwise."""
    return Power()(x, y)


class Exp(Function):
    def forward(self, x):
        out = array_module(x).exp(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * out


@declare(np.exp)
def exp(x: Any) -> Tensor:
    """e to the power x, elementwise."""
    return Exp()(x)


class Log(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).log(x)

    def backward(self, g):
        (x,) = self.saved
        return g / x


@declare(np.log)
def log(x: Any) -> Tensor:
    """Natural logarithm, elementwise."""
    return Log()(x)


class Sqrt(Function):
    def forward(self, x):
        out = array_module(x).sqrt(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * 0.5 / out


@declare(np.sqrt)
def sqrt(x: Any) -> Tensor:
    """Square root, elementwise."""
    return Sqrt()(x)


class Abs(Function):
    """|x|; the gradient at 0 is 0."""

    def forward(self, x):
        self.save(x)
        return array_module(x).abs(x)

    def backward(self, g):
        (x,) = self.saved
        return g * array_module(x).sign(x)


@declare(np.abs)
def abs(x: Any) -> Tensor:
    """Absolute value, elementwise; the gradient at 0 is 0."""
    return Abs()(x)


class Sign(Function):
    def forward(self, x):
        return array_module(x).sign(x)

    def backward(self, g):
        return g * 0


@declare(np.sign)
def sign(x: Any) -> Tensor:
    """-1, 0 or 1, elementwise; the gradient is 0 everywhere."""
    return Sign()(x)


class Where(Function):
    broadcasts = True

    def forward(self, condition, x, y):
        self.keep(condition)
        return array_module(condition, x, y).where(condition, x, y)

    def backward(self, g):
        (condition,) = self.kept
        xp = array_module(g)
        _, needs_x, needs_y = self.needs
        return (
            None,
            xp.where(condition, g, 0.0) if needs_x else None,
            xp.where(condition, 0.0, g) if needs_y else None,
        )


@declare(np.where)
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where `condition` (boolean) holds, y elsewhere; all three broadcast. No gradient for the condition."""
    return Where()(condition, x, y)


class AsType(Function):
    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)

    def forward(self, x):
        self.input_dtype = x.dtype
        return x.astype(self.dtype)

    def backward(self, g):
        return g.astype(self.input_dtype)


@declare(lambda x, dtype: x.astype(dtype))
def astype(x: Any, dtype: Any) -> Tensor:
    """Cast to `dtype`; the gradient is cast back. A cast to integers or booleans cuts the graph."""
    return AsType(dtype)(x)
