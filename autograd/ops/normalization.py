"""Layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor
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
            g.sum(axis=rows).astype(weight.dtype) if needs_bias else None,
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
    return LayerNorm(eps)(x, weight, bias)
