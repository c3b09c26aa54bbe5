"""Cross-entropy in one op, for NumPy arrays: replaces `cross_entropy_plain` of loss.py.

Arrays of shape (rows, classes) are the largest of a training step. Only three such arrays are stored: logits, F of
`LinearCrossEntropyOnCPU`, and the gradient.
"""

from functools import partial

import numpy as np

from ..ops.loss import cross_entropy_plain
from ..ops.registry import implements, on_cpu
from .costs import CROSS_ENTROPY
from .linear_cross_entropy import LinearCrossEntropyOnCPU, divisor_of_mean
from .parallel import parallel_for


@implements(cross_entropy_plain, "cpu", on_cpu)
class CrossEntropyOnCPU(LinearCrossEntropyOnCPU):
    """Cross-entropy on the CPU, with the losses and F of `LinearCrossEntropyOnCPU`: dx = g (k / l) F."""

    record = True

    def forward(self, logits):  # type: ignore[override]
        wide, real = np.promote_types(logits.dtype, np.float32), np.flatnonzero(self.target != self.ignore_index)
        f, target = logits[real].astype(wide, copy=False), self.target[real]
        own, each, total_each, total_weight = self.terms(target, self.weight, f.shape[1], wide)
        losses, factor = np.empty(len(f), wide), np.empty((len(f), 1), wide)
        some_rows = partial(self.softmax, f, target, None, (own, each, total_each, 1), losses, factor)
        parallel_for(np, len(f), some_rows, cost=CROSS_ENTROPY * f.shape[1])
        self.save(logits)
        self.keep(f, factor, real, np.where(total_weight == 0, 1, total_weight))
        if self.reduction == "none":
            return self.spread(losses, real, self.target).astype(logits.dtype)
        return np.asarray(losses.sum() / divisor_of_mean(total_weight)).astype(logits.dtype)

    def backward(self, g):
        (logits,) = self.saved
        f, factor, real, count = self.kept
        if self.reduction == "mean":
            g = g / count
        if self.reduction == "none":
            g = g[real, None]
        return self.spread(f * (factor * g), real, logits).astype(logits.dtype, copy=False)
