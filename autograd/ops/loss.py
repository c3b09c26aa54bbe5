"""Losses. Their unit is nats; padding counts neither in the sum nor in the number it is divided by."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module, is_array
from ..function import Function
from ..graphs import constant
from ..kernels.products import product
from ..tensor import Tensor, array_of
from .on_device import CrossEntropyOnDevice, runs_kernels
from .reduction import widened
from .registry import declare
from .softmax import log_softmax, softmax

REDUCTIONS = ("mean", "sum", "none")


class CrossEntropy(Function):
    """Softmax and cross-entropy in one, over rows of logits x with target class t.

    With p = softmax(x), smoothing s, V classes and class weights w (1 by default):
    loss = a (lse - x_t) + (s/V) sum_c w_c (lse - x_c), where a = (1 - s) w_t and lse = log sum exp x, so
    dx = g (p (a + (s/V) sum w) - a onehot(t) - (s/V) w).
    """

    def __init__(self, target, weight, ignore_index, reduction, label_smoothing):
        self.target, self.weight, self.ignore_index = target, weight, ignore_index
        self.reduction, self.label_smoothing = reduction, label_smoothing

    def forward(self, logits):
        xp = array_module(logits)
        rows, classes = logits.shape
        dtype = np.float32 if logits.dtype == np.float16 else logits.dtype
        real = self.target != self.ignore_index
        target = xp.where(real, self.target, 0)
        weight = xp.ones(classes, dtype) if self.weight is None else self.weight.astype(dtype)
        row_weight = weight[target] * real
        own = (1 - self.label_smoothing) * row_weight
        each = self.label_smoothing / classes * weight

        top = logits.max(axis=1, keepdims=True) if classes else logits
        p = xp.exp(xp.subtract(logits, top, dtype=dtype))
        total = p.sum(axis=1, keepdims=True)
        p /= total
        lse = (xp.log(total) + top)[:, 0]
        loss = own * (lse - logits[xp.arange(rows), target])
        if self.label_smoothing:
            loss += real * (lse * each.sum() - product(logits.astype(dtype, copy=False), each[:, None])[:, 0])
        count = row_weight.sum()
        self.save(logits)
        self.keep(p, target, own, each, real, xp.where(count == 0, 1, count))
        if self.reduction == "none":
            return loss.astype(logits.dtype)
        divisor = 1 if self.reduction == "sum" else divisor_of_mean(xp, count)
        return xp.asarray(loss.sum() / divisor).astype(logits.dtype)

    def backward(self, g):
        (logits,) = self.saved
        p, target, own, each, real, count = self.kept
        if isinstance(logits, Tensor):
            p = softmax(logits)  # recorded: the gradient depends on the logits through p
        if self.reduction == "mean":
            g = g / count
        row = (g * real)[:, None]
        # In place where the array is our own: rows times classes is the largest array of a step.
        out = p * (row * (own + each.sum())[:, None])
        if self.label_smoothing:
            out -= row * each
        out[array_module(own).arange(len(own)), target] -= row[:, 0] * own
        return out if out.dtype == logits.dtype else out.astype(logits.dtype)


def divisor_of_mean(xp: Any, count: Any) -> Any:
    """`count`, or NaN for 0: the mean over no target at all is no number, as in PyTorch. Its gradient is 0."""
    return xp.where(count == 0, np.float32(np.nan), count)


def _cross_entropy_reference(
    logits: np.ndarray,
    target: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    classes = logits.shape[-1]
    if target.dtype.kind != "i":
        soft = (1 - label_smoothing) * target + label_smoothing / classes
        log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        losses = -(soft * log_p * (1 if weight is None else weight)).sum(axis=-1)
        mean = losses.sum() / losses.size if losses.size else np.nan
        return {"none": losses, "sum": losses.sum(), "mean": mean}[reduction]
    losses, weights = np.zeros(target.shape, dtype=logits.dtype), 0.0
    for position in np.ndindex(target.shape):
        t = target[position]
        if t == ignore_index:
            continue
        w = np.ones(classes) if weight is None else weight
        log_p = logits[position] - np.log(np.exp(logits[position]).sum())
        losses[position] = -(1 - label_smoothing) * w[t] * log_p[t] - label_smoothing / classes * (w * log_p).sum()
        weights += w[t]
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights if weights else np.nan}[reduction]


@declare(_cross_entropy_reference)
def cross_entropy(
    logits: Any,
    target: Any,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log-likelihood of classes under softmax(logits), in nats.

    Args:
        logits: (..., classes), floating point.
        target: (...), integers; positions equal to `ignore_index` (padding) count nowhere. Or (..., classes), floating
            point: a distribution over the classes at each position, which may have a gradient.
        weight: (classes,) or None: the weight of each class.
        reduction: "mean" (over the weights of the targets that count; NaN, with the gradient 0, if none do; over all
            positions where the target is a distribution), "sum" or "none" (...).
        label_smoothing: s in [0, 1]: the target distribution is (1-s) onehot + s/classes
            (Szegedy et al. 2016, arXiv 1512.00567, section 7).

    Raises ValueError for shapes that don't fit, an unknown reduction, a label_smoothing outside [0, 1] or a class to
    ignore where the target is a distribution; IndexError for a class out of range.
    """
    logits = logits if isinstance(logits, Tensor) else Tensor(logits)
    weight = None if weight is None else constant(array_module(logits.data), array_of(weight))
    label_smoothing = float(label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing {label_smoothing} is not within 0..1")
    if reduction not in REDUCTIONS:
        raise ValueError(f"cross_entropy: reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")
    if weight is not None and weight.shape != logits.shape[-1:]:
        raise ValueError(f"cross_entropy: weight {weight.shape} for {logits.shape[-1]} classes")
    if getattr(target, "dtype", np.dtype(int)).kind == "f" and target.shape == logits.shape:
        if ignore_index >= 0:
            raise ValueError(f"cross_entropy: no class to ignore ({ignore_index}) in a target that is a distribution")
        return _against_distributions(logits, target, weight, reduction, label_smoothing)
    target = target.data if isinstance(target, Tensor) else target if is_array(target) else np.asarray(target)
    if target.shape != logits.shape[:-1] or target.dtype.kind not in "iu":
        raise ValueError(
            f"cross_entropy: logits {logits.shape} need integer targets of shape {logits.shape[:-1]} or floating "
            f"point ones of the logits' shape, not {target.dtype}{list(target.shape)}"
        )
    classes = logits.shape[-1]
    if array_module(target) is np:
        wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
        if wrong.any():
            raise IndexError(f"cross_entropy: class {target[wrong][0]} is outside 0..{classes - 1}")
    target = array_module(logits.data).asarray(target)
    if weight is None and reduction != "none" and logits.size and runs_kernels(logits.data):
        return _on_device(logits, target, ignore_index, reduction, label_smoothing)
    loss = CrossEntropy(target.reshape(-1), weight, ignore_index, reduction, label_smoothing)(
        logits.reshape(-1, classes)
    )
    return loss.reshape(target.shape) if reduction == "none" else loss


def _on_device(logits: Tensor, target: Any, ignore_index: int, reduction: str, label_smoothing: float) -> Tensor:
    target = array_module(target).ascontiguousarray(target.reshape(-1).astype(np.int64, copy=False))
    options = target, ignore_index, reduction, label_smoothing

    def composed(rows: Tensor) -> Tensor:
        return CrossEntropy(target, None, ignore_index, reduction, label_smoothing)(rows)

    return CrossEntropyOnDevice(*options, composed)(logits.reshape(-1, logits.shape[-1]))


def _against_distributions(logits: Tensor, target: Any, weight: Any, reduction: str, label_smoothing: float) -> Tensor:
    """- sum_c w_c t_c log p_c with the smoothed t, in small ops; float16 is computed in float32."""
    classes, half = logits.shape[-1], logits.dtype == target.dtype == np.float16
    logits, target = widened(logits), widened(target)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log_softmax(logits) * target
    losses = -(terms if weight is None else terms * weight.astype(logits.dtype)).sum(axis=-1)
    out = losses if reduction == "none" else losses.sum()
    if reduction == "mean":
        out = out / (losses.size or np.nan)
    return out.astype(np.float16) if half else out
