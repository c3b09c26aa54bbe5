"""The position-wise feed-forward network."""

from ..autograd import Tensor, ops
from ..autograd.arguments import one_of
from ..autograd.ops import ACTIVATIONS
from .dropout import Dropout
from .linear import Linear
from .module import Module, computes_as


def feed_forward(x: Tensor, linear1: Module, linear2: Module, dropout: Module, activation: str) -> Tensor:
    """Compute linear2(dropout(activation(linear1(x)))) for x (..., d_model), at each position separately. If linear1
    and dropout are plain, one op computes all but linear2. Source: arXiv 1706.03762, section 3.3; gated activations:
    arXiv 2002.05202.
    """
    if computes_as(linear1, Linear) and computes_as(dropout, Dropout):
        p = dropout.p if dropout.training else 0.0
        hidden = ops.linear_activation(
            x, linear1.weight, linear1.bias, activation=activation, dropout=p, generator=dropout.generator
        )
        return linear2(hidden)
    return linear2(dropout(ACTIVATIONS[activation](linear1(x))))


def inner_features(activation: str, dim_feedforward: int) -> int:
    """Return the number of linear1's output features for which linear2 has dim_feedforward input features.
    Raises ValueError for an unknown activation.
    """
    gated = ACTIVATIONS[one_of("activation", activation, ACTIVATIONS)].gated
    return 2 * dim_feedforward if gated else dim_feedforward
