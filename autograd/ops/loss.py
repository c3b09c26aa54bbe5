"""Cross-entropy, in nats. Padding affects neither the sum nor the divisor of the mean."""

from typing import Any

import numpy as np

from ...kinds import one_of
from ..backend import array_module, as_array, constant
from ..half import in_float32
from ..tensor import Tensor, array_of, constant_array
from .dropout import check_probability
from .elementwise import promoted
from .registry import declare, dispatch
from .selection import where
from .softmax import log_softmax

REDUCTIONS = ("mean", "sum", "none")


@in_float32
def cross_entropy_plain(
    logits: Tensor, *, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    """Compute -(1 - s) w_t log p_t - (s/V) sum_c w_c log p_c for a row with target class t, where p = softmax(logits).

    s is the label smoothing, V the number of classes, w the class weights (1 by default). The mean is the sum of the
    losses divided by the sum of the targets' weights w_t. Without weights and smoothing, the gradient of a row's loss
    is p - onehot(t).
    """
    xp, (rows, classes) = array_module(array_of(logits)), logits.shape
    log_p = log_softmax(logits)
    real = target != ignore_index
    target = xp.where(real, target, 0)
    weight = xp.ones(classes, log_p.dtype) if weight is None else weight.astype(log_p.dtype)
    losses = log_p[xp.arange(rows), target] * (-(1 - label_smoothing) * weight[target])
    if label_smoothing:
        losses = losses - (log_p * (weight * (label_smoothing / max(classes, 1)))).sum(axis=-1)
    losses = where(real, losses, 0.0)
    if reduction != "none":
        losses = losses.sum()
    if reduction == "mean":
        count = (weight[target] * real).sum()
        none = count == 0  # the mean over no target is NaN, as in PyTorch; its gradient is 0
        losses = losses / (count + none) + xp.where(none, np.float32(np.nan), np.float32(0))
    return losses


def _cross_entropy_reference(
    logits, target, *, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):  # fmt: skip
    classes = logits.shape[-1]
    w = np.ones(classes) if weight is None else weight
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    if target.dtype.kind != "i":  # distributions
        losses = -(((1 - label_smoothing) * target + label_smoothing / classes) * log_p * w).sum(axis=-1)
        divisor = losses.size
    else:
        losses, divisor = np.zeros(target.shape, dtype=logits.dtype), 0.0
        for position in np.ndindex(target.shape):
            if (t := target[position]) != ignore_index:
                smooth = label_smoothing / classes * (w * log_p[position]).sum()
                losses[position] = -(1 - label_smoothing) * w[t] * log_p[position][t] - smooth
                divisor += w[t]
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / divisor if divisor else np.nan}[reduction]


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
    """Compute the negative log-likelihood of classes under softmax(logits), in nats.

    Args:
        logits: (..., classes), floating point.
        target: (...), integers. Targets equal to `ignore_index` (padding) have the loss 0 and are excluded from the
            mean. A floating-point target (..., classes) is a distribution over the classes, which can have a gradient.
        weight: (classes,), the weight of each class; None for equal weights.
        reduction: "none" returns the losses (...), and "sum" their sum. "mean" divides the sum by the sum of the
            targets' class weights, or by the number of targets if the targets are distributions. The mean over no
            target is NaN, and its gradient is 0.
        label_smoothing: s in [0, 1]: the target distribution is (1-s) onehot + s/classes
            (Szegedy et al. 2016, arXiv 1512.00567, section 7).

    Raises ValueError for shapes that don't fit, an unknown reduction, a label_smoothing outside [0, 1], or an
    ignore_index together with distributions. Raises IndexError for a class out of range.
    """
    (logits,) = promoted(logits if isinstance(logits, Tensor) else Tensor(logits))
    if weight is not None:
        weight = constant(array_module(logits.data), constant_array(weight, "cross_entropy: weights")).copy()
    check_probability("cross_entropy: label_smoothing", label_smoothing)
    one_of("cross_entropy: reduction", reduction, REDUCTIONS)
    if weight is not None and weight.shape != logits.shape[-1:]:
        raise ValueError(f"cross_entropy: weight of shape {weight.shape} does not fit {logits.shape[-1]} classes")
    if not hasattr(target, "dtype"):
        target = as_array(target, "cross_entropy: targets")
        target = target.astype(logits.dtype) if target.dtype.kind == "f" else target
    if target.dtype.kind == "f" and target.shape == logits.shape:
        if ignore_index >= 0:
            raise ValueError(f"ignore_index ({ignore_index}) is not supported for targets that are distributions")
        return _against_distributions(
            logits, target, weight=weight, reduction=reduction, label_smoothing=label_smoothing
        )
    target = constant_array(target, "cross_entropy: targets")
    if target.shape != logits.shape[:-1] or target.dtype.kind not in "iu":
        raise ValueError(
            f"cross_entropy: logits {logits.shape} need integer targets of shape {logits.shape[:-1]} or floating "
            f"point ones of the logits' shape, not {target.dtype}{list(target.shape)}"
        )
    classes = logits.shape[-1]
    check_classes("cross_entropy", target, classes, ignore_index)
    target = array_module(logits.data).array(target)  # a copy: the caller may fill the buffer again before backward()
    loss = dispatch(
        cross_entropy_plain, (logits.reshape((target.size, classes)),), target=target.reshape(-1), weight=weight,
        ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
    )  # fmt: skip
    return loss.reshape(target.shape) if reduction == "none" else loss


def check_classes(op: str, target: Any, classes: int, ignore_index: int) -> None:
    """Raise IndexError for a class out of range. Targets on a GPU are not checked: the check would wait for it."""
    if isinstance(target, np.ndarray):
        wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
        if wrong.any():
            raise IndexError(f"{op}: class {target[wrong][0]} is outside 0..{classes - 1}")


@in_float32
def _against_distributions(
    logits: Tensor, target: Any, *, weight: Any, reduction: str, label_smoothing: float
) -> Tensor:
    """Compute -sum_c w_c t_c log p_c for the smoothed distribution t from other ops."""
    classes = logits.shape[-1]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log_softmax(logits) * target
    losses = -(terms if weight is None else terms * weight.astype(logits.dtype)).sum(axis=-1)
    out = losses if reduction == "none" else losses.sum()
    return out / (losses.size or np.nan) if reduction == "mean" else out
