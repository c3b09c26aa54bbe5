"""Exponentials, logarithms and roots, elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .reduction import floating, widened
from .registry import declare


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


class Exp2(Function):
    def forward(self, x):
        out = array_module(x).exp2(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * out * math.log(2)


@declare(lambda x: np.power(2.0, x))
def exp2(x: Any) -> Tensor:
    """2 to the power x, elementwise."""
    return Exp2()(x)


class Expm1(Function):
    def forward(self, x):
        out = array_module(x).expm1(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * (out + 1)


@declare(np.expm1)
def expm1(x: Any) -> Tensor:
    """exp(x) - 1, elementwise, accurate for small x too."""
    return Expm1()(x)


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


class LogToBase(Function):
    def __init__(self, base):
        self.base = base

    @property
    def name(self):
        return f"log{self.base}"

    def forward(self, x):
        self.save(x)
        return getattr(array_module(x), self.name)(x)

    def backward(self, g):
        (x,) = self.saved
        return g * (1 / math.log(self.base)) / x


@declare(lambda x: np.log(x) / np.log(2.0))
def log2(x: Any) -> Tensor:
    """Logarithm to base 2, elementwise."""
    return LogToBase(2)(x)


@declare(lambda x: np.log(x) / np.log(10.0))
def log10(x: Any) -> Tensor:
    """Logarithm to base 10, elementwise."""
    return LogToBase(10)(x)


class Log1p(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).log1p(x)

    def backward(self, g):
        (x,) = self.saved
        return g / (1 + x)


@declare(np.log1p)
def log1p(x: Any) -> Tensor:
    """log(1 + x), elementwise, accurate for small x too."""
    return Log1p()(x)


def sigmoid_array(x: Any) -> Any:
    """1 / (1 + e^-x) of an array, accurate for any x; of a Tensor, the recorded sigmoid."""
    xp = array_module(x)
    if isinstance(x, Tensor):
        return xp.sigmoid(x)
    x = floating(x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1, e) / (1 + e)


class LogAddExp(Function):
    """log(e^x + e^y); dx = g sigmoid(x - y), dy = g sigmoid(y - x)."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return array_module(x, y).logaddexp(x, y)

    def backward(self, g):
        x, y = map(widened, self.saved)
        g = widened(g)
        xp = array_module(g)
        a, b = array_of(x), array_of(y)
        alike = (a == b) & (array_module(a).abs(a) == np.inf)  # inf - inf would be NaN
        ahead = (xp.where(alike, 0.0, x) - xp.where(alike, 0.0, y)).astype(g.dtype)
        needs_x, needs_y = self.needs
        return g * sigmoid_array(ahead) if needs_x else None, g * sigmoid_array(-ahead) if needs_y else None


@declare(lambda x, y: np.log(np.exp(x) + np.exp(y)))
def logaddexp(x: Any, y: Any) -> Tensor:
    """log(exp(x) + exp(y)), elementwise, without overflow."""
    return LogAddExp()(x, y)


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


class Rsqrt(Function):
    """x^(-1/2); dx = -g/2 x^(-3/2)."""

    def forward(self, x):
        out = 1.0 / array_module(x).sqrt(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * -0.5 * out * out * out


@declare(lambda x: np.power(x, -0.5))
def rsqrt(x: Any) -> Tensor:
    """1 / sqrt(x), elementwise."""
    return Rsqrt()(x)
