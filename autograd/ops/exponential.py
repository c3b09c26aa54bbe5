"""Exponentials, logarithms and roots, elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .elementwise import elementwise
from .reduction import floating, widened
from .registry import declare

exp = elementwise("Exp", lambda x, xp: xp.exp(x), "y", lambda g, y, xp: g * y, np.exp, "e to the power x, elementwise.")
exp2 = elementwise(
    "Exp2", lambda x, xp: xp.exp2(x), "y", lambda g, y, xp: g * y * math.log(2),
    lambda x: np.power(2.0, x), "2 to the power x, elementwise.",
)  # fmt: skip
expm1 = elementwise(
    "Expm1", lambda x, xp: xp.expm1(x), "y", lambda g, y, xp: g * (y + 1),
    np.expm1, "exp(x) - 1, elementwise, accurate for small x too.",
)  # fmt: skip
log = elementwise(
    "Log", lambda x, xp: xp.log(x), "x", lambda g, x, xp: g / x,
    np.log, "Natural logarithm, elementwise.",
)  # fmt: skip
log2 = elementwise(
    "Log2", lambda x, xp: xp.log2(x), "x", lambda g, x, xp: g * (1 / math.log(2)) / x,
    lambda x: np.log(x) / np.log(2.0), "Logarithm to base 2, elementwise.",
)  # fmt: skip
log10 = elementwise(
    "Log10", lambda x, xp: xp.log10(x), "x", lambda g, x, xp: g * (1 / math.log(10)) / x,
    lambda x: np.log(x) / np.log(10.0), "Logarithm to base 10, elementwise.",
)  # fmt: skip
log1p = elementwise(
    "Log1p", lambda x, xp: xp.log1p(x), "x", lambda g, x, xp: g / (1 + x),
    np.log1p, "log(1 + x), elementwise, accurate for small x too.",
)  # fmt: skip
sqrt = elementwise(
    "Sqrt", lambda x, xp: xp.sqrt(x), "y", lambda g, y, xp: g * 0.5 / y,
    np.sqrt, "Square root, elementwise.",
)  # fmt: skip
rsqrt = elementwise(
    "Rsqrt", lambda x, xp: 1.0 / xp.sqrt(x), "y", lambda g, y, xp: g * -0.5 * y * y * y,
    lambda x: np.power(x, -0.5), "1 / sqrt(x), elementwise.",
)  # fmt: skip


def sigmoid_array(x: Any) -> Any:
    """Return 1 / (1 + e^-x), without overflow, for an array x. For a Tensor, call the op `sigmoid`."""
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
    """Compute log(exp(x) + exp(y)), elementwise, without overflow."""
    return LogAddExp()(x, y)
