"""The layers of `nn.transformer` on plain arrays: what a decoding step needs of them, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...autograd.backend import array_module
from ...nn import LayerNorm, Linear, Module, MultiHeadAttention
from ...nn.feed_forward import ACTIVATIONS

# Attention of the new tokens: queries, keys and values (sentences, heads, tokens, head_dim); to a memory queries alone.
Attend = Callable[..., Any]


class Affine:
    """x W^T + b on arrays x (rows, in_features), for W (out_features, in_features) and b (out_features,) or None.

    `weight` is W^T, a view of the parameter until `pack` copies it.
    """

    def __init__(self, weight: Any, bias: Any):
        self.weight, self.bias = weight.T, bias

    @classmethod
    def of(cls, linear: Linear) -> Affine:
        return cls(linear.weight.data, None if linear.bias is None else linear.bias.data)

    def __call__(self, x: Any, out: Any = None) -> Any:
        y = array_module(x).matmul(x, self.weight, out=out)
        if self.bias is not None:
            y += self.bias
        return y


def pack(layers: list[Affine]) -> None:
    """Copy weights so that the rows of W^T are contiguous: products with few rows of x then read them up to twice as
    fast. All lie in one array, which the operating system can give large pages: reading is then faster by a tenth.
    """
    xp, dtype = array_module(layers[0].weight), layers[0].weight.dtype
    line = 64 // dtype.itemsize  # numbers in a cache line, where each weight begins
    flat = xp.empty(sum(layer.weight.size + line for layer in layers) + line, dtype)
    place = -flat.ctypes.data % 64 // dtype.itemsize if xp is np else 0
    for layer in layers:
        packed = flat[place : place + layer.weight.size].reshape(layer.weight.shape)
        packed[...] = layer.weight
        place += -(-packed.size // line) * line
        layer.weight, layer.bias = packed, None if layer.bias is None else layer.bias.copy()


class Normalise:
    """A norm on arrays x (rows, features)."""

    def __init__(self, norm: Module):
        self.norm = norm

    def __call__(self, x: Any) -> Any:
        norm = self.norm
        if type(norm) is not LayerNorm or norm.eps_outside or x.dtype == np.float16:
            with no_grad():
                return norm(Tensor(x)).data
        xp, features = array_module(x), x.shape[1]
        y = x - x.sum(axis=1, keepdims=True) / features
        scale = (y * y).sum(axis=1, keepdims=True)
        scale /= features
        scale += norm.eps
        y /= xp.sqrt(scale, out=scale)
        y *= norm.weight.data
        y += norm.bias.data
        return y


def attend(
    q: Any, keys: Any, values: Any, bias: Any, *, some_see_nothing: bool = False
) -> tuple[Any, Any]:
    """Attention of queries (batch, heads, queries, head_dim) that are scaled already, and its weights but for a factor.

    The bias, or None, is added to the scores. A query with nothing to attend to gets zeros if `some_see_nothing`.
    """
    xp = array_module(q)
    scores = q @ keys.swapaxes(-1, -2)
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    if bias is not None:
        scores += bias
    top = scores.max(axis=-1, keepdims=True)
    scores -= xp.where(xp.isfinite(top), top, 0) if some_see_nothing else top
    weights = xp.exp(scores, out=scores)
    total = weights.sum(axis=-1, keepdims=True)
    out = weights.astype(values.dtype, copy=False) @ values
    out /= xp.where(total == 0, 1, total) if some_see_nothing else total
    return out, weights


class RawAttention:
    """The projections of a MultiHeadAttention; `memory_too` for one that attends to an encoder's output."""

    def __init__(self, attention: MultiHeadAttention, memory_too: bool = False):
        self.heads, self.head_dim, inner = attention.num_heads, attention.head_dim, attention.inner_dim
        weight = attention.in_proj_weight.data
        bias = None if attention.in_proj_bias is None else attention.in_proj_bias.data
        # From the memory come keys and values: the query has a projection of its own.
        own = inner if memory_too else 3 * inner
        self.project_new = Affine(weight[:own], None if bias is None else bias[:own])
        self.project_memory = Affine(weight[own:], None if bias is None else bias[own:])
        self.project_out = Affine.of(attention.out_proj)
        self.position_scores = attention.position_scores

    def split(self, x: Any, sentences: int, parts: int) -> Any:
        """(rows * new, parts * heads * head_dim) -> parts of (sentences, heads, width or new, head_dim)."""
        tokens = len(x) // max(sentences, 1)
        return x.reshape(sentences, tokens, parts, self.heads, self.head_dim).transpose(2, 0, 3, 1, 4)

    def memory(self, memory: Any) -> tuple[Any, Any]:
        """Keys and values (batch, heads, source_length, head_dim) of the memory (batch, source_length, d_model)."""
        batch, length, features = memory.shape
        both = self.split(self.project_memory(memory.reshape(batch * length, features)), batch, 2)
        both = array_module(memory).ascontiguousarray(both)
        return both[0], both[1]

    def __call__(self, x: Any, sentences: int, attend: Attend) -> Any:
        new = self.project_new(x)
        parts = self.split(new, sentences, new.shape[1] // (self.heads * self.head_dim))
        merged = attend(parts[0] * new.dtype.type(self.head_dim**-0.5), *parts[1:]).swapaxes(1, 2)
        return self.project_out(merged.reshape(len(x), self.heads * self.head_dim))


class RawLayer:
    """A TransformerEncoderLayer or TransformerDecoderLayer without dropout, for x (rows * new, d_model)."""

    def __init__(self, layer: Any):
        self.norm_first, self.activation = layer.norm_first, layer.activation
        self.own = RawAttention(layer.self_attn)
        self.cross = None
        if hasattr(layer, "multihead_attn"):
            self.cross = RawAttention(layer.multihead_attn, memory_too=True)
        self.linear1, self.linear2 = Affine.of(layer.linear1), Affine.of(layer.linear2)
        norms = (layer.norm1, layer.norm2) if self.cross is None else (layer.norm1, layer.norm2, layer.norm3)
        self.norms = [Normalise(norm) for norm in norms]

    def __call__(self, x: Any, sentences: int, attend: Attend, attend_memory: Attend) -> Any:
        x = self._residual(x, lambda h: self.own(h, sentences, attend), self.norms[0])
        if (cross := self.cross) is not None:
            x = self._residual(x, lambda h: cross(h, sentences, attend_memory), self.norms[1])
        return self._residual(x, self._feed_forward, self.norms[-1])

    def _residual(self, x: Any, sublayer: Callable[[Any], Any], norm: Normalise) -> Any:
        y = sublayer(norm(x) if self.norm_first else x)
        y += x
        return y if self.norm_first else norm(y)

    def affines(self) -> list[Affine]:
        """All that a decoding step reads."""
        attentions = [self.own] if self.cross is None else [self.own, self.cross]
        projections = [part for one in attentions for part in (one.project_new, one.project_out)]
        return [*projections, self.linear1, self.linear2]

    def _feed_forward(self, x: Any) -> Any:
        h = self.linear1(x)
        if self.activation == "relu":
            array_module(h).maximum(h, 0, out=h)
        else:
            with no_grad():
                h = ACTIVATIONS[self.activation](Tensor(h)).data
        return self.linear2(h)


class RawDecoder:
    """What generates, of a model: how it embeds, its layers and its output layer, as arrays.

    Args:
        embed: (ids (rows, new), position of the first) -> vectors (rows, new, d_model).
        layers: TransformerDecoderLayers, or TransformerEncoderLayers that are used causally.
        norm: the norm after the last layer, if there is one.
        output: the layer that makes logits.
        packed: copy the weights into the layout that is fastest for few rows. Later changes of the parameters are not
            seen then, and memory doubles.
    """

    def __init__(
        self,
        embed: Callable[[np.ndarray, int], Any],
        layers: Any,
        norm: Module | None,
        output: Linear,
        packed: bool = False,
    ):
        self.embed, self.layers = embed, [RawLayer(layer) for layer in layers]
        self.norm = None if norm is None else Normalise(norm)
        self.output = Affine.of(output)
        if packed:
            pack([self.output, *(affine for layer in self.layers for affine in layer.affines())])
        self.dtype, self.vocabulary = output.weight.dtype, output.out_features
        self.xp = array_module(output.weight.data)
