"""Scaled dot-product attention.

softmax(Q K^T scale + bias) V with positions that may not be attended to at -infinity. (Vaswani et al. 2017,
arXiv 1706.03762, equation 1.) `StandardAttention` forms all weights. `attention_composed.py` holds the same text in
small ops, `attention_blocked.py` the kind for long sequences, `attention_fused.py` that for GPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, unbroadcast
from ..parallel import parallel_for, pieces
from ..random import Generator, default_generator
from ..tensor import Tensor, array_of
from .attention_blocked import BlockedAttention, Conditions
from .attention_composed import alibi_bias, attention_composed, attention_mask, with_four_axes
from .attention_fused import FusedAttention, why_not_fused
from .elementwise import promoted
from .heads import empty_heads, empty_like_heads
from .reduction import row_dots
from .registry import declare
from .shape import broadcast_to, reshape

METHODS = ("auto", "standard", "blocked", "fused")
# From this many scores a head on, "auto" takes blocks.
LONG = 1 << 18


class StandardAttention(Function):
    """Weights are held as (batch, key, head, query): sums over the keys then go along rows of heads x queries numbers,
    many times quicker than along rows of one head's queries, which are few.

    With A the weights after softmax, D those after dropout, O the output and G the incoming gradient: dV = D^T G; with
    dA the gradient at A, dS = A (dA - rowsum(dA A)), where rowsum(dA A) = rowsum(G O); dQ = dS K scale; dK = dS^T Q
    scale; the bias takes dS. (Dao et al. 2022, arXiv 2205.14135, appendix B.2, for the row sums.)

    What is held is f A with dropout's factor f and mask M, so that D = f A M: with X = (G V^T) M, dA = f X, and dS =
    f A (X - rowsum(G O) / f). A few batch rows are worked on at a time, from scores to output: they stay in the cache.
    """

    def __init__(self, mask, dropout, scale, generator):
        self.mask, self.dropout, self.scale, self.generator = mask, dropout, scale, generator

    def forward(self, query, key, value, bias=None):
        self.save(query, key, value, *(() if bias is None else (bias,)))
        xp = array_module(query)
        batch, heads, queries, _ = query.shape
        shape = (batch, key.shape[2], heads, queries)
        wide = _wide(np.result_type(query.dtype, key.dtype))
        weights = xp.empty(shape, query.dtype)
        out = empty_heads(xp, (batch, heads, queries, value.shape[3]), np.result_type(query.dtype, value.dtype))[0]
        keep_mask, factor = None, 1.0
        if self.dropout:
            keep_mask, factor = self.generator.keep_mask(shape, self.dropout)
            keep_mask = xp.asarray(keep_mask)
        full = batch, heads, queries, key.shape[2]
        added = [] if bias is None else [keys_first(with_four_axes("bias", bias.astype(wide, copy=False), full))]
        if self.mask is not None:
            added.append(keys_first(xp.where(self.mask, 0, -np.inf).astype(wide)))

        def part(start, stop):
            for rows in pieces(start, stop, weights[:1].size):
                scores = weights[rows] if wide == weights.dtype else xp.empty(weights[rows].shape, wide)
                q, k = query[rows].astype(wide, copy=False), key[rows].astype(wide, copy=False)
                xp.matmul(k, q.swapaxes(-1, -2), out=by_head(scores))
                scores *= wide.type(self.scale)
                for term in added:
                    scores += term if len(term) == 1 else term[rows]
                top = scores.max(axis=1, keepdims=True) if shape[1] else 0
                # Where nothing may be attended to the maximum is -inf: the weights and the output are zero there.
                scores -= xp.where(xp.isfinite(top), top, 0) if added else top
                xp.exp(scores, out=scores)
                total = scores.sum(axis=1, keepdims=True)
                scores *= wide.type(factor) / xp.where(total == 0, 1, total)
                if wide != weights.dtype:
                    weights[rows] = scores
                dropped = weights[rows] if keep_mask is None else weights[rows] * keep_mask[rows]
                xp.matmul(by_head(dropped).swapaxes(-1, -2), value[rows], out=out[rows])

        parallel_for(xp, batch, part, cost=4 * weights[:1].size)
        self.keep(weights, keep_mask, factor, out)
        return out

    def backward(self, g):
        query, key, value = self.saved[:3]
        weights, keep_mask, factor, out = self.kept
        xp, wide = array_module(g), _wide(weights.dtype)
        d_query, d_key, d_value = empty_like_heads(xp, query, key, value, query.dtype)
        all_d_scores = xp.empty(weights.shape, wide) if len(self.saved) == 4 and self.needs[3] else None
        divisor = wide.type(factor or 1.0)  # all is zero where everything is dropped

        def part(start, stop):
            for rows in pieces(start, stop, weights[:1].size):
                q, k, v, gradient = (x[rows].astype(wide, copy=False) for x in (query, key, value, g))
                dropped = weights[rows].astype(wide, copy=False)
                dropped = dropped if keep_mask is None else dropped * keep_mask[rows]
                _multiply(xp, by_head(dropped), gradient, d_value[rows])
                d_scores = dropped if keep_mask is not None else xp.empty(dropped.shape, wide)
                xp.matmul(v, gradient.swapaxes(-1, -2), out=by_head(d_scores))
                if keep_mask is not None:
                    d_scores *= keep_mask[rows]
                d_scores -= (row_dots(gradient, out[rows].astype(wide, copy=False)) / divisor)[:, None]
                d_scores *= weights[rows]
                if all_d_scores is not None:
                    all_d_scores[rows] = d_scores
                d_scores *= wide.type(self.scale)
                _multiply(xp, by_head(d_scores).swapaxes(-1, -2), k, d_query[rows])
                _multiply(xp, by_head(d_scores), q, d_key[rows])

        parallel_for(xp, len(weights), part, cost=6 * weights[:1].size)
        d_bias = None
        if all_d_scores is not None:
            d_bias = unbroadcast(by_head(all_d_scores).swapaxes(-1, -2), self.saved[3].shape)
        return (d_query, d_key, d_value, d_bias)[: len(self.saved)]

    def composed(self, query, key, value, bias=None):
        _, keep_mask, factor, _ = self.kept
        keep_mask = None if keep_mask is None else by_head(keep_mask).swapaxes(-1, -2) * query.dtype.type(factor)
        return attention_composed(query, key, value, bias, mask=self.mask, scale=self.scale, keep_mask=keep_mask)[0]


def keys_first(array: Any) -> Any:
    """(batch, head, query, key) seen as (batch, key, head, query)."""
    return array.transpose(0, 3, 1, 2)


def by_head(array: Any) -> Any:
    """(batch, key, head, query) seen as (batch, head, key, query)."""
    return array.swapaxes(1, 2)


def _multiply(xp: Any, x: Any, y: Any, out: Any) -> None:
    """out = x @ y, rounded to the dtype of `out`."""
    if out.dtype == x.dtype:
        xp.matmul(x, y, out=out)
    else:
        out[...] = xp.matmul(x, y)


def _wide(dtype: Any) -> Any:
    """What scores are computed in: float32 for float16."""
    return np.dtype(np.float32) if dtype == np.float16 else np.dtype(dtype)


def _attention_reference(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    mask: Any = None,
    key_lengths: Any = None,
    causal: bool = False,
    window: int | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    dropout: float = 0.0,
    scale: float | None = None,
    method: str = "auto",
    block_size: int | None = None,
    deterministic: bool = False,
    generator: Generator | None = None,
) -> np.ndarray:
    """One query at a time, one sum at a time."""
    batch, heads, queries, width = query.shape
    keys, group = key.shape[2], heads // max(key.shape[1], 1)
    key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
    scale = 1 / np.sqrt(width) if scale is None else scale
    out = np.zeros(
        (batch, heads, queries, value.shape[3]),
        dtype=np.result_type(query, key, value, *(() if bias is None else (bias,))),
    )
    allowed = (
        np.ones((batch, heads, queries, keys), dtype=bool)
        if mask is None
        else np.broadcast_to(mask, (batch, heads, queries, keys))
    )
    added = np.zeros(()) if bias is None else bias
    added = np.broadcast_to(added, (batch, heads, queries, keys))
    if alibi_slopes is not None:
        added = added + alibi_bias(alibi_slopes, queries, keys, query.real.dtype)
    # Weights are dropped in the layout that they are held in.
    keep_mask, factor = np.ones((batch, keys, heads, queries)), 1.0
    if dropout and generator is not None:
        keep_mask, factor = generator.keep_mask(keep_mask.shape, dropout)
    for b, h, i in np.ndindex(batch, heads, queries):
        position = i + keys - queries
        pairs = [
            (np.exp(scale * (query[b, h, i] * key[b, h, j]).sum() + added[b, h, i, j]), j)
            for j in range(keys)
            if allowed[b, h, i, j]
            and (key_lengths is None or j < key_lengths[b])
            and not (causal and j > position)
            and not (window is not None and abs(position - j) > window)
        ]
        for weight, j in pairs:
            out[b, h, i] += weight / sum(w for w, _ in pairs) * keep_mask[b, j, h, i] * factor * value[b, h, j]
    return out


@declare(_attention_reference)
def attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    mask: Any = None,
    key_lengths: Any = None,
    causal: bool = False,
    window: int | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    dropout: float = 0.0,
    scale: float | None = None,
    return_weights: Any = False,
    method: str = "auto",
    block_size: int | None = None,
    deterministic: bool = False,
    generator: Generator | None = None,
) -> Any:
    """softmax(query key^T scale + bias) value over the keys that may be attended to.

    Args:
        query: (batch, heads, query_length, head_dim).
        key: (batch, heads, key_length, head_dim). With fewer heads than the query, each serves a group of query heads
            that stand side by side (Ainslie et al. 2023, arXiv 2305.13245).
        value: (batch, heads, key_length, value_dim), with as many heads as the key.
        mask: boolean, True = may attend, broadcasts to (batch, heads, query_length, key_length).
        key_lengths: (batch,) integers: keys from there on are padding.
        causal: a query sees keys up to its own position, aligned at the end: the last query sees all keys.
        window: a query sees keys at most this far from its own position.
        bias: added to the scaled scores; broadcasts to (batch, heads, query_length, key_length); has a gradient.
        alibi_slopes: (heads,): the score of a key falls by slope for each position between it and the query.
        dropout: probability of dropping a weight.
        scale: 1 / sqrt(head_dim) by default.
        return_weights: also return the weights before dropout, (batch, heads, query_length, key_length); a list of
            heads asks for theirs only. Blocked and fused compute them again from the log-sum-exp, without a gradient.
        method: "standard" holds all weights; "blocked" a block at a time, so that memory grows with the length and not
            with its square; "fused" is the same as one CUDA kernel, for float16 and float32 on a GPU of compute
            capability 8.0 or later. "auto" takes the fused kernels where they can be used, and else blocks for long
            sequences; a DeviceWarning says once if a GPU can't run them.
        block_size: queries and keys of a block of the blocked method; None finds a good one.
        deterministic: the fused method sums the gradient of the queries in a fixed order, in a pass of its own. The
            other methods always do.

    A query with nothing to attend to gets zeros, in the output and in every gradient. The methods agree up to
    rounding, except that dropout falls on other weights. Raises ValueError for shapes that don't fit. Source: arXiv
    1706.03762, section 3.2.1.
    """
    _check_shapes(query, key, value)
    query, key, value, bias = promoted(query, key, value, bias)
    key, value = (_for_each_head(x, query.shape[1]) for x in (key, value))
    if method not in METHODS:
        raise ValueError(f"attention: method {method!r} is not one of {', '.join(METHODS)}")
    if block_size is not None and block_size < 1:
        raise ValueError(f"attention: block_size must be at least 1, not {block_size}")
    if return_weights is not False and dropout:
        raise ValueError("attention: the weights are returned without dropout only; set dropout=0 to ask for them")
    queries, keys = query.shape[2], key.shape[2]
    refused = None
    if method in ("auto", "fused"):
        refused = why_not_fused(array_of(query), array_of(key), array_of(value), automatic=method == "auto")
    if method == "fused" and refused:
        raise ValueError(f"attention: method 'fused' can't be used: {refused}")
    if method == "auto":
        method = "fused" if refused is None else "blocked" if queries * keys >= LONG else "standard"
        if return_weights is True:
            method = "standard"  # whose weights have a gradient
    xp, full = array_module(array_of(query)), (*query.shape[:2], queries, keys)
    if bias is not None:
        with_four_axes("bias", array_of(bias), full)
    conditions = Conditions(
        queries,
        keys,
        mask=_checked_mask(array_of(mask), full, xp),
        key_lengths=_per("batch row", "key_lengths", key_lengths, query.shape[0], xp),
        causal=causal,
        window=window,
        slopes=_per("head", "alibi_slopes", alibi_slopes, query.shape[1], xp),
    )
    scale = max(query.shape[-1], 1) ** -0.5 if scale is None else scale
    generator = generator or default_generator
    if method == "standard":
        return _standard(query, key, value, bias, conditions, dropout, scale, return_weights, generator)
    call: BlockedAttention
    if method == "fused":
        call = FusedAttention(conditions, dropout, scale, generator, deterministic)
    else:
        call = BlockedAttention(conditions, dropout, scale, generator, block_size)
    out = call(query, key, value) if bias is None else call(query, key, value, bias)
    if return_weights is False:
        return out
    return out, Tensor(call.weights(slice(None) if return_weights is True else list(return_weights)))


def _standard(query, key, value, bias, conditions, dropout, scale, return_weights, generator):
    xp = array_module(array_of(query))
    mask = attention_mask(
        conditions.query_length,
        conditions.key_length,
        mask=conditions.mask,
        key_lengths=conditions.key_lengths,
        causal=conditions.causal,
        window=conditions.window,
        xp=xp,
    )
    if conditions.slopes is not None:
        lengths = conditions.query_length, conditions.key_length
        alibi = alibi_bias(conditions.slopes, *lengths, query.dtype, xp)
        bias = alibi if bias is None else bias + alibi
    operands = (query, key, value) if bias is None else (query, key, value, bias)
    if return_weights is False:
        return StandardAttention(mask, dropout, scale, generator)(*operands)
    tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in operands]
    out, weights = attention_composed(*tensors, mask=mask, scale=scale)
    return out, weights if return_weights is True else weights[:, list(return_weights)]


def _for_each_head(x: Any, heads: int) -> Any:
    """Keys or values (batch, kv_heads, length, dim) once for each of the `heads` that share them."""
    batch, kv_heads, length, dim = x.shape
    if kv_heads == heads:
        return x
    shape = batch, kv_heads, heads // kv_heads, length, dim
    return broadcast_to(reshape(x, (batch, kv_heads, 1, length, dim)), shape).reshape(batch, heads, length, dim)


def _check_shapes(query: Any, key: Any, value: Any) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) != 4:
            raise ValueError(f"attention: {name} must be (batch, heads, length, head_dim), not of shape {tensor.shape}")
    if (
        key.shape[-1] != query.shape[-1]
        or key.shape[2] != value.shape[2]
        or not query.shape[0] == key.shape[0] == value.shape[0]
        or key.shape[1] != value.shape[1]
        or (query.shape[1] != key.shape[1]
        and (not key.shape[1] or query.shape[1] % key.shape[1]))
    ):
        raise ValueError(f"attention: query {query.shape}, key {key.shape} and value {value.shape} don't fit together")


def _checked_mask(mask: Any, full: tuple[int, ...], xp: Any) -> Any:
    if mask is None:
        return None
    if mask.dtype != bool:
        raise TypeError(
            f"attention: the mask must be boolean (True = may attend), not {mask.dtype}; use bias to add numbers"
        )
    return with_four_axes("mask", xp.asarray(mask), full)


def _per(what: str, name: str, values: Any, count: int, xp: Any) -> Any:
    """An array with one number for each batch row or head."""
    if values is None:
        return None
    array = xp.asarray(array_of(values))
    if array.shape != (count,):
        raise ValueError(f"attention: {name} must hold one number for each {what}, ({count},), not {array.shape}")
    return array
