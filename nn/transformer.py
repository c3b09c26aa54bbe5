"""Encoder and decoder layers, and the stacks of them. Parameter names are PyTorch's.

Post-norm (`norm_first=False`) is norm(x + sublayer(x)), as in the original; pre-norm is x + sublayer(norm(x)).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..autograd import Tensor
from ..autograd.checkpoint import checkpoint
from .attention import KeyValueCache, MultiHeadAttention
from .dropout import Dropout
from .feed_forward import feed_forward, inner_features
from .linear import Linear
from .module import Module, ModuleList
from .normalization import LayerNorm


class DecoderLayerCache:
    """What one decoder layer remembers while generating."""

    def __init__(self) -> None:
        self.own, self.cross = KeyValueCache(), KeyValueCache()

    def select(self, rows: Any) -> None:
        """Keep these batch rows, in this order."""
        self.own.select(rows)
        self.cross.select(rows)


class TransformerEncoderLayer(Module):
    """Self-attention and feed-forward, each with residual, dropout and layer norm.

    Args:
        d_model: features of input and output (batch, length, d_model).
        nhead: attention heads; divides d_model unless there is a head_dim.
        dim_feedforward: width between the two linear layers.
        dropout: after attention weights, the activation and each sublayer.
        activation: "relu", "gelu", "silu", or a gated one with half as many weights more: "glu", "reglu", "geglu",
            "swiglu".
        norm_first: pre-norm instead of post-norm.
        head_dim, positions, pattern: see `MultiHeadAttention`.

    Source: arXiv 1706.03762, section 3.1; pre-norm: Xiong et al. 2020, arXiv 2002.04745.
    """

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
        head_dim: int | None = None,
        positions: str = "none",
        pattern: str = "full",
    ):
        self.activation, self.norm_first = activation, norm_first
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout, head_dim=head_dim, positions=positions, pattern=pattern
        )
        self.linear1 = Linear(d_model, inner_features(activation, dim_feedforward))
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Any = None,
        lengths: Any = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """x (batch, length, d_model); `lengths` (batch,) without padding; `mask` boolean, True = may attend.

        With a `cache`, x holds only the positions that are new.
        """

        def attend(h: Tensor) -> Tensor:
            return self.self_attn(h, mask=mask, key_lengths=lengths, causal=causal, cache=cache)

        if self.norm_first:
            x = self.dropout1.add(attend(self.norm1(x)), x)
            return self.dropout2.add(self._feed_forward(self.norm2(x)), x)
        x = self.norm1(self.dropout1.add(attend(x), x))
        return self.norm2(self.dropout2.add(self._feed_forward(x), x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.linear1, self.linear2, self.dropout, self.activation)


class TransformerDecoderLayer(Module):
    """Causal self-attention, attention to the encoder's output, and feed-forward. Arguments as the encoder layer's."""

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
        head_dim: int | None = None,
        positions: str = "none",
        pattern: str = "full",
    ):
        self.activation, self.norm_first = activation, norm_first
        self.self_attn = MultiHeadAttention(
            d_model, nhead, dropout, head_dim=head_dim, positions=positions, pattern=pattern
        )
        self.multihead_attn = MultiHeadAttention(d_model, nhead, dropout, head_dim=head_dim)
        self.linear1 = Linear(d_model, inner_features(activation, dim_feedforward))
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        self.norm3 = LayerNorm(d_model, layer_norm_eps)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        lengths: Any = None,
        memory_lengths: Any = None,
        cache: DecoderLayerCache | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) attends to its past and to memory (batch, source_length, d_model).

        With a `cache`, x holds only the positions that are new. To `cross_weights` the cross-attention weights
        (batch, heads, length, source_length) are appended.
        """

        def attend_self(h: Tensor) -> Tensor:
            own = None if cache is None else cache.own
            return self.self_attn(h, key_lengths=lengths, causal=True, cache=own)

        def attend_memory(h: Tensor) -> Tensor:
            options = {"key_lengths": memory_lengths, "cache": None if cache is None else cache.cross}
            if cross_weights is None:
                return self.multihead_attn(h, memory, **options)
            out, weights = self.multihead_attn(h, memory, return_weights=True, **options)
            cross_weights.append(weights)
            return out

        if self.norm_first:
            x = self.dropout1.add(attend_self(self.norm1(x)), x)
            x = self.dropout2.add(attend_memory(self.norm2(x)), x)
            return self.dropout3.add(self._feed_forward(self.norm3(x)), x)
        x = self.norm1(self.dropout1.add(attend_self(x), x))
        x = self.norm2(self.dropout2.add(attend_memory(x), x))
        return self.norm3(self.dropout3.add(self._feed_forward(x), x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.linear1, self.linear2, self.dropout, self.activation)


class TransformerEncoder(Module):
    """Encoder layers in sequence, and a final norm if given (pre-norm needs one).

    With `checkpoint_activations` each layer is computed anew in the backward pass (`autograd.checkpoint`).
    """

    checkpoint_activations = False

    def __init__(self, layers: list[TransformerEncoderLayer], norm: LayerNorm | None = None):
        self.layers = ModuleList(layers)
        self.norm = norm

    def new_cache(self) -> list[KeyValueCache]:
        """An empty cache for one generation, where the stack is causal."""
        return [KeyValueCache() for _ in self.layers]

    def forward(
        self,
        x: Tensor,
        *,
        mask: Any = None,
        lengths: Any = None,
        causal: bool = False,
        cache: list[KeyValueCache] | None = None,
    ) -> Tensor:
        for number, layer in enumerate(self.layers):
            own = None if cache is None else cache[number]
            call = partial(checkpoint, layer) if self.checkpoint_activations and own is None else layer
            x = call(x, mask=mask, lengths=lengths, causal=causal, cache=own)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Decoder layers in sequence, and a final norm if given; `checkpoint_activations` as the encoder's."""

    checkpoint_activations = False

    def __init__(self, layers: list[TransformerDecoderLayer], norm: LayerNorm | None = None):
        self.layers = ModuleList(layers)
        self.norm = norm

    def new_cache(self) -> list[DecoderLayerCache]:
        """An empty cache for one generation."""
        return [DecoderLayerCache() for _ in self.layers]

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        lengths: Any = None,
        memory_lengths: Any = None,
        cache: list[DecoderLayerCache] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        for number, layer in enumerate(self.layers):
            keeps = cache is not None or cross_weights is not None  # results beside the one that is returned
            call = partial(checkpoint, layer) if self.checkpoint_activations and not keeps else layer
            x = call(
                x,
                memory,
                lengths=lengths,
                memory_lengths=memory_lengths,
                cache=None if cache is None else cache[number],
                cross_weights=cross_weights,
            )
        return x if self.norm is None else self.norm(x)


def checkpoint_activations(model: Module, on: bool = True) -> int:
    """Switch activation checkpointing for all stacks of layers in `model`. Returns how many stacks there are."""
    stacks = [module for module in model.modules() if isinstance(module, (TransformerEncoder, TransformerDecoder))]
    for stack in stacks:
        stack.checkpoint_activations = on
    return len(stacks)
