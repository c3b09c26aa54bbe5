"""The position-wise feed-forward network."""

from __future__ import annotations

from ..autograd import Tensor, ops
from .dropout import Dropout
from .linear import Linear
from .module import Module

#: Gated ones take twice as many features as they give: half of them switch the other half (Shazeer 2020).
GATED = {"glu": ops.glu, "reglu": ops.reglu, "geglu": ops.geglu, "swiglu": ops.swiglu}
ACTIVATIONS = {"relu": ops.relu, "gelu": ops.gelu, "silu": ops.silu, **GATED}


def feed_forward(x: Tensor, linear1: Linear, linear2: Linear, dropout: Dropout, activation: str) -> Tensor:
    """linear2(dropout(activation(linear1(x))))."""
    if activation in GATED:
        return linear2(dropout(GATED[activation](linear1(x))))
    p = dropout.p if dropout.training else 0.0
    hidden = ops.linear_activation(
        x, linear1.weight, linear1.bias, activation=activation, dropout=p, generator=dropout.generator
    )
    return linear2(hidden)


class FeedForward(Module):
    """(..., d_model) -> dim_feedforward -> activation -> dropout -> (..., d_model), each position by itself.

    Source: arXiv 1706.03762, section 3.3; gated activations: arXiv 2002.05202. Raises ValueError for an unknown one.
    """

    def __init__(self, d_model: int, dim_feedforward: int, dropout: float = 0.1, activation: str = "relu"):
        self.activation = activation
        self.linear1 = Linear(d_model, inner_features(activation, dim_feedforward))
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.linear1, self.linear2, self.dropout, self.activation)


def inner_features(activation: str, dim_feedforward: int) -> int:
    """What linear1 computes so that linear2 gets dim_feedforward. Raises ValueError for an unknown activation."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: use one of {', '.join(ACTIVATIONS)}")
    return 2 * dim_feedforward if activation in GATED else dim_feedforward
