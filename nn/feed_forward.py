"""The position-wise feed-forward network."""

from ..autograd import Tensor
from ..autograd.ops import ACTIVATIONS
from ..autograd.quick import replaceable
from ..kinds import one_of
from .module import Module


@replaceable
def feed_forward(x: Tensor, linear1: Module, linear2: Module, dropout: Module, activation: str) -> Tensor:
    """Compute the feed-forward network for x (..., d_model), at each position separately. Source: arXiv 1706.03762,
    section 3.3; gated activations: arXiv 2002.05202.
    """
    return linear2(dropout(ACTIVATIONS[activation](linear1(x))))


def inner_features(activation: str, dim_feedforward: int) -> int:
    """Return the number of linear1's output features for which linear2 has dim_feedforward input features.
    Raises ValueError for an unknown activation.
    """
    gated = ACTIVATIONS[one_of("activation", activation, ACTIVATIONS)].gated
    return 2 * dim_feedforward if gated else dim_feedforward
