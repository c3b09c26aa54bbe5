"""The output layer and its loss in blocks of rows on several threads, for NumPy arrays.

In place of `linear_cross_entropy_plain` of linear_cross_entropy.py: never all logits are held, none is computed twice.
Gained: the op on the headline model's shapes takes 180 ms with 32 MB of logits at a time, and peak memory of its step
went from 801 to 761 MB when blocks became half as large (docs/log.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..costs import CROSS_ENTROPY, FLOPS
from ..function import Function
from ..parallel import parallel_for, pieces
from .linalg import rows_of
from .loss_on_cpu import divisor_of_mean
from .registry import form, on_cpu, through_plain

#: Bytes of logits held at a time, or half of the weight's if that is more. Each block costs the products bringing the
#: weight into BLAS's own order and adding to dW; one of all logits would take more memory than all else in the step.
BLOCK_BYTES = 1 << 25

#: The classes are cut into so many parts, for threads to share.
CLASS_PARTS = 8


@form("linear_cross_entropy", "cpu", on_cpu)
class LinearCrossEntropyOnCPU(Function):
    """Cross-entropy of the classes t under softmax(z), z = x W^T + b, its gradients computed along with the loss.

    With E = exp(z - max z), row sums l, smoothing s, V classes and class weights w (1 by default), a row's loss is
    a (lse - z_t) + (s/V) sum_c w_c (lse - z_c), a = (1 - s) w_t, so with k = a + (s/V) sum w

        dz = (k / l) F,   F = E - (l / k) (a onehot(t) + (s/V) w).

    F stays in the memory of z; k / l, like the mean's divisor, is multiplied to the narrow side: dx = (k/l) (F W) and
    dW = F^T ((k/l) x). Rows that don't count (padding) are left out of all products. The loss is one number, so the
    gradients need only be multiplied by its own, and no logit is computed twice.
    """

    composed = through_plain

    def __init__(self, target, class_weight, ignore_index, reduction, label_smoothing, block_rows, record):
        self.target, self.class_weight, self.ignore_index = target.reshape(-1), class_weight, ignore_index
        self.reduction, self.label_smoothing = reduction, label_smoothing
        self.block_rows, self.record = block_rows, record

    def forward(self, x, weight, bias=None):
        self.save(x, weight, *(() if bias is None else (bias,)))
        loss, *gradients = self.compute(x, weight, bias)
        if self.record:
            self.keep(*gradients)
        return loss

    def compute(self, x, weight, bias):
        """The loss and, if it is to be differentiated, dx, dW and db."""
        self.wide = wide = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
        rows, real = rows_of(x), np.flatnonzero(self.target != self.ignore_index)
        rows = (rows if len(real) == len(rows) else rows[real]).astype(wide, copy=False)
        target, weight_wide = self.target[real], weight.astype(wide, copy=False)
        classes = len(weight)
        smooth = self.label_smoothing / max(classes, 1)
        row_weight = np.ones(len(real), wide) if self.class_weight is None else self.class_weight[target].astype(wide)
        own = (1 - self.label_smoothing) * row_weight
        # What smoothing takes from each class, and from all together.
        each = smooth if self.class_weight is None else smooth * self.class_weight.astype(wide)
        total_each = wide.type(self.label_smoothing) if self.class_weight is None else each.sum()
        total_weight = row_weight.sum() if self.reduction == "mean" else 1
        count = np.where(total_weight == 0, 1, total_weight)
        losses = np.empty(len(real), wide)
        dx: Any = None
        dw: Any = None
        db: Any = None
        if self.record:
            dx, dw = np.empty(rows.shape, wide), np.empty(weight.shape, wide)
            db = None if bias is None else np.zeros(classes, wide)
        most = max(BLOCK_BYTES, weight_wide.nbytes // 2)
        step = self.block_rows or max(most // max(classes * wide.itemsize, 1), 1)
        step = -(-len(real) // max(-(-len(real) // step), 1))  # blocks of equal size
        buffer = np.empty((step, classes), wide)
        for start in range(0, len(real), max(step, 1)):
            block = slice(start, min(start + step, len(real)))
            z = buffer[: block.stop - start]
            factor = np.empty((len(z), 1), wide)
            terms = own[block], each, total_each, count
            self.block(z, rows[block], target[block], weight_wide, bias, terms, losses[block], factor)
            if self.record:
                dx[block] = self.gradients(z, rows[block], factor, weight_wide, dw, db, first=start == 0)
        if self.record:
            if not len(real):
                dw[...] = 0
            dx = self.spread(dx, real, x)
            dw = dw.astype(weight.dtype, copy=False)
            db = None if db is None else db.astype(bias.dtype, copy=False)
        return np.asarray(losses.sum() / divisor_of_mean(total_weight)).astype(x.dtype), dx, dw, db

    def block(self, z, rows, target, weight, bias, terms, losses, factor):
        """Losses of a block of rows; `z` ends as F, `factor` as k / l over the mean's divisor."""
        own, each, total_each, count = terms

        def logits(start, stop):
            np.matmul(rows, weight[start:stop].T, out=z[:, start:stop])

        def softmax(start, stop):
            for piece in pieces(start, stop, z.shape[1] // 4):
                y, a = z[piece], own[piece]
                at_target = np.arange(len(y)), target[piece]
                if bias is not None:
                    y += bias
                y -= y.max(axis=1, keepdims=True)
                loss = -a * y[at_target]
                if self.label_smoothing:
                    loss -= y.sum(axis=1) * each if self.class_weight is None else y @ each
                np.exp(y, out=y)
                total = y.sum(axis=1)
                k = a + total_each
                losses[piece] = loss + k * np.log(total)
                if not self.record:
                    continue
                scale = total / np.where(k == 0, 1, k)
                if self.label_smoothing:
                    y -= scale[:, None] * each
                y[at_target] -= scale * a
                factor[piece] = (k / total / count)[:, None]

        # The product by classes: each thread brings its part of the weight into BLAS's own order, not all of it.
        parallel_for(np, len(weight), logits, cost=rows.size / FLOPS)
        parallel_for(np, len(z), softmax, cost=CROSS_ENTROPY * z.shape[1])

    def gradients(self, f, rows, factor, weight, dw, db, first):
        """dx of the rows, (k/l) (F W); dW += F^T ((k/l) x) and db += F^T (k/l), which the first block writes."""
        scaled = rows * factor
        size = max(-(-len(weight) // CLASS_PARTS), 1)
        d_parts = np.zeros((CLASS_PARTS, *rows.shape), f.dtype)  # added up in one order, whatever the threads

        def part(start, stop):
            for number in range(start, stop):
                classes = slice(number * size, min((number + 1) * size, len(weight)))
                if classes.start >= classes.stop:
                    continue
                np.matmul(f[:, classes], weight[classes], out=d_parts[number])
                if db is not None:
                    db[classes] += factor[:, 0] @ f[:, classes]
                if first:
                    np.matmul(f[:, classes].T, scaled, out=dw[classes])
                    continue
                for piece in pieces(classes.start, classes.stop, rows.shape[1] // 4):
                    dw[piece] += f[:, piece].T @ scaled

        parallel_for(np, CLASS_PARTS, part, cost=2 * size * rows.size / FLOPS)
        return d_parts.sum(axis=0) * factor

    def spread(self, dx, real, x):
        """dx of all rows from that of the real ones."""
        if len(real) < len(self.target):
            every = np.zeros((len(self.target), x.shape[-1]), dx.dtype)
            every[real] = dx
            dx = every
        return dx.astype(x.dtype, copy=False).reshape(x.shape)

    def backward(self, g):
        # The kept gradients are handed over; a second pass through a retained graph computes them anew.
        gradients = self.kept or self.compute(*self.saved, *([None] * (3 - len(self.saved))))[1:]
        self.keep()
        if g != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= g
        return tuple(gradients[: len(self.inputs)])
