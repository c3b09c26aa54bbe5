"""Trigonometric and hyperbolic functions and their inverses, elementwise. Angles are radians."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .elementwise import elementwise
from .registry import declare

sin = elementwise("Sin", "x", lambda g, x, xp: g * xp.cos(x), "Sine, elementwise.")
cos = elementwise("Cos", "x", lambda g, x, xp: -g * xp.sin(x), "Cosine, elementwise.")
tan = elementwise(
    "Tan", "y", lambda g, y, xp: g * (1 + y * y), "Tangent, elementwise.", reference=lambda x: np.sin(x) / np.cos(x)
)
# (1 - x) (1 + x) is accurate near 1, but 1 - x^2 is not.
arcsin = elementwise(
    "ArcSin", "x", lambda g, x, xp: g / xp.sqrt((1 - x) * (1 + x)),
    "The angle in [-pi/2, pi/2] whose sine is x, elementwise.",
)  # fmt: skip
arccos = elementwise(
    "ArcCos", "x", lambda g, x, xp: -g / xp.sqrt((1 - x) * (1 + x)),
    "The angle in [0, pi] whose cosine is x, elementwise.",
)  # fmt: skip
# x^2 may overflow; sqrt(x^2 + 1) doesn't.
arctan = elementwise(
    "ArcTan", "x", lambda g, x, xp: g / (size := xp.hypot(x, 1.0)) / size,
    "The angle in (-pi/2, pi/2) whose tangent is x, elementwise.",
)  # fmt: skip
sinh = elementwise(
    "Sinh", "x", lambda g, x, xp: g * xp.cosh(x), "Hyperbolic sine, elementwise.",
    reference=lambda x: (np.exp(x) - np.exp(-x)) / 2,
)  # fmt: skip
cosh = elementwise(
    "Cosh", "x", lambda g, x, xp: g * xp.sinh(x), "Hyperbolic cosine, elementwise.",
    reference=lambda x: (np.exp(x) + np.exp(-x)) / 2,
)  # fmt: skip
tanh = elementwise("Tanh", "y", lambda g, y, xp: g * (1 - y * y), "Hyperbolic tangent, elementwise.")
arcsinh = elementwise(
    "ArcSinh", "x", lambda g, x, xp: g / xp.hypot(x, 1.0), "Inverse of the hyperbolic sine, elementwise."
)
arccosh = elementwise(
    "ArcCosh", "x", lambda g, x, xp: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)),
    "Inverse of the hyperbolic cosine for x >= 1, elementwise.",
)  # fmt: skip
arctanh = elementwise(
    "ArcTanh", "x", lambda g, x, xp: g / ((1 - x) * (1 + x)),
    "Inverse of the hyperbolic tangent for |x| < 1, elementwise.",
)  # fmt: skip


class ArcTan2(Function):
    """The angle of the point (x, y); dy = g x / r^2, dx = -g y / r^2 with r^2 = x^2 + y^2; both are 0 at r = 0."""

    broadcasts = True
    float16 = "widened"

    def forward(self, y, x):
        self.save(y, x)
        return array_module(y, x).arctan2(y, x)

    def backward(self, g):
        y, x = self.saved
        xp = array_module(g)
        size = xp.hypot(x, y)  # its square may overflow or underflow
        size = xp.where(array_of(size) == 0, 1.0, size)
        needs_y, needs_x = self.needs
        return g * (x / size) / size if needs_y else None, -g * (y / size) / size if needs_x else None


# The half-angle formula is valid except on the negative x axis.
@declare(lambda y, x: 2 * np.arctan(y / (np.sqrt(x * x + y * y) + x)))
def arctan2(y: Any, x: Any) -> Tensor:
    """Compute the angle in [-pi, pi] of the point (x, y), elementwise. As in NumPy, y is the first argument."""
    return ArcTan2()(y, x)


class Hypot(Function):
    """r = sqrt(x^2 + y^2); dx = g x / r, dy = g y / r; both are 0 at r = 0."""

    broadcasts = True
    float16 = "widened"

    def forward(self, x, y):
        self.save(x, y)
        return array_module(x, y).hypot(x, y)

    def backward(self, g):
        x, y = self.saved
        xp = array_module(g)
        out = xp.hypot(x, y)
        out = xp.where(array_of(out) == 0, 1.0, out)
        needs_x, needs_y = self.needs
        return g * (x / out) if needs_x else None, g * (y / out) if needs_y else None


@declare(lambda x, y: np.sqrt(x * x + y * y))
def hypot(x: Any, y: Any) -> Tensor:
    """Compute sqrt(x^2 + y^2), elementwise, without overflow of the squares. The gradient at 0 is 0."""
    return Hypot()(x, y)
