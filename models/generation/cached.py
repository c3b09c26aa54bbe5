"""Decoding with a cache: each step computes the new tokens alone, on plain arrays, without recording anything.

The arithmetic is that of the layers in `nn`; the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.backend import array_module
from ...nn import Linear, Module
from .cache import TreeCache, keep_rows
from .raw_layers import RawLayer, normalise


class CachedState:
    """A DecodingState for a stack of Transformer layers, with or without attention to an encoder's output.

    Args:
        embed: (ids (rows, new), position of the first) -> vectors (rows, new, d_model).
        layers: TransformerDecoderLayers if there is a `memory`, TransformerEncoderLayers (causal) if not.
        norm: the norm after the last layer, if there is one.
        output: the layer that makes logits.
        rows, positions, suggested_lengths: as in DecodingState.
        memory: the encoder's output (rows, source_length, d_model).
        memory_lengths: (rows,) host integers: the rest of the memory is padding.
        keep_attention: keep the attention weights of the last step.

    Attributes (with keep_attention):
        self_attention: for each layer, weights (rows, heads, new, length) over the sequence's own positions.
        cross_attentions: for each layer, weights (rows, heads, new, source_length).
    """

    def __init__(
        self,
        *,
        embed: Callable[[np.ndarray, int], Any],
        layers: Sequence[Module],
        norm: Module | None,
        output: Linear,
        rows: int,
        positions: int | None = None,
        suggested_lengths: np.ndarray | None = None,
        memory: Any = None,
        memory_lengths: np.ndarray | None = None,
        keep_attention: bool = False,
    ):
        self.positions, self.suggested_lengths = positions, suggested_lengths
        self.rows, self.length, self.keep_attention = rows, 0, keep_attention
        self._embed, self._output, self._norm = embed, output, norm
        self._xp = array_module(output.weight.data)
        self._layers = [RawLayer(layer) for layer in layers]
        sizes = (self._layers[0].heads, self._layers[0].head_dim)
        self._cache = TreeCache(len(layers), rows, *sizes, output.weight.dtype, self._xp)
        self._cross: list[tuple[Any, Any]] = []
        self._cross_bias = None
        if memory is not None:
            self._cross = [layer.project_memory(memory) for layer in self._layers]
            if memory_lengths is not None and (memory_lengths < memory.shape[1]).any():
                real = np.arange(memory.shape[1]) < np.asarray(memory_lengths)[:, None]
                self._cross_bias = self._minus_infinity_unless(real)[:, None, None]
        self._logits: Any = None
        self.self_attention: list[Any] = []
        self.cross_attentions: list[Any] = []

    @property
    def cross_attention(self) -> Any:
        """(rows, source_length) cross-attention of the last layer, mean of its heads, summed over the new tokens."""
        return self.cross_attentions[-1].mean(axis=1).sum(axis=1) if self.cross_attentions else None

    def step(self, ids: np.ndarray) -> Any:
        new, cache = ids.shape[1], self._cache
        if new > 1 and cache.allowed is not None:
            raise ValueError("several tokens at once can be fed only while each sentence has one sequence")
        x = self._embed(ids, self.length).reshape(self.rows * new, -1)
        self.length += new
        cache.extend(cache.width * new)
        bias = cache.bias(x.dtype) if new == 1 else self._causal(new)
        self.self_attention, self.cross_attentions = [], []
        for number, layer in enumerate(self._layers):

            def attend(q: Any, k: Any, v: Any, number: int = number) -> Any:
                return self._attend(q, *cache.append(number, k, v), bias, self.self_attention)

            def attend_memory(q: Any, number: int = number) -> Any:
                return self._attend(q, *self._cross[number], self._cross_bias, self.cross_attentions)

            x = layer(x, cache.sentences, attend, attend_memory if self._cross else None)
        if new > 1:
            x = x.reshape(self.rows, new, -1)[:, -1]
        return self._project(x if self._norm is None else normalise(self._norm, x))

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        sentences = self._cache.select(rows, width)
        self.rows = len(rows)
        length = self._cross[0][0].shape[2] if self._cross else 0
        self._cross = [
            (keep_rows(key, sentences, length)[: len(sentences)], keep_rows(value, sentences, length)[: len(sentences)])
            for key, value in self._cross
        ]
        if self._cross_bias is not None:
            self._cross_bias = self._cross_bias[self._xp.asarray(sentences)]

    def _attend(self, q: Any, keys: Any, values: Any, bias: Any, kept: list[Any]) -> Any:
        scores = q @ keys.swapaxes(-1, -2)
        if scores.dtype == np.float16:
            scores = scores.astype(np.float32)
        if bias is not None:
            scores += bias
        scores -= scores.max(axis=-1, keepdims=True)
        weights = self._xp.exp(scores, out=scores)
        total = weights.sum(axis=-1, keepdims=True)
        if self.keep_attention:
            kept.append(self._by_row(weights / total, own=kept is self.self_attention))
        out = weights.astype(values.dtype, copy=False) @ values
        out /= total
        return out

    def _by_row(self, weights: Any, own: bool) -> Any:
        """(sentences, heads, width or new, keys) -> (rows, heads, new, keys), of the sequences' own keys alone."""
        width, allowed = self._cache.width, self._cache.allowed
        if width > 1:
            weights = weights.swapaxes(1, 2).reshape(self.rows, weights.shape[1], 1, weights.shape[3])
        if not own or allowed is None:
            return weights
        places = np.nonzero(allowed.reshape(self.rows, -1))[1].reshape(self.rows, 1, 1, -1)
        return self._xp.take_along_axis(weights, self._xp.asarray(places), axis=3)

    def _causal(self, new: int) -> Any:
        """The bias of a chunk of new tokens, each of which sees what stands before it."""
        before = self._cache.length - new
        return self._minus_infinity_unless(np.tri(new, before + new, before, dtype=bool))

    def _minus_infinity_unless(self, allowed: np.ndarray) -> Any:
        dtype = np.promote_types(self._output.weight.dtype, np.float32)
        return self._xp.asarray(np.where(allowed, 0, -np.inf).astype(dtype))

    def _project(self, x: Any) -> Any:
        """Logits, in the same memory at each step: fresh megabytes would cost page faults."""
        if self._logits is None or len(self._logits) < len(x):
            self._logits = self._xp.empty((len(x), self._output.out_features), x.dtype)
        logits = self._logits[: len(x)]
        self._xp.matmul(x, self._output.weight.data.T, out=logits)
        if self._output.bias is not None:
            logits += self._output.bias.data
        return logits

