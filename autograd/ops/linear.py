"""The fully connected layer x W^T + b, with or without the activation and dropout of a feed-forward network."""

from typing import Any

import numpy as np

from ...kinds import one_of
from ..function import Function
from ..random import Generator, default_generator
from ..sums import summed
from ..tensor import Tensor
from .dropout import _dropout_reference, check_probability
from .dropout import dropout as drop_out
from .elementwise import promoted
from .gated import ACTIVATIONS
from .linalg import product, rows_of
from .registry import OPS, declare, dispatch


class Linear(Function):
    """y = x W^T + b for rows x; dx = g W, dW = g^T x, db = sum of g over the rows."""

    def forward(self, x, weight, bias=None):
        check_shapes(x, weight, bias)
        self.save(x, weight)
        y = product(rows_of(x), weight.T).reshape((*x.shape[:-1], len(weight)))
        return y if bias is None else y + bias

    def backward(self, g):
        x, weight = self.saved
        g, rows, needs = rows_of(g), rows_of(x), self.needs
        dx = product(g, weight) if needs[0] else None
        dw = product(g.T, rows) if needs[1] else None
        if rows is not x and dx is not None:
            dx = dx.reshape(x.shape)
        return (dx, dw, summed(g, 0))[: len(needs)]


def check_shapes(x: Any, weight: Any, bias: Any = None) -> None:
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"an input of shape {x.shape} does not fit a weight (out, in) of shape {weight.shape}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"a bias of shape {bias.shape} does not fit {weight.shape[0]} output features")


def _linear_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    out = np.einsum("...i,oi->...o", x, weight)
    return out if bias is None else out + bias


@declare(_linear_reference, composed=True)
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """Compute x @ weight.T + bias for x (..., in_features). `weight` is (out_features, in_features), and `bias` is
    (out_features,) or None. Raises ValueError for shapes that don't fit.
    """
    x, weight, bias = promoted(x, weight, bias)
    return dispatch(Linear, (x, weight) if bias is None else (x, weight, bias))


def _linear_activation_reference(x, weight, bias=None, *, activation="relu", dropout=0.0, generator=None):
    op, _, _, options = ACTIVATIONS[activation]
    out = OPS[op.__name__].reference(_linear_reference(x, weight, bias), **options)
    return _dropout_reference(out, dropout, generator=generator) if dropout else out


def linear_activation_plain(
    x: Any, weight: Any, bias: Any = None, *, activation: str, dropout: float, generator: Generator
) -> Tensor:
    """Compute dropout(activation(x W^T + b))."""
    return drop_out(ACTIVATIONS[activation](linear(x, weight, bias)), dropout, generator=generator)


@declare(_linear_activation_reference)
def linear_activation(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: str = "relu",
    dropout: float = 0.0,
    generator: Generator | None = None,
) -> Tensor:
    """Compute dropout(activation(linear(x, weight, bias))): the first half of a feed-forward network.

    Args:
        activation: a name in `gated.ACTIVATIONS`; a gated activation returns out_features / 2 features.
        x, weight, bias: the arguments of `linear`.
        dropout: probability of dropping a unit; the other units are scaled by 1 / (1 - dropout).

    Raises ValueError for an unknown activation, shapes that don't fit, or unless 0 <= dropout <= 1.
    """
    check_probability("linear_activation: dropout", dropout)
    one_of("linear_activation: activation", activation, ACTIVATIONS)
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    generator = generator or default_generator
    return dispatch(linear_activation_plain, operands, activation=activation, dropout=dropout, generator=generator)
