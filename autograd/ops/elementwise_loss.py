"""Losses for numbers and probabilities: squared and absolute error, binary cross-entropy.

Losses of float16 are computed in float32 and rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor, array_of
from .activation import softplus
from .elementwise import abs, add, multiply, negative, promoted, square, subtract
from .loss import REDUCTIONS
from .reduction import widened
from .registry import OPS, declare


def _reduced(name: str, loss: Tensor, reduction: str, *operands: Any) -> Tensor:
    """Reduce `loss`, computed from `widened` operands, and convert the result to the operands' original dtype."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")
    out = loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
    given = [o if isinstance(o, int | float) else getattr(o, "dtype", np.float64) for o in operands if o is not None]
    return out.astype(np.float16) if np.result_type(*given) == np.float16 else out


def _same_shape(name: str, x: Any, target: Any) -> None:
    own, other = np.shape(array_of(x)), np.shape(array_of(target))
    if own != other:
        # (n, 1) and (n,) would broadcast to (n, n): training would run with a meaningless loss.
        raise ValueError(f"{name}: prediction {own} and target {other} differ in shape")


def _reduced_reference(loss: np.ndarray, reduction: str) -> Any:
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / loss.size if loss.size else np.nan}[reduction]


@declare(lambda x, target, *, reduction="mean": _reduced_reference((x - target) ** 2, reduction))
def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """Compute (x - target)^2, reduced by "mean", "sum" or "none".
    Raises ValueError for another reduction, or if the shapes differ.
    """
    _same_shape("mse_loss", x, target)
    x, target = promoted(x, target)
    return _reduced("mse_loss", square(subtract(widened(x), widened(target))), reduction, x, target)


@declare(lambda x, target, *, reduction="mean": _reduced_reference(OPS["abs"].reference(x - target), reduction))
def l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """Compute |x - target|, reduced by "mean", "sum" or "none".
    Raises ValueError for another reduction, or if the shapes differ.
    """
    _same_shape("l1_loss", x, target)
    x, target = promoted(x, target)
    return _reduced("l1_loss", abs(subtract(widened(x), widened(target))), reduction, x, target)


def _bce_with_logits_reference(
    logits: np.ndarray,
    target: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    pos_weight: np.ndarray | None = None,
    reduction: str = "mean",
) -> Any:
    p = 1 / (1 + np.exp(-logits))
    positive = np.ones(()) if pos_weight is None else pos_weight
    loss = -(positive * target * np.log(p) + (1 - target) * np.log(1 - p))
    return _reduced_reference(loss if weight is None else loss * weight, reduction)


@declare(_bce_with_logits_reference)
def binary_cross_entropy_with_logits(
    logits: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """Compute -(w+ t log s(x) + (1 - t) log(1 - s(x))) with the sigmoid s, in nats. It never overflows.

    Args:
        logits: x, any shape.
        target: t, probabilities in [0, 1], with the shape of the logits.
        weight: factor of each element's loss; broadcasts to the logits' shape.
        pos_weight: w+, the factor of the term t log s(x); broadcasts to the logits' shape.
        reduction: "mean" (over all elements), "sum" or "none".

    Raises ValueError for shapes that differ or an unknown reduction.
    """
    name = "binary_cross_entropy_with_logits"
    _same_shape(name, logits, target)
    operands = *promoted(logits, target), weight, pos_weight
    logits, target, weight, pos_weight = map(widened, operands)
    # log s(x) = -softplus(-x) and log(1 - s(x)) = -softplus(-x) - x
    negatives = subtract(1.0, target)
    missed = softplus(negative(logits))
    if pos_weight is not None:
        missed = multiply(add(multiply(pos_weight, target), negatives), missed)
    loss = add(multiply(negatives, logits), missed)
    return _reduced(name, loss if weight is None else multiply(loss, weight), reduction, *operands)


class BinaryCrossEntropy(Function):
    """-(t log p + (1 - t) log(1 - p)); dp = g (p - t) / (p (1 - p)), dt = g (log(1 - p) - log p).

    As in PyTorch, logarithms are limited to at least -100 and p (1 - p) to at least 1e-12, so that p = 0 and p = 1 give
    finite numbers.
    """

    broadcasts = True

    def logarithms(self, p):
        xp = array_module(p)
        inside, below = (array_of(p) > 0), (array_of(p) < 1)
        return (
            xp.maximum(xp.where(inside, xp.log(xp.where(inside, p, 1.0)), -100.0), -100.0),
            xp.maximum(xp.where(below, xp.log1p(-xp.where(below, p, 0.0)), -100.0), -100.0),
        )

    def forward(self, p, target):
        self.save(p, target)
        if ((p < 0) | (p > 1)).any():
            raise ValueError(
                "binary_cross_entropy needs probabilities in [0, 1]; for logits use binary_cross_entropy_with_logits"
            )
        log_p, log_q = self.logarithms(p)
        return -(target * log_p + (1 - target) * log_q)

    def backward(self, g):
        p, target = self.saved
        xp = array_module(g)
        needs_p, needs_target = self.needs
        gradient_p = gradient_target = None
        if needs_p:
            gradient_p = g * (p - target) / xp.maximum(p * (1 - p), 1e-12)
        if needs_target:
            log_p, log_q = self.logarithms(p)
            gradient_target = g * (log_q - log_p)
        return gradient_p, gradient_target


def _bce_reference(
    p: np.ndarray, target: np.ndarray, *, weight: np.ndarray | None = None, reduction: str = "mean"
) -> Any:
    loss = -(target * np.log(p) + (1 - target) * np.log(1 - p))
    return _reduced_reference(loss if weight is None else loss * weight, reduction)


@declare(_bce_reference)
def binary_cross_entropy(p: Any, target: Any, *, weight: Any = None, reduction: str = "mean") -> Tensor:
    """Compute -(t log p + (1 - t) log(1 - p)) for probabilities p and targets t, in nats. Logarithms are limited to at
    least -100. `weight` broadcasts to p. Raises ValueError for different shapes, p outside [0, 1] or an unknown
    reduction.
    """
    _same_shape("binary_cross_entropy", p, target)
    operands = *promoted(p, target), weight
    p, target, weight = map(widened, operands)
    loss = BinaryCrossEntropy()(p, target)
    return _reduced("binary_cross_entropy", loss if weight is None else multiply(loss, weight), reduction, *operands)
