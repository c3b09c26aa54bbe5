"""Exponentials, logarithms and roots, elementwise."""

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .elementwise import elementwise
from .reduction import floating
from .registry import declare

exp = elementwise("Exp", "y", lambda g, y, xp: g * y, "e to the power x, elementwise.")
exp2 = elementwise(
    "Exp2", "y", lambda g, y, xp: g * y * math.log(2), "2 to the power x, elementwise.",
    reference=lambda x: np.power(2.0, x),
)  # fmt: skip
expm1 = elementwise("Expm1", "y", lambda g, y, xp: g * (y + 1), "exp(x) - 1, elementwise, accurate for small x too.")
log = elementwise("Log", "x", lambda g, x, xp: g / x, "Natural logarithm, elementwise.")
log2 = elementwise(
    "Log2", "x", lambda g, x, xp: g * (1 / math.log(2)) / x, "Logarithm to base 2, elementwise.",
    reference=lambda x: np.log(x) / np.log(2.0),
)  # fmt: skip
log10 = elementwise(
    "Log10", "x", lambda g, x, xp: g * (1 / math.log(10)) / x, "Logarithm to base 10, elementwise.",
    reference=lambda x: np.log(x) / np.log(10.0),
)  # fmt: skip
log1p = elementwise("Log1p", "x", lambda g, x, xp: g / (1 + x), "log(1 + x), elementwise, accurate for small x too.")
sqrt = elementwise("Sqrt", "y", lambda g, y, xp: g * 0.5 / y, "Square root, elementwise.")
rsqrt = elementwise(
    "Rsqrt", "y", lambda g, y, xp: g * -0.5 * y * y * y, "1 / sqrt(x), elementwise.",
    value=lambda x, xp: 1.0 / xp.sqrt(x), reference=lambda x: np.power(x, -0.5),
)  # fmt: skip


def sigmoid_array(x: Any) -> Any:
    """Return 1 / (1 + e^-x), without overflow, for an array x. For a Tensor, call the op `sigmoid`."""
    xp = array_module(x)
    if isinstance(x, Tensor):
        return xp.sigmoid(x)
    x = floating(x)
    return xp.exp(xp.minimum(x, 0)) / (1 + xp.exp(-xp.abs(x)))


class LogAddExp(Function):
    """log(e^x + e^y); dx = g sigmoid(x - y), dy = g sigmoid(y - x)."""

    broadcasts = True
    float16 = "widened"

    def forward(self, x, y):
        self.save(x, y)
        return array_module(x, y).logaddexp(x, y)

    def backward(self, g):
        x, y = self.saved
        xp = array_module(g)
        a, b = array_of(x), array_of(y)
        alike = (a == b) & (array_module(a).abs(a) == np.inf)  # inf - inf would be NaN
        ahead = (xp.where(alike, 0.0, x) - xp.where(alike, 0.0, y)).astype(g.dtype)
        needs_x, needs_y = self.needs
        return g * sigmoid_array(ahead) if needs_x else None, g * sigmoid_array(-ahead) if needs_y else None


@declare(lambda x, y: np.log(np.exp(x) + np.exp(y)))
def logaddexp(x: Any, y: Any) -> Tensor:
    """Compute log(exp(x) + exp(y)), elementwise, without overflow."""
    return LogAddExp()(x, y)
