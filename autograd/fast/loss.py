"""Cross-entropy in one op, for NumPy arrays: replaces `cross_entropy_plain` of loss.py.

Arrays of shape (rows, classes) are the largest of a training step. Only three such arrays are stored: logits,
probabilities and gradient.
"""

from typing import Any

import numpy as np

from ..bfloat16 import bfloat16_products
from ..ops.linalg import product
from ..ops.loss import cross_entropy_plain
from ..ops.registry import QuickImplementation, implements, on_cpu


@implements(cross_entropy_plain, "cpu", on_cpu)
class CrossEntropyOnCPU(QuickImplementation):
    """Cross-entropy on the CPU, with its gradient.

    A row of logits x with p = softmax(x), lse = log sum exp x and a = (1 - s) w_t has the loss a (lse - x_t) + (s/V)
    sum_c w_c (lse - x_c), so dx = g (p (a + (s/V) sum w) - a onehot(t) - (s/V) w).
    """

    float16 = "widened"

    def forward(self, logits):
        rows, classes = logits.shape
        real = self.target != self.ignore_index
        target = np.where(real, self.target, 0)
        weight = np.ones(classes, logits.dtype) if self.weight is None else self.weight.astype(logits.dtype)
        row_weight = weight[target] * real
        own = (1 - self.label_smoothing) * row_weight
        each = self.label_smoothing / max(classes, 1) * weight

        # With the row's maximum subtracted nothing overflows, and the loss of large logits keeps its digits.
        p = np.subtract(logits, logits.max(axis=1, keepdims=True) if classes else logits)
        own_logit = p[np.arange(rows), target]
        with bfloat16_products(False):
            all_logits = product(p, each[:, None])[:, 0] if self.label_smoothing else 0.0
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        log_total = np.log(total)[:, 0]
        loss = own * np.where(real, log_total - own_logit, 0)  # padding gets 0 even if its logits are infinite or NaN
        if self.label_smoothing:
            loss += np.where(real, log_total * each.sum() - all_logits, 0)
        count = row_weight.sum()
        self.save(logits)
        self.keep(p, target, own, each, real, np.where(count == 0, 1, count))
        if self.reduction == "none":
            return loss
        divisor = 1 if self.reduction == "sum" else divisor_of_mean(count)
        return np.asarray(loss.sum() / divisor)

    def backward(self, g):
        p, target, own, each, real, count = self.kept
        if self.reduction == "mean":
            g = g / count
        row = (g * real)[:, None]
        # In place, so that no further array (rows, classes) is made.
        out = p * (row * (own + each.sum())[:, None])
        if self.label_smoothing:
            out -= row * each
        out[np.arange(len(own)), target] -= row[:, 0] * own
        return out


def divisor_of_mean(count: Any) -> Any:
    """Return `count`, or NaN if `count` is 0, so that the mean over no target is NaN."""
    return np.where(count == 0, np.float32(np.nan), count)
