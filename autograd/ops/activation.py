"""Activation functions, elementwise."""

import math
from typing import Any

import numpy as np

from ...kinds import one_of
from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .elementwise import elementwise, negative, promoted
from .erf import erf_array
from .exponential import sigmoid_array
from .reduction import floating
from .registry import declare
from .selection import chosen, selected

relu = elementwise(
    "ReLU", "y", lambda g, y, xp: selected(g, ~(array_of(y) <= 0)),
    "max(x, 0), elementwise; the gradient is 0 at 0; at NaN it passes unchanged.",
    value=lambda x, xp: xp.maximum(x, 0), reference=lambda x: np.where(x > 0, x, 0.0),
)  # fmt: skip


class LeakyReLU(Function):
    def __init__(self, negative_slope):
        self.negative_slope = negative_slope

    def forward(self, x):
        self.save(x)
        return chosen(x > 0, x, x * self.negative_slope)

    def backward(self, g):
        (x,) = self.saved
        return chosen(x > 0, g, g * self.negative_slope)


@declare(lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x))
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, negative_slope * x elsewhere. Source: Maas, Hannun and Ng 2013."""
    return LeakyReLU(negative_slope)(x)


class ELU(Function):
    """y = scale x where x > 0, else scale alpha (exp(x) - 1); dx = g scale where x > 0, else g scale alpha exp(x)."""

    def __init__(self, alpha, scale):
        self.alpha, self.scale = alpha, scale

    def forward(self, x):
        self.save(x)
        xp = array_module(x)
        return chosen(x > 0, xp.maximum(x, 0) * self.scale, xp.expm1(xp.minimum(x, 0)) * (self.alpha * self.scale))

    def backward(self, g):
        (x,) = self.saved
        xp = array_module(g)
        slope = xp.exp(xp.minimum(x, 0)) * (self.alpha * self.scale)
        return g * chosen(x > 0, self.scale, slope)


@declare(lambda x, alpha=1.0: np.where(x > 0, x, alpha * (np.exp(x) - 1)))
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, alpha (exp(x) - 1) elsewhere. Source: Clevert et al. 2015, arXiv 1511.07289."""
    return ELU(alpha, 1.0)(x)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # the fixed point of the paper, equation 14


@declare(lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * (np.exp(x) - 1)), composed=True)
def selu(x: Any) -> Tensor:
    """Apply ELU scaled to keep mean 0 and variance 1. Source: Klambauer et al. 2017, arXiv 1706.02515."""
    return ELU(_SELU_ALPHA, _SELU_SCALE)(x)


sigmoid = elementwise(
    "Sigmoid", "y", lambda g, y, xp: g * y * (1 - y), "1 / (1 + exp(-x)), elementwise; never overflows.",
    value=lambda x, xp: sigmoid_array(x), reference=lambda x: 1 / (1 + np.exp(-x)),
)  # fmt: skip


def softplus_array(x: Any) -> Any:
    """Return log(1 + e^x) for an array x. For a Tensor, call the op `softplus`."""
    xp = array_module(x)
    if isinstance(x, Tensor):
        return xp.softplus(x)
    x = floating(x)
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


softplus = elementwise(
    "Softplus", "x", lambda g, x, xp: g * sigmoid_array(x), "log(1 + exp(x)), elementwise; never overflows.",
    value=lambda x, xp: softplus_array(x), reference=lambda x: np.log(1 + np.exp(x)),
)  # fmt: skip


@declare(lambda x: -np.log(1 + np.exp(-x)), composed=True)
def log_sigmoid(x: Any) -> Tensor:
    """Compute log(sigmoid(x)), elementwise. It never overflows."""
    return negative(softplus(negative(*promoted(x))))


silu = elementwise(
    "SiLU", "x", lambda g, x, xp: g * ((s := sigmoid_array(x)) * (1 + x * (1 - s))),
    "x * sigmoid(x), elementwise, also called swish. Source: Elfwing et al. 2017, arXiv 1702.03118.",
    value=lambda x, xp: x * sigmoid_array(x), reference=lambda x: x / (1 + np.exp(-x)),
)  # fmt: skip


def _mish_gradient(g: Any, x: Any, xp: Any) -> Any:
    """Compute g (t + x (1 - t^2) sigmoid(x)) with t = tanh(softplus(x))."""
    t = xp.tanh(softplus_array(x))
    return g * (t + x * (1 - t * t) * sigmoid_array(x))


mish = elementwise(
    "Mish", "x", _mish_gradient, "x * tanh(softplus(x)), elementwise. Source: Misra 2019, arXiv 1908.08681.",
    value=lambda x, xp: x * xp.tanh(softplus_array(x)), reference=lambda x: x * np.tanh(np.log(1 + np.exp(x))),
)  # fmt: skip
# (1 + |x|)^2 may overflow.
softsign = elementwise(
    "Softsign", "x", lambda g, x, xp: g / (size := 1 + xp.abs(x)) / size, "x / (1 + |x|), elementwise.",
    value=lambda x, xp: x / (1 + xp.abs(x)), reference=lambda x: x / (1 + np.where(x > 0, x, -x)),
)  # fmt: skip


class GELU(Function):
    """y = x F(x) with the standard normal distribution function F and its density f; dx = g (F(x) + x f(x))."""

    float16 = "widened"

    def forward(self, x):
        self.save(x)
        distribution = erf_array(x * math.sqrt(0.5)) * 0.5 + 0.5
        self.keep(distribution)
        return x * distribution

    def backward(self, g):
        (x,) = self.saved
        (distribution,) = self.kept
        xp = array_module(x)
        if isinstance(x, Tensor):
            distribution = xp.erf(x * math.sqrt(0.5)) * 0.5 + 0.5  # recorded: it depends on x
        with np.errstate(over="ignore"):  # x * x may be inf: exp(-inf) = 0 is right
            density = xp.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return g * (distribution + x * density)


class GELUTanh(Function):
    """y = x (1 + t) / 2 with t = tanh u, u = sqrt(2/pi) (x + 0.044715 x^3); dx = g (1 + t + x (1 - t^2) u') / 2. u is
    computed from x clipped to [-16, 16]: beyond these limits, t is -1 or 1 and x^3 can overflow.
    """

    float16 = "widened"

    def forward(self, x):
        self.save(x)
        return x * ((self.curve(array_module(x).clip(x, -16, 16)) + 1) * 0.5)

    def curve(self, x):
        return array_module(x).tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))

    def backward(self, g):
        (x,) = self.saved
        x = array_module(x).clip(x, -16, 16)
        t = self.curve(x)
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return g * (0.5 * (1 + t + x * (1 - t * t) * slope))


def _gelu_reference(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * np.vectorize(lambda value: 0.5 * math.erfc(-value / math.sqrt(2)), otypes=[float])(x)


@declare(_gelu_reference)
def gelu(x: Any, approximate: str = "none") -> Tensor:
    """Compute x F(x), elementwise, where F is the standard normal distribution function.
    approximate="tanh" selects the paper's faster approximation. Raises ValueError unless it is "none" or "tanh".
    Source: Hendrycks and Gimpel 2016, arXiv 1606.08415.
    """
    one_of("gelu: approximate", approximate, ("none", "tanh"))
    return GELU()(x) if approximate == "none" else GELUTanh()(x)
