"""Blocked attention: the readable text of FlashAttention-2 (Dao 2023, arXiv 2307.08691, algorithms 1 and 2).

The weights are never held as a whole. For each block of queries the keys go by in blocks, and three running values are
kept for each query: the largest score m so far, the sum l of exp(score - m), and the output o summed with the same
weights. A block with a larger score rescales what was summed before it:

    m' = max(m, max_j s_j)               p_j = exp(s_j - m')
    l' = exp(m - m') l + sum_j p_j       o' = exp(m - m') o + sum_j p_j v_j

At the end the output is o / l. Besides it only the log-sum-exp L = m + log(l) is held, one number for each query, and
the backward pass forms each block of weights again as P = exp(S - L). Memory grows with the length, not its square.
The kernels in `autograd/kernels` are the same algorithm on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, unbroadcast
from ..random import Generator

BLOCK_LENGTH = 256  # queries and keys of a block: its matrix products are large enough to run at full pace
BLOCK_SCORES = 1 << 19  # scores in work at a time: few enough to stay in the cache

# A block of (batch, heads, query, key).
Place = tuple[slice, Any, slice, slice]


@dataclass(frozen=True)
class Conditions:
    """Which query may attend to which key, and what their distance adds to the score.

    Query i stands at position i + key_length - query_length: the last query and the last key stand together.
    """

    query_length: int
    key_length: int
    mask: Any = None  # boolean, up to four axes, each of full length or 1
    key_lengths: Any = None  # (batch,)
    causal: bool = False
    window: int | None = None
    slopes: Any = None  # (heads,): ALiBi adds -slope |distance|

    def can_skip(self, place: Place) -> bool:
        """True if no query of the block may attend to any of its keys."""
        rows, _, _, k = place
        nearest, farthest = self._distances(place)
        return bool(
            (self.causal and farthest < 0)
            or (self.window is not None and (nearest > self.window or farthest < -self.window))
            or (self.key_lengths is not None and k.start >= self.key_lengths[rows].max())
            or (self.mask is not None and not part(self.mask, place).any())
        )

    def added(self, place: Place, dtype: Any, xp: Any) -> Any:
        """What is added to a block of scores (batch, heads, key, query): ALiBi, and -inf where it may not attend.

        None if that is nothing, as in all blocks of a causal mask but those on the diagonal.
        """
        rows, heads, q, k = place
        nearest, farthest = self._distances(place)
        edge = self.causal and nearest < 0
        border = self.window is not None and (farthest > self.window or nearest < -self.window)
        terms, forbidden = [], []
        if edge or border or self.slopes is not None:
            position = xp.arange(q.start, q.stop) + (self.key_length - self.query_length)
            distance = position - xp.arange(k.start, k.stop)[:, None]
            if self.slopes is not None:
                terms.append(-self.slopes[heads, None, None].astype(dtype) * abs(distance).astype(dtype))
            if edge:
                forbidden.append(distance < 0)
            if border:
                forbidden.append(abs(distance) > self.window)
        if self.key_lengths is not None and k.stop > self.key_lengths[rows].min():
            forbidden.append((xp.arange(k.start, k.stop) >= self.key_lengths[rows, None])[:, None, :, None])
        if self.mask is not None:
            forbidden.append(~part(self.mask, place).swapaxes(-1, -2))
        terms += [xp.where(where, dtype.type(-np.inf), dtype.type(0)) for where in forbidden]
        return sum(terms[1:], start=terms[0]) if terms else None

    def _distances(self, place: Place) -> tuple[int, int]:
        """The least and the greatest distance from a query of the block back to a key."""
        _, _, q, k = place
        shift = self.key_length - self.query_length
        return q.start + shift - (k.stop - 1), q.stop - 1 + shift - k.start


def part(array: Any, place: Place) -> Any:
    """The block of an array that broadcasts to (batch, heads, query, key), its axes of length 1 left as they are."""
    cuts = zip(array.shape, place[4 - array.ndim :], strict=True)
    return array[tuple(slice(None) if size == 1 else cut for size, cut in cuts)]


def blocks(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def fitted(room: Any, shape: tuple[int, ...]) -> Any:
    """The corner of `room` that has this shape."""
    return room[tuple(slice(side) for side in shape)]


class BlockedAttention(Function):
    """One call: `conditions` say who may attend to whom, `block_size` how long the blocks are.

    Some rows of the batch are worked on together, with all their heads. Scores stand as (batch, heads, key, query):
    reducing over the second to last axis is many times quicker. Sums are in float32 at least.
    """

    def __init__(self, conditions: Conditions, dropout: float, scale: float, generator: Generator, block_size: Any):
        self.conditions, self.dropout, self.scale, self.block_size = conditions, dropout, scale, block_size
        # One number of the caller's stream; from it and its place each block draws its dropout, and can draw it again.
        self.seed = int(generator.numpy.integers(1 << 63)) if dropout else 0

    def forward(self, query, key, value, bias=None):
        """Algorithm 1: blocks of queries outside, of keys inside."""
        xp = array_module(query)
        self.save(query, key, value, *(() if bias is None else (bias,)))
        self.lengths = query.shape[2], key.shape[2]
        self.wide = np.promote_types(query.dtype, np.float32)  # the dtype of the sums
        batch, heads, queries, _ = query.shape
        out = xp.empty((batch, heads, queries, value.shape[3]), dtype=query.dtype)
        log_sum_exp = xp.empty((batch, heads, 1, queries), dtype=self.wide)
        size, parts = self.parts(batch, heads)
        room = self.room(size, parts[0], heads, xp) if parts else None
        for rows in parts:
            for q in blocks(queries, size):
                scaled = self.widened(query, rows, q) * self.wide.type(self.scale)
                m = xp.full((*scaled.shape[:2], 1, scaled.shape[2]), -np.inf, dtype=self.wide)
                total = xp.zeros_like(m)
                o = xp.zeros(out[rows, :, q].shape, dtype=self.wide)
                for place in self.visible([(rows, slice(None), q, k) for k in blocks(key.shape[2], size)]):
                    s = self.scores(place, scaled, room)
                    new_m = xp.maximum(m, s.max(axis=-2, keepdims=True))
                    base = xp.where(new_m == -np.inf, 0, new_m)  # nothing to attend to so far: the weights are zero
                    s -= base
                    p = xp.exp(s, out=s)
                    rescale = xp.exp(m - base)
                    total *= rescale
                    total += p.sum(axis=-2, keepdims=True)
                    if self.dropout:
                        p *= self.keep_block(place, p)
                    o *= rescale.swapaxes(-1, -2)
                    o += p.swapaxes(-1, -2) @ self.widened(value, rows, place[3])
                    m = new_m
                total = xp.where(total == 0, 1, total)
                o /= total.swapaxes(-1, -2)
                out[rows, :, q] = o
                log_sum_exp[rows, :, :, q] = m + xp.log(total)
        self.keep(out, log_sum_exp)
        return out

    def backward(self, g):
        """Algorithm 2: blocks of keys outside, of queries inside; the weights are formed again from the log-sum-exp.

        With D the dropout, O the output and delta = rowsum(g O): dV = (P D)^T g; dS = P (D (g V^T) - delta);
        dQ = dS K scale; dK = dS^T Q scale; the bias takes dS.
        """
        query, key, value, *others = self.saved
        xp = array_module(g)
        d_query, d_key, d_value = (xp.zeros(x.shape, dtype=self.wide) for x in (query, key, value))
        d_bias = [xp.zeros(bias.shape, dtype=self.wide) for bias in others if self.needs[3]]
        size, parts = self.parts(*query.shape[:2])
        room = [self.room(size, parts[0], query.shape[1], xp) for _ in range(2 if parts else 0)]
        for rows in parts:
            for k in blocks(key.shape[2], size):
                key_block, value_block = self.widened(key, rows, k), self.widened(value, rows, k)
                for place in self.visible([(rows, slice(None), q, k) for q in blocks(query.shape[2], size)]):
                    q = place[2]
                    scaled = self.widened(query, rows, q) * self.wide.type(self.scale)
                    g_block = self.widened(g, rows, q)
                    p = self.weights_block(place, scaled, room[0])
                    ds = xp.matmul(value_block, g_block.swapaxes(-1, -2), out=fitted(room[1], p.shape))
                    p_dropped = p
                    if self.dropout:
                        keep = self.keep_block(place, p)
                        ds *= keep
                        p_dropped = p * keep
                    d_value[rows, :, k] += p_dropped @ g_block
                    ds -= (g_block * self.kept[0][rows, :, q]).sum(axis=-1)[:, :, None]
                    ds *= p
                    d_query[rows, :, q] += ds.swapaxes(-1, -2) @ key_block
                    d_key[rows, :, k] += ds @ scaled
                    for total in d_bias:
                        target = part(total, place)
                        target += unbroadcast(ds.swapaxes(-1, -2), target.shape)
        d_query *= self.wide.type(self.scale)
        found = (d_query, d_key, d_value, *(d_bias or [None] * len(others)))
        return tuple(None if d is None else d.astype(query.dtype, copy=False) for d in found)

    def weights(self, heads: Any) -> Any:
        """The weights of some heads before dropout, (batch, len(heads), query, key), from the log-sum-exp."""
        query = self.saved[0]
        rows, q, k = (slice(0, n) for n in (query.shape[0], *self.lengths))
        scaled = query[:, heads].astype(self.wide) * self.wide.type(self.scale)
        room = array_module(query).empty((*scaled.shape[:2], k.stop, q.stop), dtype=self.wide)
        return self.weights_block((rows, heads, q, k), scaled, room).swapaxes(-1, -2).astype(query.dtype)

    def composed(self, query, key, value, bias=None):
        from .attention import alibi_bias, attention_composed, attention_mask  # that file imports this one

        conditions, keep = self.conditions, None
        if conditions.slopes is not None:
            alibi = alibi_bias(conditions.slopes, *self.lengths, query.dtype, array_module(query.data))
            bias = alibi if bias is None else bias + alibi
        if self.dropout:
            keep = self.keep_whole((*query.shape[:2], *self.lengths), query.dtype)
        mask = attention_mask(
            *self.lengths,
            mask=conditions.mask,
            key_lengths=conditions.key_lengths,
            causal=conditions.causal,
            window=conditions.window,
            xp=array_module(query.data),
        )
        return attention_composed(query, key, value, bias, mask=mask, scale=self.scale, keep=keep)[0]

    # -- blocks ----------------------------------------------------------------------------------------------------

    def parts(self, batch: int, heads: int) -> tuple[int, list[slice]]:
        """The length of a block, and the batch rows to work on together."""
        longest = max(*self.lengths, 1)
        size = min(longest, self.block_size or BLOCK_LENGTH)
        while self.block_size is None and heads * size * size > BLOCK_SCORES and size > BLOCK_LENGTH // 4:
            size = -(-size // 2)
        together = max(1, BLOCK_SCORES // max(1, heads * size * size))
        return size, blocks(batch, min(together, max(batch, 1)))

    def room(self, size: int, rows: slice, heads: int, xp: Any) -> Any:
        """Memory for a block of scores, used again for each."""
        queries, keys = self.lengths
        return xp.empty((rows.stop - rows.start, heads, min(size, keys), min(size, queries)), dtype=self.wide)

    def visible(self, places: list[Place]) -> list[Place]:
        return [place for place in places if not self.conditions.can_skip(place)]

    def widened(self, x: Any, rows: slice, where: slice) -> Any:
        return x[rows, :, where].astype(self.wide, copy=False)

    def scores(self, place: Place, scaled: Any, room: Any) -> Any:
        """S^T for one block, -inf where a query may not attend; written into `room`."""
        _, key, _, *others = self.saved
        rows, heads, _, k = place
        key_block = key[rows, heads, k].astype(self.wide, copy=False)
        s = fitted(room, (*scaled.shape[:2], key_block.shape[2], scaled.shape[2]))
        xp = array_module(scaled)
        xp.matmul(key_block, scaled.swapaxes(-1, -2), out=s)
        for bias in others:
            s += part(bias, place).swapaxes(-1, -2)
        added = self.conditions.added(place, self.wide, xp)
        if added is not None:
            s += added
        return s

    def weights_block(self, place: Place, scaled: Any, room: Any) -> Any:
        """P^T = exp(S^T - L) for one block."""
        xp = array_module(scaled)
        s = self.scores(place, scaled, room)
        total = self.log_sum_exp()[place[0], place[1], :, place[2]]
        s -= xp.where(total == -np.inf, 0, total)
        return xp.exp(s, out=s)

    def log_sum_exp(self) -> Any:
        """(batch, heads, 1, query)."""
        return self.kept[1]

    def keep_whole(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Dropout's factors of all blocks, (batch, heads, query, key)."""
        size, parts = self.parts(*shape[:2])
        keep = np.zeros(shape, dtype=dtype)
        for rows, q, k in product(parts, blocks(shape[2], size), blocks(shape[3], size)):
            factors = keep[rows, :, q, k]
            factors[...] = self.keep_block((rows, slice(None), q, k), factors.swapaxes(-1, -2)).swapaxes(-1, -2)
        return keep

    def keep_block(self, place: Place, p: Any) -> Any:
        """Dropout's factors for one block: 0 or 1 / P(kept)."""
        rows, _, q, k = place
        where = (rows.start * self.conditions.query_length + q.start) * self.conditions.key_length + k.start
        keep, factor = Generator((self.seed << 64) + where).keep_mask(p.shape, self.dropout)
        return array_module(p).asarray(keep) * self.wide.type(factor)
