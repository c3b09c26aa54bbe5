"""Encoder and decoder layers and their stacks. Parameter names are PyTorch's."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..autograd import Tensor
from ..autograd.checkpoint import checkpoint
from ..autograd.quick import replaceable
from ..kinds import checked, one_of
from .attention import MultiHeadAttention
from .containers import ModuleList
from .dropout import Dropout
from .feed_forward import feed_forward, inner_features
from .linear import Linear
from .module import Module
from .normalization import LayerNorm, RMSNorm, make_norm

#: Which linear layers have biases: the query, key and value projections; attention's output; the feed-forward layers.
BIASES = {
    "all": (True, True, True),
    "none": (False, False, False),
    "qkv": (True, False, False),
    "attention": (True, True, False),
    "feed_forward": (False, False, True),
    "no_qkv": (False, True, True),
}


def has_biases(bias: str) -> tuple[bool, bool, bool]:
    """Return the entry `bias` of `BIASES`. Raises ValueError for an unknown name."""
    return BIASES[one_of("bias", bias, BIASES)]


#: A function of x (batch, length, d_model), such as attention, with its norm and its dropout.
Sublayer = tuple[Callable[[Tensor], Tensor], Module, Module]


@replaceable
def residual(x: Tensor, norm_first: bool, *sublayers: Sublayer) -> Tensor:
    """Add the output of each sublayer to its input: pre-norm if `norm_first` is true, else post-norm."""
    for sublayer, norm, dropout in sublayers:
        if norm_first:
            x = x + dropout(sublayer(norm(x)))
        else:
            x = norm(x + dropout(sublayer(x)))
    return x


class _Layer(Module):
    """The parts of an encoder layer and, if `cross_attention` is true, of a decoder layer."""

    cross_attention = False

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        norm_first: bool = False,
        layer_norm_eps: float = 1e-5,
        *,
        norm: str = "layer",
        bias: str = "all",
        **attention: Any,
    ):
        self.activation, self.norm_first = activation, norm_first
        qkv, out, feed = has_biases(bias)
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout, qkv, out_bias=out, **attention)
        if self.cross_attention:
            sizes: dict[str, Any] = {name: attention.get(name) for name in ("head_dim", "kv_heads")}
            self.multihead_attn = MultiHeadAttention(d_model, nhead, dropout, qkv, out_bias=out, **sizes)
        self.linear1 = Linear(d_model, inner_features(activation, dim_feedforward), feed)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, feed)
        self.norm1, self.norm2 = (make_norm(norm, d_model, layer_norm_eps) for _ in range(2))
        if self.cross_attention:
            self.norm3 = make_norm(norm, d_model, layer_norm_eps)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        if self.cross_attention:
            self.dropout3 = Dropout(dropout)

    def feed_forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.linear1, self.linear2, self.dropout, self.activation)


class TransformerEncoderLayer(_Layer):
    """An encoder layer: self-attention and feed-forward, each with a residual connection, dropout and a norm.

    Args:
        d_model: number of features of the input and the output (batch, length, d_model).
        nhead: number of attention heads; d_model must be divisible by nhead unless head_dim is given.
        dim_feedforward: number of features between the two linear layers of the feed-forward network.
        dropout: probability of dropout of attention weights, activations and the output of each sublayer.
        activation: a name in `ops.ACTIVATIONS`; with a gated activation the network has 1.5 times as many weights.
        norm_first: whether to use pre-norm instead of post-norm.
        norm: one of `NORMS`.
        bias: which linear layers have biases, one of `BIASES`.
        attention: further arguments of `MultiHeadAttention`: head_dim, positions, pattern, kv_heads and rotary.

    Source: arXiv 1706.03762, section 3.1; pre-norm: Xiong et al. 2020, arXiv 2002.04745.
    """

    def forward(self, x: Tensor, *, mask: Any = None, lengths: Any = None, causal: bool = False) -> Tensor:
        """Return the layer's output for x (batch, length, d_model), in the same shape. `lengths` (batch,) exclude
        padding. `mask` is boolean; True means that a query may attend to a key.
        """

        attend = partial(self.self_attn, mask=mask, key_lengths=lengths, causal=causal)
        return residual(
            x,
            self.norm_first,
            (attend, self.norm1, self.dropout1),
            (self.feed_forward, self.norm2, self.dropout2),
        )


class TransformerDecoderLayer(_Layer):
    """A decoder layer: causal self-attention, cross-attention to the encoder output, and feed-forward. The arguments
    are the same as for TransformerEncoderLayer.
    """

    cross_attention = True

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        lengths: Any = None,
        memory_lengths: Any = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the layer's output for x (batch, length, d_model) and the encoder output (batch, source_length,
        d_model).

        If `cross_weights` is a list, append the cross-attention weights (batch, heads, length, source_length) to it.
        """

        def attend_memory(x: Tensor) -> Tensor:
            if cross_weights is None:
                return self.multihead_attn(x, memory, key_lengths=memory_lengths)
            out, weights = self.multihead_attn(x, memory, key_lengths=memory_lengths, return_weights=True)
            cross_weights.append(weights)
            return out

        return residual(
            x,
            self.norm_first,
            (partial(self.self_attn, key_lengths=lengths, causal=True), self.norm1, self.dropout1),
            (attend_memory, self.norm2, self.dropout2),
            (self.feed_forward, self.norm3, self.dropout3),
        )


class _Stack(Module):
    """A stack of layers, followed by an optional norm, which pre-norm layers need. If `checkpoint_activations` is true,
    each layer is recomputed in the backward pass (`autograd.checkpoint`).
    """

    checkpoint_activations = False

    def __init__(self, layers: Sequence[Module], norm: LayerNorm | RMSNorm | None = None):
        self.layers = ModuleList(layers)
        self.norm = norm


class TransformerEncoder(_Stack):
    """A stack of `TransformerEncoderLayer`, followed by an optional norm."""

    def forward(self, x: Tensor, *, mask: Any = None, lengths: Any = None, causal: bool = False) -> Tensor:
        for layer in self.layers:
            call = partial(checkpoint, layer) if self.checkpoint_activations else layer
            x = call(x, mask=mask, lengths=lengths, causal=causal)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(_Stack):
    """A stack of `TransformerDecoderLayer`, followed by an optional norm."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        lengths: Any = None,
        memory_lengths: Any = None,
        last_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the stack's output. The arguments are those of a layer's `forward`; `last_weights` is a list to which
        the last layer appends its cross-attention weights.
        """
        for layer in self.layers:
            cross_weights = last_weights if layer is self.layers[-1] else None
            # checkpoint supports one result only, and appending to a list is a second one.
            call = partial(checkpoint, layer) if self.checkpoint_activations and cross_weights is None else layer
            x = call(x, memory, lengths=lengths, memory_lengths=memory_lengths, cross_weights=cross_weights)
        return x if self.norm is None else self.norm(x)


@checked
def checkpoint_activations(model: Module, on: bool = True) -> int:
    """Switch activation checkpointing on or off for all stacks of layers in `model`. Return the number of stacks."""
    stacks = [module for module in model.modules() if isinstance(module, _Stack)]
    for stack in stacks:
        stack.checkpoint_activations = on
    return len(stacks)
