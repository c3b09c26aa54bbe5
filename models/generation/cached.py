"""Decoding with a cache. Each step computes only the new tokens, on plain arrays, without an autograd graph.

Tests compare the results with those of the layers in `nn`.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...autograd.backend import array_module, is_array
from ...nn.positional import PositionScores
from ..copying import copy_logits
from .affine import Affine
from .cache import TreeCache, keep_rows
from .raw_layers import OwnLayer, RawAttention, RawDecoder, attend


class CachedState:
    """A DecodingState for a stack of Transformer layers, with or without cross-attention to an encoder output.

    Several states can share a decoder. `memory` is the encoder output (rows, source_length, d_model), `memory_lengths`
    (rows,) are the numbers of its tokens without padding, and `source` (rows, source_length) are the ids for a copying
    model. With `keep_attention`, `cross_attentions` holds the weights (rows, heads, new, source_length) of each layer
    in the last step.
    """

    def __init__(
        self,
        decoder: RawDecoder,
        rows: int,
        *,
        positions: int | None = None,
        suggested_lengths: np.ndarray | None = None,
        memory: Any = None,
        memory_lengths: np.ndarray | None = None,
        source: Any = None,
        keep_attention: bool = False,
    ):
        self.decoder, self.rows, self.length, self.keep_attention = decoder, rows, 0, keep_attention
        self.positions, self.suggested_lengths = positions, suggested_lengths
        own = [layer.own for layer in decoder.layers if layer.own is not None]
        sizes = (own[0].kv_heads, own[0].head_dim) if own else (1, 1)
        self._cache = TreeCache(len(decoder.layers), rows, *sizes, decoder.dtype, decoder.xp)
        if keep_attention and len(own) < len(decoder.layers):
            raise ValueError("the attention of layers with a method cached_step can't be kept")
        self._states: dict[int, Any] = {}  # of these layers
        given = {} if memory is None else {"memory": Tensor(memory), "memory_lengths": memory_lengths}
        self._memory: dict[str, Any] = given if len(own) < len(decoder.layers) else {}
        cross = [layer.cross.keys_values(memory) for layer in decoder.layers if layer.cross is not None]
        self._cross_keys, self._cross_values = [key for key, _ in cross], [value for _, value in cross]
        self._cross_bias = None
        if memory_lengths is not None and (memory_lengths < memory.shape[1]).any():
            real = np.arange(memory.shape[1]) < np.asarray(memory_lengths)[:, None]
            self._cross_bias = self._minus_infinity_unless(real)[:, None, None]
        self._source = None if source is None else decoder.xp.asarray(source)
        self._logits: Any = None
        self._screened = True  # until too many logits were close to the largest
        self._incomplete = False  # whether a step or a select was begun and not finished
        self.cross_attentions: list[Any] = []

    @property
    def cross_attention(self) -> Any:
        """The last layer's cross-attention, (rows, source_length), averaged over heads and summed over new tokens."""
        return self.cross_attentions[-1].mean(axis=1).sum(axis=1) if self.cross_attentions else None

    @property
    def past(self) -> np.ndarray:
        """Host booleans (rows, nodes): whether a node of the sentence's cache belongs to the row's sequence."""
        allowed = self._cache.allowed
        shape = self.rows, self._cache.length
        return np.ones(shape, bool) if allowed is None else allowed.reshape(shape)

    def step(self, ids: np.ndarray, may_ban: Sequence[int] | None = None) -> Any:
        new, cache, decoder = ids.shape[1], self._cache, self.decoder
        if new > 1 and cache.allowed is not None:
            raise ValueError("several tokens can be fed at once only while each sentence has one sequence")
        x = decoder.embed(ids, self.length).reshape(self.rows * new, -1)
        self._begin()
        cache.extend(self.length, new)
        bias = cache.bias(x.dtype) if new == 1 else self._causal(new)
        if new == 1 and not self.keep_attention and self._source is None and (layers := self._layers) is not None:
            cross = list(zip(self._cross_keys, self._cross_values, strict=True))
            x = layers(x, cache, cross, bias, self._cross_bias)
        else:
            x = self._layer_by_layer(x, bias)
        self.length += new
        if new > 1:
            x = x.reshape(self.rows, new, -1)[:, -1]
        x = x if decoder.norm is None else decoder.norm(x)
        logits = self._project(x, may_ban) if self._source is None else self._mixture(x)
        self._incomplete = False
        return logits

    def _begin(self) -> None:
        """Begin a step or a select. If it is interrupted, the cache has tokens that `length` does not count."""
        if self._incomplete:
            raise RuntimeError("this decoding state was interrupted in a step or a select: start a new state")
        self._incomplete = True

    @functools.cached_property
    def _layers(self) -> Any:
        return None if self.decoder.layers_at_once is None else self.decoder.layers_at_once(self.decoder)

    def _layer_by_layer(self, x: Any, bias: Any) -> Any:
        """Compute the layers for x (rows * new, d_model), and keep cross-attention weights if they are wanted."""
        cache, decoder = self._cache, self.decoder
        self.cross_attentions = []
        crossing = itertools.count()
        for number, layer in enumerate(decoder.layers):
            if isinstance(layer, OwnLayer):
                x, self._states[number] = layer(x, self.rows, self._states.get(number), self._memory)
                continue
            place = next(crossing)  # in the lists of keys and values of the source

            def attend_self(q: Any, k: Any, v: Any, number: int = number, own: RawAttention = layer.own) -> Any:
                if own.position_scores is not None:
                    return self._attend_by_position(q, k, v, number, own.position_scores, bias)
                return self._attend(q, *cache.append(number, k, v), bias)

            def attend_memory(q: Any, number: int = number, place: int = place) -> Any:
                keys, values = self._cross_keys[place][: len(q)], self._cross_values[place][: len(q)]
                keep = self.keep_attention or (self._source is not None and number == len(decoder.layers) - 1)
                return self._attend(q, keys, values, self._cross_bias, keep)

            x = layer(x, cache.sentences, attend_self, attend_memory)
        return x

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        self._begin()
        sentences = self._cache.select(rows, width)
        self.rows = len(rows)
        if self._states or self._memory:
            self._states, self._memory = _selected((self._states, self._memory), rows)
        if self.suggested_lengths is not None:
            self.suggested_lengths = self.suggested_lengths[rows]
        if self._source is not None:
            self._source = self._source[self.decoder.xp.asarray(rows)]
        if self._cross_keys:
            length = self._cross_keys[0].shape[2]
            self._cross_keys = keep_rows(self._cross_keys, sentences, length)
            self._cross_values = keep_rows(self._cross_values, sentences, length)
        if self._cross_bias is not None:
            self._cross_bias = self._cross_bias[self.decoder.xp.asarray(sentences)]
        self._incomplete = False

    def _attend_by_position(self, q: Any, k: Any, v: Any, number: int, scores: PositionScores, bias: Any) -> Any:
        """Compute self-attention with scores that depend on the distance between two tokens."""
        with no_grad():
            rotated = self._rotate(scores, q, k)
            added = scores.bias_at(self._cache.distances(self.length, q.shape[2]), q.dtype)
        keys, values = self._cache.append(number, rotated[1], v)
        if added is not None:
            added = self.decoder.xp.asarray(added)
            bias = added if bias is None else added + bias
        return self._attend(rotated[0], keys, values, bias)

    def _rotate(self, scores: PositionScores, q: Any, k: Any) -> list[Any]:
        """Rotate new queries and keys (sentences, heads, width or new, head_dim) to their positions."""
        if self._cache.width == 1:
            return [x.data for x in scores.rotate(Tensor(q), Tensor(k), self.length)]
        # All sequences of a sentence have the same length.
        query, key = (Tensor(x.swapaxes(1, 2).reshape(self.rows, x.shape[1], 1, x.shape[3])) for x in (q, k))
        rotated = scores.rotate(query, key, self.length)
        return [
            new.data.reshape(old.shape[0], old.shape[2], old.shape[1], -1).swapaxes(1, 2)
            for new, old in zip(rotated, (q, k), strict=True)
        ]

    def _attend(self, q: Any, keys: Any, values: Any, bias: Any, keep: bool = False) -> Any:
        """Compute attention, and keep its weights (rows, heads, new, keys) in `cross_attentions` if `keep` is true."""
        attend_few = self.decoder.attend_few
        if attend_few is not None and not keep and (out := attend_few(q, keys, values, bias)) is not None:
            return out
        out, weights = attend(q, keys, values, bias, return_weights=keep)
        if keep:
            if self._cache.width > 1:  # (sentences, heads, width, keys)
                weights = weights.swapaxes(1, 2).reshape(self.rows, weights.shape[1], 1, weights.shape[3])
            self.cross_attentions.append(weights)
        return out

    def _causal(self, new: int) -> Any:
        """Return the bias (1, 1, new, length) with which each new token attends to itself and to earlier tokens."""
        before = self._cache.length - new
        return self._minus_infinity_unless(np.tri(new, before + new, before, dtype=bool)[None, None])

    def _minus_infinity_unless(self, allowed: np.ndarray) -> Any:
        dtype = np.promote_types(self.decoder.dtype, np.float32)
        return self.decoder.xp.asarray(np.where(allowed, 0, -np.inf).astype(dtype))

    def _mixture(self, x: Any) -> Any:
        """Return a copying model's logits of x (rows, d_model), from the last layer's attention to the source."""
        assert self.decoder.gate is not None
        last = self.cross_attentions[-1][:, :, -1:].mean(axis=1)
        with no_grad():
            logits, gate = (Tensor(part[:, None]) for part in (self._project(x), self.decoder.gate(x)))
            return copy_logits(logits, gate, Tensor(last), self._source, self.decoder.uncopied).data[:, 0]

    def _project(self, x: Any, may_ban: Sequence[int] | None = None) -> Any:
        """Compute logits, at each step into the same memory, because newly allocated memory would cause page faults."""
        output = self.decoder.output
        if isinstance(output, Affine) and (self._logits is None or len(self._logits) < len(x)):
            self._logits = self.decoder.xp.empty((len(x), output.out_features), self.decoder.dtype)
        if may_ban is not None and self._screened and (screen := self.decoder.screen) is not None:
            logits = self._logits[: len(x)]
            self._screened = screen(x, logits, may_ban)
            if self._screened:
                return logits
        return output(x, self._logits)


def _selected(state: Any, rows: np.ndarray) -> Any:
    """Select rows of the arrays and Tensors in nested tuples, lists and dictionaries; their first axis is the rows."""
    if isinstance(state, dict):
        return {key: _selected(value, rows) for key, value in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(_selected(value, rows) for value in state)
    if isinstance(state, Tensor):
        return Tensor(_selected(state.data, rows))
    return state[array_module(state).asarray(rows)] if is_array(state) else state
