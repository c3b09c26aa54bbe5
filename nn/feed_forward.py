"""The position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..autograd import Tensor, ops
from .dropout import Dropout
from .linear import Linear

#: Gated activations take twice as many features as they return: one half scales the other (Shazeer 2020).
GATED = {"glu": ops.glu, "reglu": ops.reglu, "geglu": ops.geglu, "swiglu": ops.swiglu}
#: Activations that one op computes together with the matrix product before them.
FUSED = {"relu": ops.relu, "gelu": ops.gelu, "silu": ops.silu}
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {**FUSED, "gelu_tanh": partial(ops.gelu, approximate="tanh"), **GATED}


def feed_forward(x: Tensor, linear1: Linear, linear2: Linear, dropout: Dropout, activation: str) -> Tensor:
    """linear2(dropout(activation(linear1(x)))), each position by itself: (..., d_model) to the same shape.

    Source: arXiv 1706.03762, section 3.3; gated activations: arXiv 2002.05202.
    """
    if activation not in FUSED:
        return linear2(dropout(ACTIVATIONS[activation](linear1(x))))
    p = dropout.p if dropout.training else 0.0
    hidden = ops.linear_activation(
        x, linear1.weight, linear1.bias, activation=activation, dropout=p, generator=dropout.generator
    )
    return linear2(hidden)


def inner_features(activation: str, dim_feedforward: int) -> int:
    """Output features of linear1, so that linear2 gets dim_feedforward. Raises ValueError for an unknown activation."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: use one of {', '.join(ACTIVATIONS)}")
    return 2 * dim_feedforward if activation in GATED else dim_feedforward
