"""Blocked attention: FlashAttention-2 in readable NumPy (Dao 2023, arXiv 2307.08691, algorithms 1 and 2).

Only blocks of the attention weights are in memory. For each block of queries the keys are processed block by block,
with three running values for each query: the largest score m so far, the sum l of exp(score - m), and o, the sum of the
values v weighted by exp(score - m). If a block contains a larger score, the sums of earlier blocks are rescaled:

    m' = max(m, max_j s_j)               p_j = exp(s_j - m')
    l' = exp(m - m') l + sum_j p_j       o' = exp(m - m') o + sum_j p_j v_j

After the last block, the output is o / l. The op keeps only the output, m and l, two numbers for each query. (Their
log-sum-exp m + log(l) would be one number, but beside a large m it loses the digits of log(l).) The backward pass
recomputes each block of weights as P = exp(S - m) / l. Memory grows with the length, not with its square: at a length
of 4,096 blocked attention needs less than an eighth of the memory of all weights
(tests/autograd/ops/test_attention_methods.py). This implementation replaces `attention_plain` of attention.py for long
sequences, on any device; the kernels in `autograd/kernels` run the same algorithm on a GPU.
"""

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from ..backend import array_module
from ..quick import parallel_for, slices
from ..random import ReplayedMask, keep_mask
from ..sums import unbroadcast
from ..tensor import Tensor, array_of
from .attention import MaskSpec, attention_plain, largest_score
from .heads import empty_heads, empty_like_heads
from .registry import QuickImplementation, implements

BLOCKS_FROM = 1 << 18  # scores per head from which on method "auto" takes blocks
BLOCK_LENGTH = 256  # queries and keys of a block: its matrix products are large enough to run at full speed
BLOCK_SCORES = 1 << 18  # scores that a thread works on at a time: few enough to stay in its cache
TOO_FEW_SCORES = f"blocks pay off from {BLOCKS_FROM:,} scores per head on"
MIN_GROUPS = 4  # groups of heads, so that several threads have work

# A group: slices of the axes (batch, heads), whose heads are processed together. A block: slices of all four axes.
Group = tuple[slice, slice]
Block = tuple[slice, Any, slice, slice]


def can_skip(mask_spec: MaskSpec, block: Block) -> bool:
    """Return True if no query of the block may attend to its keys, without regard to masks and lengths on a device."""
    rows, _, _, k = block
    low, high = _distances(mask_spec, block)
    return bool(
        (mask_spec.causal and high < 0)
        or (mask_spec.window is not None and (low > mask_spec.window or high < -mask_spec.window))
        or (isinstance(mask_spec.key_lengths, np.ndarray) and (mask_spec.key_lengths[rows] <= k.start).all())
        or (isinstance(mask_spec.mask, np.ndarray) and not part(mask_spec.mask, block).any())
    )


def change_scores(mask_spec: MaskSpec, block: Block, scores: Any, xp: Any) -> None:
    """Add ALiBi's terms to a block of scores (batch, heads, key, query), and set -inf where a query may not attend."""
    rows, heads, q, k = block
    low, high = _distances(mask_spec, block)
    edge = mask_spec.causal and low < 0
    border = mask_spec.window is not None and (high > mask_spec.window or low < -mask_spec.window)
    allowed, dtype = [], scores.dtype
    if edge or border or mask_spec.slopes is not None:
        position = xp.arange(q.start, q.stop) + (mask_spec.key_length - mask_spec.query_length)
        distance = position - xp.arange(k.start, k.stop)[:, None]
        if mask_spec.slopes is not None:
            scores -= mask_spec.slopes[heads, None, None].astype(dtype) * abs(distance).astype(dtype)
        if edge:
            allowed.append(distance >= 0)
        if border:
            allowed.append(abs(distance) <= mask_spec.window)
    lengths = mask_spec.key_lengths
    if lengths is not None and not (isinstance(lengths, np.ndarray) and (lengths[rows] >= k.stop).all()):
        allowed.append((xp.arange(k.start, k.stop) < lengths[rows, None])[:, None, :, None])
    if mask_spec.mask is not None:
        allowed.append(part(mask_spec.mask, block).swapaxes(-1, -2))
    if allowed:
        xp.fmin(scores, largest_score(reduce(xp.logical_and, allowed), dtype, xp), out=scores)


def _distances(mask_spec: MaskSpec, block: Block) -> tuple[int, int]:
    """Return the minimum and the maximum of (query position - key position) in the block."""
    _, _, q, k = block
    shift = mask_spec.key_length - mask_spec.query_length
    return q.start + shift - (k.stop - 1), q.stop - 1 + shift - k.start


def part(array: Any, block: Block) -> Any:
    """Return the block's part of an array that broadcasts to (batch, heads, query, key); axes of length 1 are whole."""
    cuts = zip(array.shape, block[4 - array.ndim :], strict=True)
    return array[tuple(slice(None) if size == 1 else cut for size, cut in cuts)]


def fitted(buffer: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of `buffer` that starts at the buffer's first element and has this shape."""
    return buffer[tuple(slice(side) for side in shape)]


def long(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the method is "blocked", or "auto" for a long sequence."""
    if options["method"] != "auto":
        return None if options["method"] == "blocked" else f"method {options['method']!r} was requested"
    if arrays[0].shape[2] * arrays[1].shape[2] < BLOCKS_FROM:
        return TOO_FEW_SCORES
    return "it gives the weights without a gradient" if options["return_weights"] is True else None


@implements(attention_plain, "blocked", long)
class BlockedAttention(QuickImplementation):
    """Blocked attention with the masks `mask_spec` and at most `block_size` queries and keys in a block. Each thread
    processes one group of heads at a time. Scores have the layout (batch, heads, key, query), because NumPy reduces
    over the second to last axis many times faster than over the last axis. Sums are float32 or wider.
    """

    #: (block, m, l, o) -> None: called after each block that is not skipped, in the thread that processed it, with the
    #: running values of its queries. The arrays change afterwards: copy what is needed later.
    observe: Callable[[Block, Any, Any, Any], None] | None = None

    def __init__(self, **options):
        super().__init__(**options)
        # Drawn from the caller's generator. Each block seeds its dropout mask with it and with the block's position, so
        # that the backward pass can draw the same mask again.
        self.seed = int(self.generator.numpy.integers(1 << 63)) if self.dropout else 0

    def __call__(self, *operands):
        """Return the output and, if weights are requested, the weights, which have no gradient."""
        heads, self._options = self.return_weights, {**self._options, "return_weights": False}
        out = super().__call__(*operands)
        return out if heads is False else (out, Tensor(self.weights(slice(None) if heads is True else list(heads))))

    def forward(self, query, key, value, bias=None):
        """Run algorithm 1: the outer loop runs over blocks of queries, the inner one over blocks of keys."""
        xp = array_module(query)
        self.save(query, key, value, *(() if bias is None else (bias,)))
        self.lengths = query.shape[2], key.shape[2]
        self.wide = np.promote_types(query.dtype, np.float32)  # the dtype of the sums
        batch, heads, queries, _ = query.shape
        (out,) = empty_heads(xp, (batch, heads, queries, value.shape[3]), query.dtype)
        largest, sums = xp.empty((2, batch, heads, 1, queries), dtype=self.wide)
        size, groups = self.groups(batch, heads)

        def work(group, buffer):
            for q in slices(0, queries, size):
                here = (*group, q)
                scaled = self.widened(query, here) * self.wide.type(self.scale)
                m = xp.full((*scaled.shape[:2], 1, scaled.shape[2]), -np.inf, dtype=self.wide)
                total = xp.zeros_like(m)
                o = xp.zeros((*scaled.shape[:3], value.shape[3]), dtype=self.wide)
                factor = 1.0
                for block in self.visible([(*here, k) for k in slices(0, key.shape[2], size)]):
                    s = self.scores(block, scaled, buffer)
                    new_m = xp.maximum(m, s.max(axis=-2, keepdims=True))
                    base = xp.where(new_m == -np.inf, 0, new_m)  # -inf: no key allowed so far, all weights are zero
                    s -= base
                    p = xp.exp(s, out=s)
                    rescale = xp.exp(m - base)
                    total *= rescale
                    total += p.sum(axis=-2, keepdims=True)
                    if self.dropout:
                        keep_mask, factor = self.keep_block(block, p)
                        p *= keep_mask
                    o *= rescale.swapaxes(-1, -2)
                    o += p.swapaxes(-1, -2) @ self.widened(value, (*group, block[3]))
                    m = new_m
                    if self.observe is not None:
                        self.observe(block, m, total, o)
                total = xp.where(total == 0, 1, total)
                o *= factor / total.swapaxes(-1, -2)
                out[here] = o
                largest[(*group, slice(None), q)] = xp.where(m == -np.inf, 0, m)
                sums[(*group, slice(None), q)] = total

        self.each(groups, size, work)
        self.keep(out, largest, sums)
        return out

    def backward(self, g):
        """Run algorithm 2: the outer loop runs over blocks of keys, the inner one over blocks of queries.

        With the weights P = E / l, E = exp(S - m), dropout's factors F, the output O and delta = rowsum(g * O):
        dV = (P * F)^T g, dS = P * (F * (g V^T) - delta), dQ = dS K scale, dK = dS^T Q scale, dbias = dS. Each l divides
        its row of g instead of its row of E. `e` and `ds` are transposed.
        """
        query, key, value, *others = self.saved
        xp, (out, largest, sums) = array_module(g), self.kept
        d_query, d_key, d_value = empty_like_heads(xp, query, key, value, self.wide)
        d_bias = [xp.zeros(bias.shape, dtype=self.wide) for bias in others if self.needs[3]]
        size, groups = self.groups(*query.shape[:2])
        scale, every = self.wide.type(self.scale), slice(None)

        def work(group, buffer, second_buffer):
            scaled = self.widened(query, (*group, every)) * scale
            whole_g = self.widened(g, (*group, every)) / sums[group].swapaxes(-1, -2)
            delta = (whole_g * out[group]).sum(axis=-1)[:, :, None]
            for d in (d_query, d_key, d_value):
                d[group] = 0
            for k in slices(0, key.shape[2], size):
                key_block, value_block = (self.widened(x, (*group, k)) for x in (key, value))
                for block in self.visible([(*group, q, k) for q in slices(0, query.shape[2], size)]):
                    q = block[2]
                    e, g_block = self.scores(block, scaled[:, :, q], buffer), whole_g[:, :, q]
                    e -= largest[(*group, every, q)]
                    xp.exp(e, out=e)
                    if self.dropout:  # the factor multiplies g, which is smaller than the weights
                        keep_mask, factor = self.keep_block(block, e)
                        g_block = g_block * self.wide.type(factor)
                    ds = xp.matmul(value_block, g_block.swapaxes(-1, -2), out=fitted(second_buffer, e.shape))
                    if self.dropout:
                        ds *= keep_mask
                    ds -= delta[:, :, :, q]
                    ds *= e
                    if self.dropout:
                        e *= keep_mask
                    d_value[(*group, k)] += e @ g_block
                    d_query[(*group, q)] += ds.swapaxes(-1, -2) @ key_block
                    d_key[(*group, k)] += ds @ scaled[:, :, q]
                    for d in d_bias:
                        target = part(d, block)
                        target += unbroadcast(ds.swapaxes(-1, -2), target.shape)
            d_query[group] *= scale

        self.each(groups, size, work, buffers=2, threads=not d_bias)  # heads may share an element of the bias
        found = (d_query, d_key, d_value, *(d_bias or [None] * len(others)))
        return tuple(None if d is None else d.astype(query.dtype, copy=False) for d in found)

    def weights(self, heads: Any) -> Any:
        """Compute the weights of some heads before dropout, (batch, len(heads), query, key)."""
        query, xp = self.saved[0], array_module(self.saved[0])
        rows, q, k = (slice(0, n) for n in (query.shape[0], *self.lengths))
        scaled = query[:, heads].astype(self.wide) * self.wide.type(self.scale)
        e = self.scores((rows, heads, q, k), scaled, xp.empty((*scaled.shape[:2], k.stop, q.stop), dtype=self.wide))
        m = e.max(axis=-2, keepdims=True) if k.stop else xp.zeros((), self.wide)
        e -= xp.where(m == -np.inf, 0, m)
        total = xp.exp(e, out=e).sum(axis=-2, keepdims=True)
        e /= xp.where(total == 0, 1, total)
        return e.swapaxes(-1, -2).astype(query.dtype)

    def dropout_mask(self) -> ReplayedMask:
        """Return the dropout mask of the whole call, for the plain implementation."""
        if not self.dropout:
            return ReplayedMask(None, 1.0)
        query = array_of(self.saved[0])
        whole = self.keep_whole((*query.shape[:2], *self.lengths), query.dtype)
        return ReplayedMask(array_module(query).asarray(whole.transpose(0, 3, 1, 2)), 1.0)

    # -- blocks ----------------------------------------------------------------------------------------------------

    def groups(self, batch: int, heads: int) -> tuple[int, list[Group]]:
        """Return the length of a block, and the groups of heads to process together.
        A group consists of the heads of several batch rows, or of some heads of one batch row.
        """
        size = min(max(*self.lengths, 1), self.block_size or BLOCK_LENGTH)
        together = max(1, min(BLOCK_SCORES // size**2, batch * heads // MIN_GROUPS))
        rows, some = slices(0, batch, max(1, together // max(heads, 1))), slices(0, heads, min(together, max(heads, 1)))
        return size, list(product(rows, some))

    def each(self, groups: list[Group], size: int, work: Any, buffers: int = 1, threads: bool = True) -> None:
        """Call work(group, *buffers) for each group, on several threads. A buffer has room for the scores of a block.
        The groups, and therefore the results, don't depend on the number of threads.
        """
        if not groups:
            return
        xp, (queries, keys) = array_module(self.saved[0]), self.lengths
        rows, heads = (side.stop - side.start for side in groups[0])

        def some(start, stop):
            own = [xp.empty((rows, heads, min(size, keys), min(size, queries)), self.wide) for _ in range(buffers)]
            for group in groups[start:stop]:
                work(group, *own)

        if threads:
            parallel_for(xp, len(groups), some, cost=4.0 * rows * heads * queries * keys)
        else:
            some(0, len(groups))

    def visible(self, candidates: list[Block]) -> list[Block]:
        """Return those of the blocks that can't be skipped."""
        return [block for block in candidates if not can_skip(self.mask_spec, block)]

    def widened(self, x: Any, index: tuple[slice, ...]) -> Any:
        return x[index].astype(self.wide, copy=False)

    def scores(self, block: Block, scaled: Any, buffer: Any) -> Any:
        """Write S^T of one block, (batch, heads, key, query), into `buffer`, with -inf where a query may not attend."""
        _, key, _, *others = self.saved
        rows, heads, _, k = block
        key_block = key[rows, heads, k].astype(self.wide, copy=False)
        s = fitted(buffer, (*scaled.shape[:2], key_block.shape[2], scaled.shape[2]))
        xp = array_module(scaled)
        xp.matmul(key_block, scaled.swapaxes(-1, -2), out=s)
        for bias in others:
            s += part(bias, block).swapaxes(-1, -2)
        change_scores(self.mask_spec, block, s, xp)
        return s

    def keep_whole(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the dropout factors of all blocks, (batch, heads, query, key)."""
        size, groups = self.groups(*shape[:2])
        whole = np.zeros(shape, dtype=dtype)
        for group, q, k in product(groups, slices(0, shape[2], size), slices(0, shape[3], size)):
            block = (*group, q, k)
            transposed = whole[block].swapaxes(-1, -2)
            keep_mask, factor = self.keep_block(block, transposed)
            transposed[...] = keep_mask * whole.dtype.type(factor)
        return whole

    def keep_block(self, block: Block, p: Any) -> tuple[Any, float]:
        """Return the dropout mask of one block, shaped like its weights `p`, and the factor of the other weights."""
        rows, heads, q, k = block
        position = ((rows.start * self.saved[0].shape[1] + heads.start) * self.lengths[0] + q.start) * self.lengths[1]
        stream = np.random.SFC64((self.seed << 64) + position + k.start)
        mask, factor = keep_mask([stream], p.shape, self.dropout)
        return array_module(p).asarray(mask), factor
