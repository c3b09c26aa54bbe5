"""Layer norm for NumPy arrays on several threads: replaces the plain implementations of normalization.py.

Dropout, residual sum and layer norm are one op, which processes the rows in pieces that fit into the cache.
"""

from functools import partial
from typing import ClassVar

import numpy as np

from ..backend import Array
from ..ops.linalg import contiguous_rows, rows_of
from ..ops.normalization import LayerNorm, residual_layer_norm_plain
from ..ops.registry import QuickImplementation, implements, on_cpu
from ..quick import PIECE, blocks
from ..random import ReplayedMask
from ..sums import summed
from .parallel import parallel_for


class Normalization(QuickImplementation):
    """Layer norm of residual + dropout(x), or of x alone, in two passes over the rows.

    `normalize` and `gradients` process the rows `start` to `stop`. The backward pass uses x_hat, r, and dropout's
    mask and scale, which the op keeps. Sums over features and over rows are computed as products with vectors; mean(h),
    for example, is g times w / features. BLAS computes these products several times faster than NumPy's reductions
    compute the sums.
    """

    eps: float
    #: The most rows over which `gradients` sums.
    longest: ClassVar[int] = PIECE

    def normalized(self, x, residual, weight, bias, p=0.0, total=None):
        """Return the layer norm, an array of x's shape, and write residual + dropout(x) into `total` if it is given."""
        rows, past = contiguous_rows(x), None if residual is None else contiguous_rows(residual)
        keep_mask, scale = self.generator.keep_mask(rows.shape, p) if p else (None, 1.0)
        scale = x.dtype.type(scale)
        wide = np.promote_types(x.dtype, np.float32)
        x_hat, rstd, out = np.empty(rows.shape, wide), np.empty((len(rows), 1), wide), np.empty(x.shape, x.dtype)
        sums = None if total is None else rows_of(total)
        arrays = rows, past, keep_mask, scale, weight, bias, wide.type(self.eps), sums, x_hat, rstd, rows_of(out)
        with np.errstate(over="ignore", invalid="ignore"):
            parallel_for(np, len(rows), partial(self.normalize, *arrays), cost=1.2 * rows.shape[1])
        if np.count_nonzero(rstd) < len(rstd):  # squares of some rows overflowed
            large = np.flatnonzero(rstd[:, 0] == 0)
            z = rows[large].astype(wide)
            if past is not None:
                z = (z if keep_mask is None else z * keep_mask[large] * scale) + past[large]
            x_hat[large], rstd[large] = LayerNorm(self.eps).normalized(z)
            rows_of(out)[large] = x_hat[large] * weight + bias
        self.keep(x_hat, rstd, keep_mask, scale)
        return out

    def normalize(self, rows, past, keep_mask, scale, weight, bias, eps, total, x_hat, rstd, out, start, stop):
        """Write rows of the result, of x_hat, of r and, if `total` is an array, of residual + dropout(x)."""
        wide = rstd.dtype

        def summed(piece):
            if past is None:
                return rows[piece]
            z = None if total is None else total[piece]
            if keep_mask is None:
                return np.add(rows[piece], past[piece], out=z)
            z = np.multiply(rows[piece], keep_mask[piece], out=z)
            z *= scale
            z += past[piece]
            return z

        for piece in blocks(start, stop, rows.shape[1]):
            centred, y, z = x_hat[piece], out[piece], summed(piece)
            np.subtract(z, row_mean(z.astype(wide, copy=False)), out=centred)
            rstd[piece] = 1.0 / np.sqrt(row_mean(centred, centred) + eps)
            centred *= rstd[piece]
            scaled = np.multiply(centred, weight, out=y if y.dtype == wide else None)
            np.add(scaled, bias, out=y, casting="same_kind")

    def all_gradients(self, g, past=None):
        """Compute d_total, dx (the same array as d_total without dropout), dw and db.
        `past` is the gradient of the sum residual + dropout(x), or None.
        """
        x, weight = self.saved[0], self.saved[-2]
        x_hat, rstd, keep_mask, scale = self.kept
        g, past = contiguous_rows(g), None if past is None else contiguous_rows(past)
        count, width = x_hat.shape
        d_total = np.empty(x.shape, x.dtype)
        dx = d_total if keep_mask is None else np.empty(x.shape, x.dtype)
        # Sums over rows are computed in pieces, which are then added in order: they don't depend on the number of
        # threads.
        length = min(max(PIECE // max(width, 1), 1), self.longest)
        sums = np.zeros((2, -(-count // length), width), rstd.dtype)
        arrays = g, x_hat, rstd, weight, past, keep_mask, scale, rows_of(d_total), rows_of(dx)

        def part(start, stop):
            for number in range(start, stop):
                dw, db = sums[:, number]
                self.gradients(*arrays, dw, db, number * length, min((number + 1) * length, count))

        parallel_for(np, sums.shape[1], part, cost=2.5 * PIECE)
        dw, db = summed(sums, 1).astype(weight.dtype)
        return d_total, dx, dw, db

    def gradients(self, g, x_hat, rstd, weight, past, keep_mask, scale, d_total, dx, dw, db, start, stop):
        """Compute rows of d_total and dx, and the sums dw and db over these rows."""
        piece, wide = slice(start, stop), rstd.dtype
        share = weight.astype(wide) * wide.type(-1 / max(g.shape[1], 1))
        normal, y, gradient = x_hat[piece], d_total[piece], g[piece].astype(wide, copy=False)
        rest = gradient * normal
        dw[...], db[...] = summed(rest, 0), summed(gradient, 0)
        np.multiply(normal, (rest @ share)[:, None], out=rest)
        rest += (gradient @ share)[:, None]
        h = np.multiply(gradient, weight, out=y if y.dtype == wide else None)
        h += rest
        np.multiply(h, rstd[piece], out=y, casting="same_kind")
        if past is not None:
            y += past[piece]
        if keep_mask is not None:
            d = dx[piece]
            np.multiply(y, keep_mask[piece], out=d)
            d *= scale


@implements(LayerNorm, "cpu", on_cpu)
class LayerNormOnCPU(Normalization):
    def forward(self, x, weight, bias):
        self.save(x, weight, bias)
        return self.normalized(x, None, weight, bias)

    def backward(self, g):
        return self.all_gradients(g)[1:]


@implements(residual_layer_norm_plain, "cpu", on_cpu)
class ResidualLayerNormOnCPU(Normalization):
    """LayerNorm of residual + dropout(x). If `both` is true, the op also returns the sum residual + dropout(x)."""

    def forward(self, x, residual, weight, bias):
        self.save(x, residual, weight, bias)
        total = np.empty(x.shape, x.dtype) if self.both else None
        y = self.normalized(x, residual, weight, bias, self.p, total)
        return (y, total) if self.both else y

    def backward(self, g, past=None):
        """Compute the gradients.
        `past` is the gradient of the second result, residual + dropout(x), which exists if `both` is true.
        """
        x = self.saved[0]
        d_total, dx, dw, db = self.all_gradients(np.zeros(x.shape, x.dtype) if g is None else g, past)
        return dx, d_total, dw, db

    def dropout_mask(self):
        return ReplayedMask(*self.kept[2:])


def row_mean(x: Array, y: Array | None = None) -> Array:
    """Return the mean of each row of x, or of x * y: (rows, features) -> (rows, 1)."""
    total = x @ np.ones(x.shape[1], x.dtype) if y is None else np.vecdot(x, y)
    return (total / x.dtype.type(max(x.shape[1], 1)))[:, None]
