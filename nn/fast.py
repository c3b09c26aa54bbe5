"""Fused forms of formulas of layers: one op for the end of a sublayer, one for the beginning of the feed-forward
network, and one for the output layer and its loss. A layer of one's own, or one with a hook, is not fused but called.
"""

from itertools import pairwise
from typing import Any

from ..autograd import Tensor, ops
from ..autograd.quick import replaces
from .dropout import Dropout
from .feed_forward import feed_forward
from .linear import Linear, cross_entropy_of
from .module import Module, computes_as
from .normalization import LayerNorm
from .transformer import Sublayer, residual


@replaces(residual)
def residual_fused(x: Tensor, norm_first: bool, *sublayers: Sublayer) -> Tensor:
    """Compute each sum together with the norm that follows it: with pre-norm, the norm of the next sublayer."""
    if not norm_first:
        for sublayer, norm, dropout in sublayers:
            x = add_and_norm(sublayer(x), x, dropout, norm)
        return x
    h = sublayers[0][1](x)
    for (sublayer, _, dropout), (_, next_norm, _) in pairwise(sublayers):
        h, x = add_and_norm(sublayer(h), x, dropout, next_norm, both=True)
    sublayer, _, dropout = sublayers[-1]
    return add_dropped(sublayer(h), x, dropout)


def add_and_norm(y: Tensor, x: Tensor, dropout: Module, norm: Module, *, both: bool = False) -> Any:
    """Compute norm(x + dropout(y)). If `both` is true, also return the sum."""
    if computes_as(norm, LayerNorm) and computes_as(dropout, Dropout) and norm.by_op:
        p, generator = dropout.p if dropout.training else 0.0, dropout.generator
        return ops.residual_layer_norm(y, x, norm.weight, norm.bias, p, eps=norm.eps, both=both, generator=generator)
    total = add_dropped(y, x, dropout)
    return (norm(total), total) if both else norm(total)


def add_dropped(y: Tensor, x: Tensor, dropout: Module) -> Tensor:
    """Compute x + dropout(y)."""
    if computes_as(dropout, Dropout):
        return ops.dropout_add(y, x, dropout.p, training=dropout.training, generator=dropout.generator)
    return x + dropout(y)


@replaces(cross_entropy_of)
def cross_entropy_fused(output: Module, x: Tensor, target: Any, *, class_weight: Any = None, **options: Any) -> Tensor:
    """Compute the loss without storing all logits."""
    if computes_as(output, Linear):
        return ops.linear_cross_entropy(x, output.weight, output.bias, target, class_weight=class_weight, **options)
    return ops.cross_entropy(output(x), target, weight=class_weight, **options)


@replaces(feed_forward)
def feed_forward_fused(x: Tensor, linear1: Module, linear2: Module, dropout: Module, activation: str) -> Tensor:
    """Compute linear1, the activation and dropout as one op."""
    if not (computes_as(linear1, Linear) and computes_as(dropout, Dropout)):
        return feed_forward.__wrapped__(x, linear1, linear2, dropout, activation)  # type: ignore[attr-defined]
    p, generator = dropout.p if dropout.training else 0.0, dropout.generator
    options: dict[str, Any] = {"activation": activation, "dropout": p, "generator": generator}
    return linear2(ops.linear_activation(x, linear1.weight, linear1.bias, **options))
