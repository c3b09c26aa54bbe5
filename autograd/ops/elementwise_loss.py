"""Losses for numbers and probabilities: squared and absolute error, binary cross-entropy."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ...kinds import one_of
from ..backend import array_module
from ..function import Function
from ..half import in_float32
from ..tensor import Tensor, array_of, shape_of
from .activation import softplus
from .elementwise import abs, add, multiply, negative, promoted, square, subtract
from .loss import REDUCTIONS
from .registry import OPS, declare


def _reduced(name: str, formula: Callable[..., Tensor], reduction: str, x: Any, target: Any, *weights: Any) -> Tensor:
    """Return the loss formula(x, target), times the weights that are not None, and reduced, in the operands' dtype."""
    own, other = shape_of(x, name), shape_of(target, name)
    if own != other:
        # (n, 1) and (n,) would broadcast to (n, n): training would run with a meaningless loss.
        raise ValueError(f"{name}: prediction {own} and target {other} differ in shape")
    one_of(f"{name}: reduction", reduction, REDUCTIONS)
    x, target, *factors = promoted(x, target, *(weight for weight in weights if weight is not None))

    @in_float32
    def loss(x: Any, target: Any, *factors: Any) -> Tensor:
        losses = reduce(multiply, factors, formula(x, target))
        if losses.shape != own:
            raise ValueError(f"{name}: a weight does not broadcast to {own}: the losses have the shape {losses.shape}")
        return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses

    return loss(x, target, *factors)


def _reduced_reference(loss: np.ndarray, reduction: str) -> Any:
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / loss.size if loss.size else np.nan}[reduction]


@declare(lambda x, target, *, reduction="mean": _reduced_reference((x - target) ** 2, reduction))
def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """Compute (x - target)^2, reduced by "mean", "sum" or "none". Raises ValueError unless the shapes are equal."""
    return _reduced("mse_loss", lambda x, target: square(subtract(x, target)), reduction, x, target)


@declare(lambda x, target, *, reduction="mean": _reduced_reference(OPS["abs"].reference(x - target), reduction))
def l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """Compute |x - target|, reduced by "mean", "sum" or "none". Raises ValueError unless the shapes are equal."""
    return _reduced("l1_loss", lambda x, target: abs(subtract(x, target)), reduction, x, target)


def _bce_reference(p, target, *, weight=1.0, pos_weight=1.0, reduction="mean"):
    loss = -(pos_weight * target * np.log(p) + (1 - target) * np.log(1 - p))
    return _reduced_reference(loss * weight, reduction)


@declare(lambda logits, target, **options: _bce_reference(1 / (1 + np.exp(-logits)), target, **options))
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

    Raises ValueError for shapes that don't fit or an unknown reduction.
    """

    def formula(x: Any, target: Any) -> Tensor:
        # log s(x) = -softplus(-x) and log(1 - s(x)) = -softplus(-x) - x
        negatives, missed = subtract(1.0, target), softplus(negative(x))
        if pos_weight is not None:
            missed = multiply(add(multiply(pos_weight, target), negatives), missed)
        return add(multiply(negatives, x), missed)

    logits, target, pos_weight = promoted(logits, target, pos_weight)
    return _reduced("binary_cross_entropy_with_logits", formula, reduction, logits, target, weight)


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
        if not ((p >= 0) & (p <= 1)).all():  # also for NaN
            raise ValueError("p must be in [0, 1]; for logits use binary_cross_entropy_with_logits")
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


@declare(_bce_reference)
def binary_cross_entropy(p: Any, target: Any, *, weight: Any = None, reduction: str = "mean") -> Tensor:
    """Compute -(t log p + (1 - t) log(1 - p)) for probabilities p and targets t, in nats. Logarithms are limited to at
    least -100. `weight` broadcasts to p. Raises ValueError for shapes that don't fit, p outside [0, 1]
    (also NaN) or an unknown reduction.
    """
    return _reduced("binary_cross_entropy", lambda p, t: BinaryCrossEntropy()(p, t), reduction, p, target, weight)
