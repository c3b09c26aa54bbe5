"""The layers of `nn.transformer` on plain arrays, with only the computations of a decoding step."""

import functools
import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...autograd.backend import array_module
from ...autograd.ops import ACTIVATIONS
from ...autograd.quick import parallel_for, replaceable
from ...nn import LayerNorm, Linear, Module, MultiHeadAttention
from ...nn.module import computes_as
from ..own_layers import own_layers
from .affine import Affine, affine_of, pack

# Attention of the new tokens: takes queries, keys and values (sentences, heads, tokens, head_dim), in cross-attention
# queries alone, and returns (sentences, tokens, heads, head_dim).
Attend = Callable[..., Any]


class Normalise:
    """Normalises arrays x (rows, features)."""

    def __init__(self, norm: Module):
        self.norm = norm

    def __call__(self, x: Any) -> Any:
        norm = self.norm
        if not computes_as(norm, LayerNorm) or not norm.by_op or x.dtype == np.float16:
            with no_grad():
                return norm(Tensor(x)).data
        return normalised(x, norm.weight.data, norm.bias.data, norm.eps)


@replaceable
def normalised(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Compute the layer norm of rows x (rows, features)."""
    xp, features = array_module(x), x.shape[1]
    y = x - x.sum(axis=1, keepdims=True) / features
    scale = xp.einsum("ij,ij->i", y, y)[:, None]
    scale /= features
    scale += eps
    xp.sqrt(scale, out=scale)
    y *= xp.reciprocal(scale, out=scale)  # cheaper than a division of every number
    y *= weight
    y += bias
    return y


@replaceable
def quick_parts(decoder: "RawDecoder") -> tuple[Any, Any, Any]:
    """Return faster implementations for a decoder, or None: of `attend` for few queries, which returns None for others;
    the class of an object that computes all layers of a step in one call; and a function that makes a `Screen`, which
    computes only the largest logits.
    """
    return None, None, None


def cacheable(
    model: Module, leave_out: Collection[str] = (), cached: Collection[str] = ("position_wise", "cached_step")
) -> bool:
    """Return whether a model's layers are handloom's, or say how they are cached; if not, warn. See `own_layers`."""
    own = own_layers(model, leave_out, cached=cached)
    if own:
        more = f", and {len(own) - 1} more" if len(own) > 1 else ""
        warnings.warn(
            f"{own[0]}{more} is not handloom's, so generation calls the whole model for each token, which is slower. "
            "docs/generation.md describes how a layer of one's own is cached.",
            stacklevel=4,
        )
    return not own


def attend(q: Any, keys: Any, values: Any, bias: Any, *, return_weights: bool = False) -> tuple[Any, Any]:
    """Compute the attention of scaled queries (batch, heads, queries, head_dim). The batch is divided among threads.

    Keys and values (batch, kv_heads, keys, head_dim) can have fewer heads, each shared by a group of query heads. The
    bias (batch or 1, heads or 1, queries or 1, keys), or None, is added to the scores. The result of a query that may
    not attend to any key is zero. Returns the results (batch, queries, heads, head_dim), and the weights (batch, heads,
    queries, keys) or None.
    """
    xp, (batch, heads, queries, head_dim) = array_module(q), q.shape
    merged = xp.empty((batch, queries, heads, head_dim), values.dtype)
    kept = None
    if return_weights:
        kept = xp.empty((batch, heads, queries, keys.shape[2]), np.promote_types(q.dtype, np.float32))
    if not keys.shape[2]:
        merged[...] = 0
        return merged, kept

    def part(first: int, last: int) -> None:
        some = slice(first, last)
        weights = _by_group(q[some], keys[some].swapaxes(-1, -2))
        if weights.dtype == np.float16:
            weights = weights.astype(np.float32)
        if bias is not None:
            weights += bias if len(bias) == 1 else bias[some]
        top = weights.max(axis=-1, keepdims=True)
        weights -= xp.where(xp.isfinite(top), top, 0)
        xp.exp(weights, out=weights)
        total = weights.sum(axis=-1, keepdims=True)
        total = xp.where(total == 0, 1, total)
        out = _by_group(weights.astype(values.dtype, copy=False), values[some])
        xp.divide(out, total, out=merged[some].swapaxes(1, 2), casting="same_kind")
        if kept is not None:
            xp.divide(weights, total, out=kept[some])

    # Each pair of key and query costs two products and an exponential; each key costs reading key and value.
    parallel_for(xp, batch, part, cost=heads * keys.shape[2] * (queries * (2 + 0.04 * head_dim) + 0.8 * head_dim))
    return merged, kept


def _by_group(x: Any, shared: Any) -> Any:
    """Compute x (batch, heads, n, a) @ shared (batch, kv_heads, a, b): a group of heads uses one of `shared`."""
    (batch, heads), kv_heads = x.shape[:2], shared.shape[1]
    if heads == kv_heads:
        return x @ shared
    product = x.reshape(batch, kv_heads, heads // kv_heads, *x.shape[2:]) @ shared[:, :, None]
    return product.reshape(batch, heads, *product.shape[3:])


class RawAttention:
    """The projections of a MultiHeadAttention; `cross` is true for cross-attention."""

    def __init__(self, attention: MultiHeadAttention, cross: bool = False):
        self.heads, self.head_dim, inner = attention.num_heads, attention.head_dim, attention.inner_dim
        self.kv_heads = attention.kv_heads
        weight = attention.in_proj_weight.data
        bias = None if attention.in_proj_bias is None else attention.in_proj_bias.data
        # In cross-attention keys and values come from the encoder output, so the query has a separate projection.
        own = inner if cross else len(weight)
        self.project_new = Affine(weight[:own], None if bias is None else bias[:own])
        self.project_keys_values = Affine(weight[own:], None if bias is None else bias[own:])
        self.project_out = affine_of(attention.out_proj)
        self.position_scores = attention.position_scores

    def split(self, x: Any, sentences: int, *heads: int) -> list[Any]:
        """Split (rows * new, features) into parts (sentences, heads, width or new, head_dim) of these heads each."""
        tokens, count = len(x) // max(sentences, 1), x.shape[1] // self.head_dim
        x = x.reshape(sentences, tokens, count, self.head_dim).transpose(0, 2, 1, 3)
        return [x[:, sum(heads[:part]) : sum(heads[: part + 1])] for part in range(len(heads))]

    def keys_values(self, memory: Any) -> tuple[Any, Any]:
        """Return keys and values (batch, heads, source_length, head_dim) of the encoder output `memory`."""
        batch, length, features = memory.shape
        projected, xp = self.project_keys_values(memory.reshape(batch * length, features)), array_module(memory)
        keys, values = (xp.ascontiguousarray(part) for part in self.split(projected, batch, *[self.kv_heads] * 2))
        return keys, values

    def __call__(self, x: Any, sentences: int, attend: Attend) -> Any:
        new = self.project_new(x)
        cross = new.shape[1] == self.heads * self.head_dim  # keys and values come from the encoder output
        parts = self.split(new, sentences, self.heads, *([] if cross else [self.kv_heads] * 2))
        merged = attend(parts[0] * new.dtype.type(self.head_dim**-0.5), *parts[1:])
        return self.project_out(merged.reshape(len(x), self.heads * self.head_dim))


class RawLayer:
    """A TransformerEncoderLayer or TransformerDecoderLayer without dropout, for x (rows * new, d_model)."""

    def __init__(self, layer: Any):
        self.norm_first, self.activation = layer.norm_first, layer.activation
        self.own = RawAttention(layer.self_attn)
        self.cross = None
        if hasattr(layer, "multihead_attn"):
            self.cross = RawAttention(layer.multihead_attn, cross=True)
        self.linear1, self.linear2 = affine_of(layer.linear1), affine_of(layer.linear2)
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
        """Return the Affines of all matrices that a decoding step uses."""
        attentions = [self.own] if self.cross is None else [self.own, self.cross]
        projections: list[Any] = [part for one in attentions for part in (one.project_new, one.project_out)]
        return [*projections, self.linear1, self.linear2]

    def _feed_forward(self, x: Any) -> Any:
        h = self.linear1(x, relu=self.activation == "relu")
        if self.activation != "relu":
            with no_grad():
                h = ACTIVATIONS[self.activation](Tensor(h)).data
        return self.linear2(h)


class OwnLayer:
    """A layer with its own method `cached_step`."""

    own: Any = None
    cross: Any = None

    def __init__(self, layer: Any):
        self.layer = layer

    def __call__(self, x: Any, rows: int, state: Any, memory: dict[str, Any]) -> tuple[Any, Any]:
        """Return the layer's output for x (rows * new, d_model), and its new state."""
        with no_grad():
            y, state = self.layer.cached_step(Tensor(x.reshape(rows, -1, x.shape[1])), state, **memory)
        return y.data.reshape(x.shape), state

    def affines(self) -> list[Affine]:
        return []


class RawDecoder:
    """A model's embedding, decoder layers and output layer as plain arrays, for generation.

    `embed` maps ids (rows, new) and the position of the first id to vectors (rows, new, d_model). A layer may have a
    method `cached_step` (see docs/generation.md). `packed` copies the weights into the memory layout that is fastest
    for few rows; the parameters must not change afterwards. `copying` are the layer of a copying model's gate and the
    id that is never copied; see `models.copying`.
    """

    def __init__(
        self,
        embed: Callable[[np.ndarray, int], Any],
        layers: Any,
        norm: Module | None,
        output: Module,
        packed: bool = False,
        copying: tuple[Linear, int | None] | None = None,
    ):
        self.embed = embed
        self.layers = [OwnLayer(layer) if hasattr(layer, "cached_step") else RawLayer(layer) for layer in layers]
        self.norm = None if norm is None else Normalise(norm)
        self.output = affine_of(output)
        self.gate = None if copying is None else affine_of(copying[0])
        self.uncopied = None if copying is None else copying[1]
        if packed:
            found = [self.output, *(affine for layer in self.layers for affine in layer.affines())]
            pack([affine for affine in found if isinstance(affine, Affine)])
        weight = next(parameter for module in (output, *layers) for parameter in module.parameters())
        self.dtype, self.xp = weight.dtype, array_module(weight.data)
        self.attend_few, self.layers_at_once, self._make_screen = quick_parts(self)

    @functools.cached_property
    def screen(self) -> Any:
        """A `Screen` of the output layer, if it is supported and faster; else None."""
        return None if self._make_screen is None else self._make_screen(self.output.weight.T, self.output.bias)
