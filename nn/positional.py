"""Where in the sequence a token stands."""

from __future__ import annotations

import numpy as np

from ..autograd import Parameter, Tensor
from . import init
from .module import Module


def sinusoidal_table(length: int, d_model: int) -> np.ndarray:
    """(length, d_model) float32: sin(t / 10000^(2i/d_model)) in column 2i, cos of the same in column 2i + 1.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """
    position = np.arange(length)[:, None]
    rate = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model), np.float32)
    table[:, 0::2] = np.sin(position * rate)
    table[:, 1::2] = np.cos(position * rate[: d_model // 2])
    return table


class _AddedPositions(Module):
    """Vectors (batch, length, d_model) plus one row of a table for each place."""

    def __init__(self, max_length: int):
        self.max_length = max_length

    def add(self, x: Tensor, table: Tensor, offset: int) -> Tensor:
        end = offset + x.shape[1]
        if end > self.max_length:
            raise ValueError(
                f"a sequence of {end} tokens is longer than the {self.max_length} positions this model was built for: "
                "shorten it, or build the model with a larger max_length"
            )
        return x + table[offset:end]


class SinusoidalPositions(_AddedPositions):
    """Adds the fixed sine and cosine table to (batch, length, d_model); `offset` is the first token's position.

    Raises ValueError beyond `max_length`. Source: arXiv 1706.03762, section 3.5.
    """

    def __init__(self, d_model: int, max_length: int = 1024):
        super().__init__(max_length)
        self.table = Tensor(sinusoidal_table(max_length, d_model))

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        return self.add(x, self.table, offset)


class LearnedPositions(_AddedPositions):
    """Adds a learned table `weight` (max_length, d_model), which starts normal with standard deviation 0.02."""

    def __init__(self, d_model: int, max_length: int = 1024):
        super().__init__(max_length)
        self.weight = Parameter(np.empty((max_length, d_model), np.float32))
        init.normal_(self.weight, 0.0, 0.02)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        return self.add(x, self.weight, offset)
