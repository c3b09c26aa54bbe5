"""Functions of networks under PyTorch's names, called as in PyTorch. Most are the ops themselves."""

from functools import partial
from typing import Any

import numpy as np

from ..autograd import Tensor, ops
from ..autograd.arguments import integers, sizes
from ..autograd.ops import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    dropout,
    elu,
    embedding,
    gelu,
    glu,
    l1_loss,
    leaky_relu,
    linear,
    log_softmax,
    mish,
    mse_loss,
    relu,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    tanh,
)
from ..autograd.ops import log_sigmoid as logsigmoid
from ..autograd.ops.loss import REDUCTIONS, check_classes
from ..autograd.tensor import array_of
from ..kinds import checked_op, one_of
from .normalization import over_last_axes

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "dropout", "elu", "embedding", "gelu",
    "glu", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish", "mse_loss", "nll_loss",
    "normalize", "one_hot", "relu", "scaled_dot_product_attention", "selu", "sigmoid", "silu", "softmax", "softplus",
    "softsign", "tanh",
]  # fmt: skip


@partial(checked_op, always=True)
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise over the last axes, of the sizes `normalized_shape`, to mean 0 and variance 1; then scale and shift."""
    shape = sizes("layer_norm: normalized_shape", normalized_shape)
    weight = np.ones(shape, input.dtype) if weight is None else weight
    bias = np.zeros(shape, input.dtype) if bias is None else bias
    return over_last_axes("layer_norm", ops.layer_norm, input, shape, weight, bias, eps=eps)


@partial(checked_op, always=True)
def cross_entropy(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Compute `ops.cross_entropy` of logits (classes,), (batch, classes) or (batch, classes, ...): the classes are on
    the second axis, as in PyTorch.
    """
    if input.ndim > 2:
        target = ops.moveaxis(target, 1, -1) if np.shape(array_of(target)) == input.shape else target
        input = ops.moveaxis(input, 1, -1)
    return ops.cross_entropy(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


@partial(checked_op, always=True)
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Compute -w_t x_t for log-probabilities x and a target class t, with the axes of `cross_entropy`. The mean divides
    by the sum of the class weights w_t. Raises ValueError for an unknown reduction, IndexError for another class.
    """
    one_of("nll_loss: reduction", reduction, REDUCTIONS)
    input, target = ops.moveaxis(input, 1, -1) if input.ndim > 2 else input, integers("nll_loss: target", target)
    check_classes("nll_loss", target, input.shape[-1], ignore_index)
    real = target != ignore_index
    target = np.where(real, target, 0)
    factors = real * (np.ones(1) if weight is None else array_of(weight)[target]).astype(input.dtype)
    losses = -ops.where(real, ops.gather(input, -1, target[..., None])[..., 0], 0) * factors  # -inf * 0 would be NaN
    if reduction == "mean":
        return losses.sum() / (factors.sum() or np.nan)
    return losses if reduction == "none" else losses.sum()


@partial(checked_op, always=True)
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Compute attention for (batch, heads, length, head_dim). A boolean `attn_mask` is True where a query may attend;
    numbers are added to the scores. `is_causal` is aligned at the first position, as in PyTorch; `ops.attention` aligns
    it at the last one. A row that may attend to nothing gives 0.
    """
    boolean = attn_mask is not None and array_of(attn_mask).dtype == bool
    mask, bias = (attn_mask, None) if boolean else (None, attn_mask)
    if is_causal:
        causal = np.tril(np.ones((query.shape[-2], key.shape[-2]), bool))
        mask = causal if mask is None else array_of(mask) & causal
    return ops.attention(query, key, value, mask=mask, bias=bias, dropout=dropout_p, scale=scale)


@partial(checked_op, always=True)
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the p-norm along `dim`, or by `eps` where the norm is smaller."""
    return ops.divide(input, ops.maximum(ops.norm(input, p, axis=dim, keepdims=True), eps))


@partial(checked_op, always=True)
def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """Return integers (..., classes): 1 at the class, 0 elsewhere; as many classes as the largest needs by default.
    Raises ValueError for a class out of range.
    """
    classes = integers("one_hot: classes", tensor)
    count = int(classes.max(initial=-1)) + 1 if num_classes == -1 else num_classes
    if classes.min(initial=0) < 0 or classes.max(initial=-1) >= count:
        raise ValueError(f"one_hot: classes must be from 0 to {count - 1}")
    return Tensor((classes[..., None] == np.arange(count)).astype(np.int64))
