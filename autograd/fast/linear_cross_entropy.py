"""The output layer and its loss in blocks of rows, for NumPy arrays on several threads.

It replaces `linear_cross_entropy_plain` of linear_cross_entropy.py. Only one block of logits is in memory at a time,
and no logit is computed twice.
"""

from typing import Any

import numpy as np

from ..ops.linalg import rows_of
from ..ops.linear_cross_entropy import linear_cross_entropy_plain
from ..ops.registry import QuickImplementation, implements, on_cpu
from ..quick import blocks, slices
from .loss import divisor_of_mean
from .parallel import FLOPS, parallel_for
from .products import SUMMED_ROWS, multiply

#: Bytes of logits held at a time; half of the weight's bytes if that is more. For every block BLAS packs the weight
#: again and adds to dW. One block of all logits, however, would take more memory than the rest of the step.
BLOCK_BYTES = 1 << 25


#: The number of parts into which the classes are divided among threads.
CLASS_PARTS = 8


@implements(linear_cross_entropy_plain, "cpu", on_cpu)
class LinearCrossEntropyOnCPU(QuickImplementation):
    """Cross-entropy of the classes t under softmax(z), z = x W^T + b; the forward pass also computes the gradients.

    With E = exp(z - max z), l = sum E, lse = log sum exp z, smoothing s, V classes, class weights w (1 by default) and
    a = (1 - s) w_t, a row's loss is a (lse - z_t) + (s/V) sum_c w_c (lse - z_c). So with k = a + (s/V) sum w

        dz = (k / l) F,   F = E - (l / k) (a onehot(t) + (s/V) w).

    F overwrites z. The factor k / l, together with the mean's divisor, multiplies the smaller matrix of each product:
    dx = (k/l) (F W), dW = F^T ((k/l) x). Rows of padding are left out of all products. Since the loss is a single
    number, `backward` only multiplies these gradients by g. The gradients of float16 arrays are stored in float32 until
    `backward`.
    """

    float16 = "mixed"
    target: Any

    def forward(self, x, weight, bias=None):
        self.save(x, weight, *(() if bias is None else (bias,)))
        self.target = self.target.reshape(-1)
        loss, *gradients = self.compute(x, weight, bias)
        if self.record:
            self.keep(*gradients)
        return loss

    def compute(self, x, weight, bias=None):
        """Compute the loss, dx, dW and db. If the call is not recorded, the gradients are None."""
        self.wide = wide = np.promote_types(x.dtype, np.float32)
        rows, real = rows_of(x), np.flatnonzero(self.target != self.ignore_index)
        rows = (rows if len(real) == len(rows) else rows[real]).astype(wide, copy=False)
        target, weight_wide = self.target[real], weight.astype(wide, copy=False)
        classes = len(weight)
        smooth = self.label_smoothing / max(classes, 1)
        row_weight = np.ones(len(real), wide) if self.class_weight is None else self.class_weight[target].astype(wide)
        own = (1 - self.label_smoothing) * row_weight
        # The terms (s/V) w of the classes, and their sum.
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
            db = None if bias is None else np.zeros(classes)  # float64, to which many short sums are added
        most = max(BLOCK_BYTES, weight_wide.nbytes // 2)
        step = self.block_rows or max(most // max(classes * wide.itemsize, 1), 1)
        step = -(-len(real) // max(-(-len(real) // step), 1))  # blocks of equal size
        buffer = np.empty((step, classes), wide)
        for block in slices(0, len(real), max(step, 1)):
            z = buffer[: block.stop - block.start]
            factor = np.empty((len(z), 1), wide)
            terms = own[block], each, total_each, count
            self.block(z, rows[block], target[block], weight_wide, bias, terms, losses[block], factor)
            if self.record:
                dx[block] = self.gradients(z, rows[block], factor, weight_wide, dw, db, first=block.start == 0)
        if self.record:
            if not len(real):
                dw[...] = 0
            dx, db = self.spread(dx, real, x), None if db is None else db.astype(wide)
        return np.asarray(losses.sum() / divisor_of_mean(total_weight)).astype(x.dtype), dx, dw, db

    def block(self, z, rows, target, weight, bias, terms, losses, factor):
        """Write the losses of a block of rows into `losses`, F into `z`, and (k / l) / count into `factor`."""

        def logits(start, stop):
            multiply(rows, weight[start:stop].T, out=z[:, start:stop])

        def softmax(start, stop):
            self.softmax(z, target, bias, terms, losses, factor, start, stop)

        # The product is divided by classes, so that BLAS packs only a part of the weight in each thread.
        parallel_for(np, len(weight), logits, cost=rows.size / FLOPS)
        parallel_for(np, len(z), softmax, cost=2.0 * z.shape[1])

    def softmax(self, z, target, bias, terms, losses, factor, start, stop):
        """Compute losses and F from the products, for rows `start` to `stop` of a block."""
        own, each, total_each, count = terms
        for piece in blocks(start, stop, z.shape[1] // 4):
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

    def gradients(self, f, rows, factor, weight, dw, db, first):
        """Compute dx of the rows, (k/l) (F W). Add F^T (k/l) to db and F^T ((k/l) x) to dW, or assign if `first`."""
        scaled = rows * factor
        size = max(-(-len(weight) // CLASS_PARTS), 1)
        d_parts = np.zeros((CLASS_PARTS, *rows.shape), f.dtype)  # summed in the same order for any number of threads

        def part(start, stop):
            for number in range(start, stop):
                classes = slice(number * size, min((number + 1) * size, len(weight)))
                if classes.start >= classes.stop:
                    continue
                multiply(f[:, classes], weight[classes], out=d_parts[number])
                if db is not None:
                    for piece in slices(0, len(f), SUMMED_ROWS):
                        db[classes] += factor[piece, 0] @ f[piece, classes]
                multiply(f[:, classes].T, scaled, out=dw[classes], add=not first)

        parallel_for(np, CLASS_PARTS, part, cost=2 * size * rows.size / FLOPS)
        return d_parts.sum(axis=0) * factor

    def spread(self, dx, real, x):
        """Return dx of all rows from dx of the rows `real`. The gradient of other rows, which are padding, is 0."""
        if len(real) < len(self.target):
            every = np.zeros((len(self.target), x.shape[-1]), dx.dtype)
            every[real] = dx
            dx = every
        return dx.reshape(x.shape)

    def backward(self, g):
        # The stored gradients are handed over; a second pass through a retained graph computes them again.
        # pop is atomic: two threads must not multiply the same arrays.
        gradients = vars(self).pop("kept", ()) or self.compute(*self.saved)[1:]
        if g != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= g
        return tuple(gradients[: len(self.inputs)])
