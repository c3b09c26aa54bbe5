"""Losses as modules."""

from __future__ import annotations

from typing import Any

from ..autograd import Tensor, ops
from .module import Module


class CrossEntropyLoss(Module):
    """Cross-entropy of logits (..., classes) against integer targets (...), in nats; see `ops.cross_entropy`."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        self.weight, self.ignore_index = weight, ignore_index
        self.reduction, self.label_smoothing = reduction, label_smoothing

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        return ops.cross_entropy(
            logits,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
