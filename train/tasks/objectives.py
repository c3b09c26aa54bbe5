"""Training objectives other than plain cross-entropy: class weights, knowledge distillation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad, ops
from ...autograd.backend import array_module, constant
from ...nn import Module


def class_weights(
    labels: Sequence[int] | np.ndarray, classes: int, power: float = 1.0, most: float = np.inf
) -> np.ndarray:
    """Return weights (classes,) float32 that make rare classes count as much as frequent ones.

    They are the `weight` of `ops.cross_entropy`: (n / (classes n_c))^power. With power 1 every class has the same total
    weight; with 0 all weights are one. No weight is above `most`, because otherwise a class of two texts out of tens of
    thousands would dominate the training. A class that does not occur gets zero. Source: King and Zeng 2001 (Political
    Analysis 9), like scikit-learn's "balanced".

    Raises ValueError for labels outside 0 .. classes - 1, or without labels.
    """
    labels = np.asarray(labels)
    if not labels.size or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"class_weights: labels must be in 0 .. {classes - 1}, and at least one")
    counts = np.bincount(labels, minlength=classes)
    with np.errstate(divide="ignore"):
        weights = np.minimum((len(labels) / (classes * counts)) ** power, most)
    return np.where(counts, weights, 0).astype(np.float32)


def distillation_loss(logits: Tensor, teacher_logits: Any, counted: Any, temperature: float = 2.0) -> Tensor:
    """Compute T^2 KL(teacher_T || student_T), in nats per token.

    It measures the distance of the student's distribution from the teacher's distribution. Both are softened by the
    temperature T; the factor keeps the gradient's size independent of it. Source: Hinton et al. 2015, arXiv 1503.02531,
    section 2; per target token as in Kim and Rush 2016, arXiv 1606.07947, section 3.1.

    Args:
        logits, teacher_logits: (..., classes); `teacher_logits` is an array, through which no gradient flows.
        counted: (...) booleans, True where a token counts and is not padding.
        temperature: T, above 0.

    Raises ValueError if the shapes differ, nothing counts (in a host array), or the temperature is not above 0.
    """
    on_host = isinstance(counted, np.ndarray)
    if temperature <= 0 or logits.shape != teacher_logits.shape or (on_host and not counted.any()):
        raise ValueError(
            f"distillation_loss: {temperature=} must be above 0, the teacher's logits {teacher_logits.shape} must "
            f"have the shape of the student's {logits.shape}, and a token must count. Do their tokenizers differ?"
        )
    theirs = ops.log_softmax(Tensor(teacher_logits) / temperature).data
    xp = array_module(theirs)
    tokens = int(counted.sum()) if on_host else counted.sum().astype(theirs.dtype)
    probabilities = xp.exp(theirs) * (constant(xp, counted) if on_host else counted)[..., None]
    divergence = (ops.log_softmax(logits / temperature) * -probabilities).sum() + (probabilities * theirs).sum()
    return divergence * (temperature**2 / tokens)


def taught(loss: Tensor, logits: Tensor, teacher: Module, inputs: Sequence[Any], counted: Any = None) -> Tensor:
    """Return the mean of `loss` and the `distillation_loss` against the logits of `teacher(*inputs)`.

    `counted` is the argument of `distillation_loss`; None counts everything.
    """
    with no_grad():
        soft = teacher(*inputs).data
    counted = np.ones(logits.shape[:-1], bool) if counted is None else counted
    return (loss + distillation_loss(logits, soft, counted)) * 0.5
