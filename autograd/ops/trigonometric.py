"""Trigonometric and hyperbolic functions and their inverses, elementwise. Angles are radians."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .reduction import widened
from .registry import declare


class Sin(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).sin(x)

    def backward(self, g):
        (x,) = self.saved
        return g * array_module(x).cos(x)


@declare(np.sin)
def sin(x: Any) -> Tensor:
    """Sine, elementwise."""
    return Sin()(x)


class Cos(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).cos(x)

    def backward(self, g):
        (x,) = self.saved
        return -g * array_module(x).sin(x)


@declare(np.cos)
def cos(x: Any) -> Tensor:
    """Cosine, elementwise."""
    return Cos()(x)


class Tan(Function):
    def forward(self, x):
        out = array_module(x).tan(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * (1 + out * out)


@declare(lambda x: np.sin(x) / np.cos(x))
def tan(x: Any) -> Tensor:
    """Tangent, elementwise."""
    return Tan()(x)


class ArcSin(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arcsin(x)

    def backward(self, g):
        (x,) = self.saved
        return g / array_module(x).sqrt((1 - x) * (1 + x))  # accurate near 1, where 1 - x^2 is not


@declare(np.arcsin)
def arcsin(x: Any) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x, elementwise."""
    return ArcSin()(x)


class ArcCos(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arccos(x)

    def backward(self, g):
        (x,) = self.saved
        return -g / array_module(x).sqrt((1 - x) * (1 + x))


@declare(np.arccos)
def arccos(x: Any) -> Tensor:
    """The angle in [0, pi] whose cosine is x, elementwise."""
    return ArcCos()(x)


class ArcTan(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arctan(x)

    def backward(self, g):
        (x,) = self.saved
        size = array_module(x).hypot(x, 1.0)  # x^2 may overflow
        return g / size / size


@declare(np.arctan)
def arctan(x: Any) -> Tensor:
    """The angle in (-pi/2, pi/2) whose tangent is x, elementwise."""
    return ArcTan()(x)


class ArcTan2(Function):
    """The angle of the point (x, y); dy = g x / r^2, dx = -g y / r^2 with r^2 = x^2 + y^2; both are 0 at r = 0."""

    broadcasts = True

    def forward(self, y, x):
        self.save(y, x)
        return array_module(y, x).arctan2(y, x)

    def backward(self, g):
        y, x = map(widened, self.saved)
        xp = array_module(g)
        size = xp.hypot(x, y)  # its square may overflow or underflow
        size = xp.where(array_of(size) == 0, 1.0, size)
        needs_y, needs_x = self.needs
        return g * (x / size) / size if needs_y else None, -g * (y / size) / size if needs_x else None


def _arctan2_reference(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By the half-angle formula, which holds except on the negative x axis."""
    return 2 * np.arctan(y / (np.sqrt(x * x + y * y) + x))


@declare(_arctan2_reference)
def arctan2(y: Any, x: Any) -> Tensor:
    """The angle in [-pi, pi] of the point (x, y), elementwise. NumPy's order: y first."""
    return ArcTan2()(y, x)


class Hypot(Function):
    """r = sqrt(x^2 + y^2); dx = g x / r, dy = g y / r; both are 0 at r = 0."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return array_module(x, y).hypot(x, y)

    def backward(self, g):
        x, y = map(widened, self.saved)
        xp = array_module(g)
        out = xp.hypot(x, y)
        out = xp.where(array_of(out) == 0, 1.0, out)
        needs_x, needs_y = self.needs
        return g * (x / out) if needs_x else None, g * (y / out) if needs_y else None


@declare(lambda x, y: np.sqrt(x * x + y * y))
def hypot(x: Any, y: Any) -> Tensor:
    """sqrt(x^2 + y^2), elementwise, without overflow of the squares; the gradient at 0 is 0."""
    return Hypot()(x, y)


class Sinh(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).sinh(x)

    def backward(self, g):
        (x,) = self.saved
        return g * array_module(x).cosh(x)


@declare(lambda x: (np.exp(x) - np.exp(-x)) / 2)
def sinh(x: Any) -> Tensor:
    """Hyperbolic sine, elementwise."""
    return Sinh()(x)


class Cosh(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).cosh(x)

    def backward(self, g):
        (x,) = self.saved
        return g * array_module(x).sinh(x)


@declare(lambda x: (np.exp(x) + np.exp(-x)) / 2)
def cosh(x: Any) -> Tensor:
    """Hyperbolic cosine, elementwise."""
    return Cosh()(x)


class Tanh(Function):
    def forward(self, x):
        out = array_module(x).tanh(x)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * (1 - out * out)


@declare(np.tanh)
def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent, elementwise."""
    return Tanh()(x)


class ArcSinh(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arcsinh(x)

    def backward(self, g):
        (x,) = self.saved
        return g / array_module(x).hypot(x, 1.0)


@declare(np.arcsinh)
def arcsinh(x: Any) -> Tensor:
    """Inverse of the hyperbolic sine, elementwise."""
    return ArcSinh()(x)


class ArcCosh(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arccosh(x)

    def backward(self, g):
        (x,) = self.saved
        xp = array_module(x)
        return g / (xp.sqrt(x - 1) * xp.sqrt(x + 1))


@declare(np.arccosh)
def arccosh(x: Any) -> Tensor:
    """Inverse of the hyperbolic cosine for x >= 1, elementwise."""
    return ArcCosh()(x)


class ArcTanh(Function):
    def forward(self, x):
        self.save(x)
        return array_module(x).arctanh(x)

    def backward(self, g):
        (x,) = self.saved
        return g / ((1 - x) * (1 + x))


@declare(np.arctanh)
def arctanh(x: Any) -> Tensor:
    """Inverse of the hyperbolic tangent for |x| < 1, elementwise."""
    return ArcTanh()(x)
