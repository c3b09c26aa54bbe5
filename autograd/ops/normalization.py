"""Layer normalisation, and the root mean square kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function
from ..parallel import PIECE, parallel_for, pieces
from ..random import Generator, default_generator
from ..tensor import Tensor, array_of
from .dropout import _dropout_reference
from .elementwise import promoted
from .exponential import sqrt
from .linalg import rows_of
from .on_device import (
    DropoutOnDevice,
    LayerNormOnDevice,
    ResidualLayerNormOnDevice,
    drop_of,
    fits,
    runs_kernels,
)
from .reduction import row_dots, sum_of_rows, widened
from .registry import declare


class Normalization(Function):
    """y = x_hat w + b with x_hat = (x - mean) r, r = 1 / sqrt(var + eps), over the last axis.

    With h = g w: dx = r (h - mean(h) - x_hat mean(h x_hat)), dw = sum of g x_hat, db = sum of g over the rows.
    (Ba, Kiros, Hinton 2016, arXiv 1607.06450, equation 4.) x_hat is kept. The sums over features and over rows are
    products with vectors, mean(h) that of g with w / features: BLAS is several times quicker at them than a reduction.
    """

    eps: float

    def normalized(self, x, weight, bias, rows_of_piece):
        """y, shaped like x, of the rows that `rows_of_piece` gives; x_hat and r are kept."""
        xp, width = array_module(x), x.shape[-1]
        count = math.prod(x.shape[:-1])
        wide = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
        x_hat, rstd = xp.empty((count, width), wide), xp.empty((count, 1), wide)
        out = xp.empty(x.shape, x.dtype)

        def part(start, stop):
            for piece in pieces(start, stop, width):
                centred, y, rows = x_hat[piece], rows_of(out)[piece], rows_of_piece(piece)
                xp.subtract(rows, row_mean(rows.astype(wide, copy=False)), out=centred)
                rstd[piece] = 1.0 / xp.sqrt(row_mean(centred, centred) + self.eps)
                centred *= rstd[piece]
                scaled = xp.multiply(centred, weight, out=y if y.dtype == wide else None)
                xp.add(scaled, bias, out=y, casting="same_kind")

        parallel_for(xp, count, part, cost=1.2 * width)
        self.keep(x_hat, rstd)
        return out

    def gradients(self, g, x, weight, finish=lambda dx, piece: None):
        """dx, dw and db; `finish(dx, piece)` may go on with a piece of dx while it is in the cache."""
        x_hat, rstd = self.kept[:2]
        xp, g, wide = array_module(x), rows_of(g), rstd.dtype
        count, width = x_hat.shape
        dx = xp.empty(x.shape, x.dtype)
        share = weight.astype(wide) * wide.type(-1 / max(width, 1))
        # The rows' sums are kept piece by piece, so that they don't depend on the number of threads.
        length = max(PIECE // max(width, 1), 1)
        sums = xp.empty((2, -(-count // length), width), wide)

        def part(start, stop):
            for number in range(start, stop):
                piece = slice(number * length, (number + 1) * length)
                normal, y = x_hat[piece], rows_of(dx)[piece]
                gradient = g[piece].astype(wide, copy=False)
                rest = gradient * normal
                sums[0, number], sums[1, number] = sum_of_rows(rest), sum_of_rows(gradient)
                xp.multiply(normal, (rest @ share)[:, None], out=rest)
                rest += (gradient @ share)[:, None]
                h = xp.multiply(gradient, weight, out=y if y.dtype == wide else None)
                h += rest
                xp.multiply(h, rstd[piece], out=y, casting="same_kind")
                finish(y, piece)

        parallel_for(xp, sums.shape[1], part, cost=2.5 * PIECE)
        dw, db = sums.sum(axis=1).astype(weight.dtype)
        return dx, dw, db


class LayerNorm(Normalization):
    def __init__(self, eps):
        self.eps = eps

    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        rows = rows_of(x)
        return self.normalized(x, weight, bias, lambda piece: rows[piece])

    def backward(self, g):
        x, weight, _ = self.saved
        return self.gradients(g, x, weight)

    def composed(self, x, weight, bias):
        return layer_norm_composed(x, weight, bias, self.eps)


class ResidualLayerNorm(Normalization):
    """LayerNorm of residual + dropout(x), and the sum itself if `both`: each piece stays in the cache from x to y."""

    def __init__(self, p, eps, both, generator):
        self.p, self.eps, self.both, self.generator = p, eps, both, generator

    def forward(self, x, residual, weight, bias):
        if x.shape != residual.shape:
            raise ValueError("x and the residual must have one shape")
        self.save(x, residual, weight, bias)
        xp, rows, past = array_module(x), rows_of(x), rows_of(residual)
        keep_mask, scale = None, 1.0
        if self.p:
            keep_mask, scale = self.generator.keep_mask(rows.shape, self.p)
            keep_mask, scale = xp.asarray(keep_mask), x.dtype.type(scale)
        total = xp.empty(x.shape, x.dtype) if self.both else None

        def summed(piece):
            out = None if total is None else rows_of(total)[piece]
            if keep_mask is None:
                return xp.add(rows[piece], past[piece], out=out)
            z = xp.multiply(rows[piece], keep_mask[piece], out=out)
            z *= scale
            z += past[piece]
            return z

        y = self.normalized(x, weight, bias, summed)
        self.keep(*self.kept, keep_mask, scale)
        return (y, total) if self.both else y

    def backward(self, g, past=None):
        """`past`: the gradient of the sum by its other use, the next layer's residual."""
        x, _, weight, _ = self.saved
        _, _, keep_mask, scale = self.kept
        xp = array_module(x)
        g = xp.zeros(x.shape, x.dtype) if g is None else g
        past = None if past is None else rows_of(past)
        dx = None if keep_mask is None else xp.empty(x.shape, x.dtype)

        def finish(d_total, piece):
            if past is not None:
                d_total += past[piece]
            if dx is not None:
                d = rows_of(dx)[piece]
                xp.multiply(d_total, keep_mask[piece], out=d)
                d *= scale

        d_total, dw, db = self.gradients(g, x, weight, finish)
        return d_total if dx is None else dx, d_total, dw, db

    def composed(self, x, residual, weight, bias):
        _, _, keep_mask, scale = self.kept
        total = residual + (x if keep_mask is None else x * (keep_mask * scale).reshape(x.shape))
        y = layer_norm_composed(total, weight, bias, self.eps)
        return (y, total) if self.both else y


def layer_norm_composed(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Layer norm in small ops."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps) * weight + bias


def row_mean(x: Array, y: Array | None = None) -> Array:
    """The mean of each row of x, or of x * y: (rows, features) -> (rows, 1)."""
    if array_module(x) is not np:
        return (x if y is None else x * y).mean(axis=-1, keepdims=True)
    total = x @ np.ones(x.shape[1], x.dtype) if y is None else row_dots(x, y)
    return (total / x.dtype.type(x.shape[1]))[:, None]


def _layer_norm_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    mean = x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(axis=-1, keepdims=True) / x.shape[-1]
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


@declare(_layer_norm_reference)
def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Tensor:
    """Normalise each row x (..., features) to mean 0 and variance 1, then scale and shift by weight, bias (features,).

    `eps` stands inside the square root. Statistics of float16 rows are float32. Source: arXiv 1607.06450.
    """
    (x, weight, bias), eps = promoted(x, weight, bias), float(eps)
    arrays = array_of(x), array_of(weight), array_of(bias)
    if runs_kernels(*arrays) and fits(*(array.shape for array in arrays)):
        return LayerNormOnDevice(eps, lambda *tensors: LayerNorm(eps)(*tensors))(x, weight, bias)
    return LayerNorm(eps)(x, weight, bias)


def _residual_layer_norm_reference(
    x: np.ndarray,
    residual: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    p: float = 0.0,
    *,
    eps: float = 1e-5,
    training: bool = True,
    both: bool = False,
    generator: Generator,
) -> Any:
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
    """layer_norm(residual + dropout(x)): how a sublayer of a post-norm Transformer ends; on a device one kernel.

    With `both`, that and the sum itself: how one of a pre-norm Transformer ends and the next begins. x and residual
    have one shape (..., features). Raises ValueError as `dropout_add` and `layer_norm`.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"residual_layer_norm: p = {p} is not a probability")
    p, generator = p if training else 0.0, generator or default_generator
    (x, residual, weight, bias), eps = promoted(x, residual, weight, bias), float(eps)
    arrays = array_of(x), array_of(residual), array_of(weight), array_of(bias)
    alike = runs_kernels(*arrays) and arrays[0].shape == arrays[1].shape
    if not (alike and fits(*(array.shape for array in arrays[1:]))):
        return ResidualLayerNorm(p, eps, both, generator)(x, residual, weight, bias)
    drop = drop_of(arrays[0], p, generator) if p else None

    def composed(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Any:
        total = (x if drop is None else DropoutOnDevice(drop)(x)) + residual
        y = LayerNorm(eps)(total, weight, bias)
        return (y, total) if both else y

    return ResidualLayerNormOnDevice(drop, eps, both, composed)(x, residual, weight, bias)


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
        needs, g = self.needs, widened(g)
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
    (x, weight), eps = promoted(x, weight), float(eps)
    return RMSNorm(eps)(x) if weight is None else RMSNorm(eps)(x, weight)
