"""Dropout as a layer."""

from __future__ import annotations

from ..autograd import Generator, Tensor, ops
from .module import Module


class Dropout(Module):
    """A layer that zeros each element with probability `p` in training and scales the rest by 1/(1-p).

    In evaluation mode it does nothing.

    It draws from `generator`, or from the default one if that is None. Raises ValueError unless 0 <= p <= 1.
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None):
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p = {p} is not a probability")
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        return ops.dropout(x, self.p, training=self.training, generator=self.generator)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Compute residual + self(x) in one op."""
        return ops.dropout_add(x, residual, self.p, training=self.training, generator=self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"
