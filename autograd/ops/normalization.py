"""Layer normalisation and root-mean-square normalisation."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..random import Generator, default_generator
from ..sums import summed
from ..tensor import Tensor, array_of
from .dropout import _dropout_reference, check_probability, dropout_add
from .elementwise import promoted
from .registry import declare, dispatch


class LayerNorm(Function):
    """y = x_hat w + b with x_hat = (x - mean) r, r = 1 / sqrt(var + eps), over the last axis.

    With h = g w: dx = r (h - mean(h) - x_hat mean(h x_hat)); over the rows, dw = sum of g x_hat and db = sum of g.
    (Ba, Kiros, Hinton 2016, arXiv 1607.06450, equation 4.)
    """

    float16 = "widened"

    def __init__(self, eps):
        self.eps = eps

    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        x_hat, _ = self.normalized(x)
        return x_hat * weight + bias

    def normalized(self, x):
        try:
            with np.errstate(over="raise", invalid="ignore"):
                centred = x - row_mean(x)
                r = 1 / array_module(x).sqrt(row_mean(centred * centred) + self.eps)
        except FloatingPointError:  # squares of some rows overflowed
            unit = unit_of_rows(x)
            centred = x / unit - row_mean(x / unit)
            r = 1 / array_module(x).sqrt(row_mean(centred * centred) + eps_in(unit, self.eps))
            return centred * r, r / unit
        return centred * r, r

    def backward(self, g):
        x, weight, _ = self.saved
        x_hat, r = self.normalized(x)
        h, rows = g * weight, tuple(range(len(x.shape) - 1))
        dx = r * (h - row_mean(h) - x_hat * row_mean(h * x_hat))
        return dx, summed(g * x_hat, rows), summed(g, rows)


def unit_of_rows(x: Any) -> Any:
    """Return a power of two for each row of an array, or a Tensor, that is not on a GPU: its largest element, at least
    1. Squares of a row in this unit don't overflow, and have the same digits.
    """
    top = np.abs(array_of(x)).max(axis=-1, keepdims=True)
    return np.exp2(np.floor(np.log2(np.where((top > 1) & np.isfinite(top), top, 1)))).astype(x.dtype)


def eps_in(unit: Any, eps: float) -> Any:
    """Return eps for rows that are divided by `unit`; not 0, since a row of equal elements has the variance 0."""
    return np.maximum(eps / unit / unit, min(eps, np.finfo(unit.dtype).tiny))


def row_mean(x: Any) -> Any:
    """Return the mean over the last axis, which is kept with length 1. The mean over no features is 0."""
    return summed(x, -1, keepdims=True) / max(x.shape[-1], 1)


def _check_features(op: str, x: Any, weight: Any, bias: Any) -> None:
    for name, vector in (("weight", weight), ("bias", bias)):
        if not x.shape or vector.shape != x.shape[-1:]:
            raise ValueError(f"{op}: a {name} of shape {vector.shape} does not fit the rows of x of shape {x.shape}")


def _layer_norm_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    mean = x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(axis=-1, keepdims=True) / x.shape[-1]
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


@declare(_layer_norm_reference)
def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Normalise each row x (..., features) to mean 0 and variance 1, then scale and shift by weight, bias (features,).

    `eps` is added to the variance. Statistics of float16 rows are float32. Raises ValueError for a weight or bias of
    another shape. Source: Ba et al. 2016, arXiv 1607.06450.
    """
    x, weight, bias = promoted(x, weight, bias)
    _check_features("layer_norm", x, weight, bias)
    return dispatch(LayerNorm, (x, weight, bias), eps=eps)


def residual_layer_norm_plain(
    x: Any, residual: Any, weight: Any, bias: Any, *, p: float, eps: float, both: bool, generator: Generator
) -> Any:
    """Compute layer_norm(residual + dropout(x)). If `both` is true, also return the sum residual + dropout(x)."""
    total = dropout_add(x, residual, p, generator=generator)
    y = layer_norm(total, weight, bias, eps)
    return (y, total) if both else y


def _residual_layer_norm_reference(
    x, residual, weight, bias, p=0.0, *, eps=1e-5, training=True, both=False, generator
):  # fmt: skip
    total = residual + _dropout_reference(x, p, training=training and p > 0, generator=generator)
    y = _layer_norm_reference(total, weight, bias, eps)
    return (y, total) if both else y


@declare(_residual_layer_norm_reference)
def residual_layer_norm(
    x: Any,
    residual: Any,
    weight: Any,
    bias: Any,
    p: float = 0.0,
    *,
    eps: float = 1e-5,
    training: bool = True,
    both: bool = False,
    generator: Generator | None = None,
) -> Any:
    """Compute layer_norm(residual + dropout(x)): the end of a sublayer in a post-norm Transformer.

    If `both` is true, also return the sum residual + dropout(x), which a pre-norm Transformer needs between two
    sublayers. x and residual have the same shape (..., features). p is the argument of `dropout`; weight, bias and eps
    are arguments of `layer_norm`. Raises ValueError unless 0 <= p <= 1 and all shapes agree.
    """
    check_probability("residual_layer_norm: p", p)
    p, generator = p if training else 0.0, generator or default_generator
    x, residual, weight, bias = promoted(x, residual, weight, bias)
    if x.shape != residual.shape:
        raise ValueError(f"x {list(x.shape)} and the residual {list(residual.shape)} differ in shape")
    _check_features("residual_layer_norm", x, weight, bias)
    return dispatch(
        residual_layer_norm_plain, (x, residual, weight, bias), p=p, eps=eps, both=both, generator=generator
    )


class RMSNorm(Function):
    """y = x r w, r = 1 / sqrt(mean(x^2) + eps), over the last axis. With h = g w: dx = r (h - x r^2 mean(h x)), dw =
    sum of g x r over the rows.
    """

    float16 = "widened"

    def __init__(self, eps):
        self.eps = eps

    def forward(self, x, *weight):
        self.save(x, *weight)
        rrms = self.inverse_rms(x)
        self.keep(rrms)
        return x * rrms * weight[0] if weight else x * rrms

    def inverse_rms(self, x):
        try:
            with np.errstate(over="raise"):
                return 1.0 / array_module(x).sqrt(row_mean(x * x) + self.eps)
        except FloatingPointError:  # squares of some rows overflowed
            unit = unit_of_rows(x)
            x = x / unit
            return 1.0 / array_module(x).sqrt(row_mean(x * x) + eps_in(unit, self.eps)) / unit

    def backward(self, g):
        x, *weight = self.saved
        rrms = self.inverse_rms(x) if isinstance(x, Tensor) else self.kept[0]  # recorded: it depends on x
        x_hat = x * rrms
        h = g * weight[0] if weight else g
        dx = rrms * (h - x_hat * row_mean(h * x_hat))
        return (dx, summed(g * x_hat, tuple(range(len(x.shape) - 1))))[: 1 + len(weight)]


def _rms_norm_reference(x: np.ndarray, weight: np.ndarray | None = None, eps: float = 1e-5) -> np.ndarray:
    out = x / np.sqrt((x**2).sum(axis=-1, keepdims=True) / x.shape[-1] + eps)
    return out if weight is None else out * weight


@declare(_rms_norm_reference)
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5) -> Tensor:
    """Divide each row x (..., features) by its root mean square, then scale by weight (features,) unless it is None.

    `eps` is added to the mean square. Statistics of float16 rows are float32. Raises ValueError for a weight of another
    shape. Source: Zhang and Sennrich 2019, arXiv 1910.07467.
    """
    x, weight = promoted(x, weight)
    if weight is None:
        return RMSNorm(eps)(x)
    _check_features("rms_norm", x, weight, weight)
    return RMSNorm(eps)(x, weight)
