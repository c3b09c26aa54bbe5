"""The position-wise feed-forward network."""

from __future__ import annotations

from ..autograd import Tensor, ops
from .dropout import Dropout
from .linear import Linear
from .module import Module

ACTIVATIONS = {"relu": ops.relu, "gelu": ops.gelu, "silu": ops.silu}


def feed_forward(x: Tensor, linear1: Linear, linear2: Linear, dropout: Dropout, activation: str) -> Tensor:
    """linear2(dropout(activation(linear1(x))))."""
    if activation == "relu":
        p = dropout.p if dropout.training else 0.0
        return linear2(ops.linear_relu(x, linear1.weight, linear1.bias, dropout=p, generator=dropout.generator))
    return linear2(dropout(ACTIVATIONS[activation](linear1(x))))


class FeedForward(Module):
    """(..., d_model) -> dim_feedforward -> activation -> dropout -> (..., d_model), each position by itself.

    Source: arXiv 1706.03762, section 3.3. Raises ValueError for an unknown activation.
    """

    def __init__(self, d_model: int, dim_feedforward: int, dropout: float = 0.1, activation: str = "relu"):
        check_activation(activation)
        self.activation = activation
        self.linear1 = Linear(d_model, dim_feedforward)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.linear1, self.linear2, self.dropout, self.activation)


def check_activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}: use one of {', '.join(ACTIVATIONS)}")
