"""Layer normalisation, and the root mean square kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, raw
from ..tensor import Tensor
from .on_device import LayerNormOnDevice, fits, runs_kernels
from .reduction import summed
from .registry import declare


class LayerNorm(Function):
    """y = x_hat w + b with x_hat = (x - mean) r, r = 1 / sqrt(var + eps), over the last axis.

    With h = g w: dx = r (h - mean(h) - x_hat mean(h x_hat)), dw = sum of g x_hat, db = sum of g over the rows.
    (Ba, Kiros, Hinton 2016, arXiv 1607.06450, equation 4.)
    """

    def __init__(self, eps):
        self.eps = eps

    def forward(self, x, weight, bias):
        x_hat, rstd = self.normalize(x)
        self.save(x, weight)
        self.keep(x_hat, rstd)
        out = x_hat * weight
        out += bias
        return out.astype(x.dtype, copy=False)

    def normalize(self, x):
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        centred = wide - wide.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        rstd = 1.0 / array_module(x).sqrt(variance + self.eps)
        return centred * rstd, rstd

    def backward(self, g):
        x, weight = self.saved
        # The statistics depend on x: when this rule is itself recorded they are computed again, as Tensors.
        x_hat, rstd = self.normalize(x) if isinstance(x, Tensor) else self.kept
        h = g * weight
        needs_x, needs_weight, needs_bias = self.needs
        rows = tuple(range(len(x.shape) - 1))
        dx = None
        if needs_x:
            dx = rstd * (h - h.mean(axis=-1, keepdims=True) - x_hat * (h * x_hat).mean(axis=-1, keepdims=True))
            dx = dx.astype(x.dtype)
        return (
            dx,
            (g * x_hat).sum(axis=rows).astype(weight.dtype) if needs_weight else None,
            summed(g, rows).astype(weight.dtype) if needs_bias else None,
        )


def _layer_norm_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    mean = x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(axis=-1, keepdims=True) / x.shape[-1]
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


@declare(_layer_norm_reference)
def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Normalise each row x (..., features) to mean 0 and variance 1, then scale and shift by weight, bias (features,).

    `eps` stands inside the square root. Statistics of float16 rows are float32. Source: arXiv 1607.06450.
    """
    arrays = raw(x), raw(weight), raw(bias)
    if runs_kernels(*arrays) and fits(*(array.shape for array in arrays)):
        return LayerNormOnDevice(eps, lambda *tensors: LayerNorm(eps)(*tensors))(x, weight, bias)
    return LayerNorm(eps)(x, weight, bias)


class RMSNorm(Function):
    """y = x r w, r = 1 / sqrt(mean(x^2) + eps), over the last axis.

    With h = g w: dx = r (h - x r^2 mean(h x)), dw = sum of g x r over the rows.
    """

    def __init__(self, eps):
        self.eps = eps

    def forward(self, x, weight=None):
        self.save(x) if weight is None else self.save(x, weight)
        rrms = self.inverse_rms(x)
        self.keep(rrms)
        out = x * rrms
        if weight is not None:
            if weight.shape != x.shape[-1:]:
                raise ValueError(f"a weight of shape {weight.shape} for rows of {x.shape[-1]}")
            out = out * weight
        return out.astype(x.dtype, copy=False)

    def inverse_rms(self, x):
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return 1.0 / array_module(x).sqrt((wide * wide).mean(axis=-1, keepdims=True) + self.eps)

    def backward(self, g):
        x = self.saved[0]
        rrms = self.inverse_rms(x) if isinstance(x, Tensor) else self.kept[0]  # recorded: it depends on x
        needs = self.needs
        h = g if len(needs) == 1 else g * self.saved[1]
        dx = None
        if needs[0]:
            x_hat = x * rrms
            dx = (rrms * (h - x_hat * (h * x_hat).mean(axis=-1, keepdims=True))).astype(x.dtype)
        if len(needs) == 1:
            return dx
        dw = None
        if needs[1]:
            dw = (g * (x * rrms)).sum(axis=tuple(range(len(x.shape) - 1))).astype(self.saved[1].dtype)
        return dx, dw


def _rms_norm_reference(x: np.ndarray, weight: np.ndarray | None = None, eps: float = 1e-5) -> np.ndarray:
    out = x / np.sqrt((x**2).sum(axis=-1, keepdims=True) / x.shape[-1] + eps)
    return out if weight is None else out * weight


@declare(_rms_norm_reference)
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5) -> Tensor:
    """Divide each row x (..., features) by its root mean square, then scale by weight (features,) or not at all.

    `eps` stands inside the square root. Statistics of float16 rows are float32. Source: arXiv 1910.07467.
    """
    return RMSNorm(eps)(x) if weight is None else RMSNorm(eps)(x, weight)
