"""Layer norm for NumPy arrays on several threads: replaces the plain implementations of normalization.py.

Rows are processed in pieces that stay in the cache from x to y, and dropout, residual sum and layer norm are one op.
"""

from __future__ import annotations

import math

import numpy as np

from ..backend import Array
from ..ops.linalg import rows_of
from ..ops.normalization import LayerNorm, residual_layer_norm_plain
from ..ops.reduction import sum_of_rows
from ..ops.registry import QuickImplementation, implements, on_cpu, through_plain
from ..random import ReplayedMask
from .costs import LAYER_NORM, LAYER_NORM_BACKWARD
from .parallel import PIECE, parallel_for, pieces


class Normalization(QuickImplementation):
    """x_hat is kept. Sums over features and over rows are computed as products with vectors (mean(h) as g times
    w / features), for which BLAS is several times faster than NumPy's reductions."""

    composed = through_plain

    eps: float

    def normalized(self, x, weight, bias, rows_of_piece):
        """Layer norm, shaped like x, of the rows that `rows_of_piece(piece)` returns; keeps x_hat and r."""
        width = x.shape[-1]
        count = math.prod(x.shape[:-1])
        wide = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
        x_hat, rstd = np.empty((count, width), wide), np.empty((count, 1), wide)
        out = np.empty(x.shape, x.dtype)

        def part(start, stop):
            for piece in pieces(start, stop, width):
                centred, y, rows = x_hat[piece], rows_of(out)[piece], rows_of_piece(piece)
                np.subtract(rows, row_mean(rows.astype(wide, copy=False)), out=centred)
                rstd[piece] = 1.0 / np.sqrt(row_mean(centred, centred) + self.eps)
                centred *= rstd[piece]
                scaled = np.multiply(centred, weight, out=y if y.dtype == wide else None)
                np.add(scaled, bias, out=y, casting="same_kind")

        parallel_for(np, count, part, cost=LAYER_NORM * width)
        self.keep(x_hat, rstd)
        return out

    def gradients(self, g, x, weight, finish=lambda dx, piece: None):
        """dx, dw and db; `finish(dx, piece)` is called for each piece of dx while it is in the cache."""
        x_hat, rstd = self.kept[:2]
        g, wide = rows_of(g), rstd.dtype
        count, width = x_hat.shape
        dx = np.empty(x.shape, x.dtype)
        share = weight.astype(wide) * wide.type(-1 / max(width, 1))
        # Sums over rows are taken in pieces and then added in order: they don't depend on the number of threads.
        length = max(PIECE // max(width, 1), 1)
        sums = np.empty((2, -(-count // length), width), wide)

        def part(start, stop):
            for number in range(start, stop):
                piece = slice(number * length, (number + 1) * length)
                normal, y = x_hat[piece], rows_of(dx)[piece]
                gradient = g[piece].astype(wide, copy=False)
                rest = gradient * normal
                sums[0, number], sums[1, number] = sum_of_rows(rest), sum_of_rows(gradient)
                np.multiply(normal, (rest @ share)[:, None], out=rest)
                rest += (gradient @ share)[:, None]
                h = np.multiply(gradient, weight, out=y if y.dtype == wide else None)
                h += rest
                np.multiply(h, rstd[piece], out=y, casting="same_kind")
                finish(y, piece)

        parallel_for(np, sums.shape[1], part, cost=LAYER_NORM_BACKWARD * PIECE)
        dw, db = sums.sum(axis=1).astype(weight.dtype)
        return dx, dw, db


@implements(LayerNorm, "cpu", on_cpu)
class LayerNormOnCPU(Normalization):
    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        rows = rows_of(x)
        return self.normalized(x, weight, bias, lambda piece: rows[piece])

    def backward(self, g):
        x, weight, _ = self.saved
        return self.gradients(g, x, weight)


@implements(residual_layer_norm_plain, "cpu", on_cpu)
class ResidualLayerNormOnCPU(Normalization):
    """LayerNorm of residual + dropout(x); with `both` also the sum. Each piece stays in the cache from x to y."""

    def forward(self, x, residual, weight, bias):
        self.save(x, residual, weight, bias)
        rows, past = rows_of(x), rows_of(residual)
        keep_mask, scale = None, 1.0
        if self.p:
            keep_mask, scale = self.generator.keep_mask(rows.shape, self.p)
            scale = x.dtype.type(scale)
        total = np.empty(x.shape, x.dtype) if self.both else None

        def summed(piece):
            out = None if total is None else rows_of(total)[piece]
            if keep_mask is None:
                return np.add(rows[piece], past[piece], out=out)
            z = np.multiply(rows[piece], keep_mask[piece], out=out)
            z *= scale
            z += past[piece]
            return z

        y = self.normalized(x, weight, bias, summed)
        self.keep(*self.kept, keep_mask, scale)
        return (y, total) if self.both else y

    def backward(self, g, past=None):
        """`past`: with `both`, the gradient of the second result, residual + dropout(x)."""
        x, _, weight, _ = self.saved
        _, _, keep_mask, scale = self.kept
        g = np.zeros(x.shape, x.dtype) if g is None else g
        past = None if past is None else rows_of(past)
        dx = None if keep_mask is None else np.empty(x.shape, x.dtype)

        def finish(d_total, piece):
            if past is not None:
                d_total += past[piece]
            if dx is not None:
                d = rows_of(dx)[piece]
                np.multiply(d_total, keep_mask[piece], out=d)
                d *= scale

        d_total, dw, db = self.gradients(g, x, weight, finish)
        return d_total if dx is None else dx, d_total, dw, db

    def dropout_mask(self):
        return ReplayedMask(*self.kept[2:])


def row_mean(x: Array, y: Array | None = None) -> Array:
    """The mean of each row of x, or of x * y: (rows, features) -> (rows, 1)."""
    total = x @ np.ones(x.shape[1], x.dtype) if y is None else np.vecdot(x, y)
    return (total / x.dtype.type(max(x.shape[1], 1)))[:, None]
