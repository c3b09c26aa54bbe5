"""The layers of `nn.transformer` on plain arrays: what a decoding step needs of them, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...autograd.backend import array_module
from ...nn import LayerNorm, Module
from ...nn.feed_forward import ACTIVATIONS

# Attention of the new tokens: queries, keys and values (sentences, heads, tokens, head_dim); to a memory queries alone.
Attend = Callable[..., Any]


def affine(x: Any, weight: Any, bias: Any) -> Any:
    """x W^T + b for x (rows, in_features) and parameters weight (out_features, in_features) and bias, or None."""
    y = x @ weight.T
    if bias is not None:
        y += bias
    return y


def normalise(norm: Module, x: Any) -> Any:
    """`norm` of x (rows, features)."""
    if type(norm) is not LayerNorm or norm.eps_outside or x.dtype == np.float16:
        with no_grad():
            return norm(Tensor(x)).data
    features = x.shape[1]
    mean = x.sum(axis=1, keepdims=True)
    mean /= features
    y = x - mean
    scale = (y * y).sum(axis=1, keepdims=True)
    scale /= features
    scale += norm.eps
    y /= array_module(x).sqrt(scale, out=scale)
    y *= norm.weight.data
    y += norm.bias.data
    return y


class RawLayer:
    """A TransformerEncoderLayer or TransformerDecoderLayer without dropout, for x (rows * new, d_model)."""

    def __init__(self, layer: Any):
        attention = layer.self_attn
        self.layer, self.heads, self.head_dim = layer, attention.num_heads, attention.embed_dim // attention.num_heads

    def project_memory(self, memory: Any) -> tuple[Any, Any]:
        """Keys and values (batch, heads, source_length, head_dim) of the memory (batch, source_length, d_model)."""
        weight, bias = _projection(self.layer.multihead_attn)
        batch, length, d = memory.shape
        both = affine(memory.reshape(batch * length, d), weight[d:], None if bias is None else bias[d:])
        both = both.reshape(batch, length, 2, self.heads, self.head_dim).transpose(2, 0, 3, 1, 4)
        both = array_module(memory).ascontiguousarray(both)
        return both[0], both[1]

    def __call__(self, x: Any, sentences: int, attend: Attend, attend_memory: Attend | None) -> Any:
        layer = self.layer
        x = self._residual(x, lambda h: self._attend_self(h, sentences, attend), layer.norm1)
        if attend_memory is None:
            return self._residual(x, self._feed_forward, layer.norm2)
        x = self._residual(x, lambda h: self._attend_memory(h, sentences, attend_memory), layer.norm2)
        return self._residual(x, self._feed_forward, layer.norm3)

    def _residual(self, x: Any, sublayer: Callable[[Any], Any], norm: Module) -> Any:
        y = sublayer(normalise(norm, x) if self.layer.norm_first else x)
        y += x
        return y if self.layer.norm_first else normalise(norm, y)

    def _attend_self(self, x: Any, sentences: int, attend: Attend) -> Any:
        weight, bias = _projection(self.layer.self_attn)
        q, k, v = self._split(affine(x, weight, bias), sentences, 3)
        return self._merge(attend(q * q.dtype.type(self.head_dim**-0.5), k, v), self.layer.self_attn)

    def _attend_memory(self, x: Any, sentences: int, attend: Attend) -> Any:
        weight, bias = _projection(self.layer.multihead_attn)
        d = x.shape[1]
        (q,) = self._split(affine(x, weight[:d], None if bias is None else bias[:d]), sentences, 1)
        return self._merge(attend(q * q.dtype.type(self.head_dim**-0.5)), self.layer.multihead_attn)

    def _split(self, x: Any, sentences: int, parts: int) -> Any:
        """(rows * new, parts * d_model) -> parts of (sentences, heads, width or new, head_dim)."""
        return x.reshape(sentences, -1, parts, self.heads, self.head_dim).transpose(2, 0, 3, 1, 4)

    def _merge(self, attended: Any, attention: Any) -> Any:
        """(sentences, heads, width or new, head_dim) -> (rows * new, d_model), through the output projection."""
        merged = attended.swapaxes(1, 2).reshape(-1, self.heads * self.head_dim)
        out = attention.out_proj
        return affine(merged, out.weight.data, None if out.bias is None else out.bias.data)

    def _feed_forward(self, x: Any) -> Any:
        layer = self.layer
        h = affine(x, layer.linear1.weight.data, layer.linear1.bias.data)
        if layer.activation == "relu":
            array_module(h).maximum(h, 0, out=h)
        else:
            with no_grad():
                h = ACTIVATIONS[layer.activation](Tensor(h)).data
        return affine(h, layer.linear2.weight.data, layer.linear2.bias.data)


def _projection(attention: Any) -> tuple[Any, Any]:
    """The arrays of query, key and value projection in one."""
    bias = attention.in_proj_bias
    return attention.in_proj_weight.data, None if bias is None else bias.data
