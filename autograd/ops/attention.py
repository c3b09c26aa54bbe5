"""Scaled dot-product attention.

softmax(Q K^T scale + bias) V, with a score of -infinity for each key that a query may not attend to (Vaswani et al.
2017, arXiv 1706.03762, equation 1). Other implementations: `fast/attention.py` computes all weights in one op on
several threads, attention_blocked.py computes the weights block by block for long sequences, and
`kernels/attention_op.py` computes blocks on a GPU.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...kinds import argument, one_of
from ..arguments import sizes
from ..backend import array_module
from ..half import in_float32
from ..random import Generator, default_generator
from ..tensor import array_of, constant_array, is_recorded
from .dropout import check_probability
from .elementwise import promoted
from .exponential import exp
from .linalg import matmul
from .registry import declare, dispatch, unsupported_reason
from .selection import where
from .shape import broadcast_to, reshape

METHODS = ("auto", "standard", "blocked", "fused")


@in_float32
def attention_plain(
    query: Any, key: Any, value: Any, bias: Any = None, *, mask_spec: "MaskSpec", dropout: float, scale: float,
    generator: Any, return_weights: Any = False, **choices: Any,
) -> Any:  # fmt: skip
    """Compute softmax(Q K^T scale + bias) V, with scores of -infinity where a query may not attend. The output of a
    query that may attend to no key is 0.
    """
    xp, (batch, heads, queries, _), keys = array_module(array_of(query)), query.shape, key.shape[2]
    scores = matmul(query, key.swapaxes(-1, -2)) * scale  # (batch, heads, query, key)
    for added in (bias, mask_spec.alibi(scores.dtype, xp)):
        scores = scores if added is None else scores + added
    allowed = mask_spec.as_mask(xp)
    scores = scores if allowed is None else where(allowed, scores, -np.inf)

    # Subtracting the row's maximum doesn't change the weights and keeps exp from overflowing.
    top = scores.data.max(axis=-1, keepdims=True) if keys else xp.zeros((), scores.dtype)
    e = exp(scores - xp.where(xp.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    weights = dropped = e / (total + (total == 0))
    if dropout:
        mask, factor = generator.keep_mask((batch, keys, heads, queries), dropout)  # fast/attention.py's layout
        dropped = weights * xp.asarray(mask).transpose(0, 2, 3, 1) * factor
    out = matmul(dropped, value)
    if return_weights is False:
        return out
    return out, weights if return_weights is True else weights[:, list(return_weights)]


class MaskSpec(NamedTuple):
    """The masks that determine which query may attend to which key, and the term that their distance adds to the score.
    Query i has position i + key_length - query_length, so that the last query and the last key have the same position.
    """

    query_length: int
    key_length: int
    mask: Any = None  # boolean, up to four axes, each of full length or 1
    key_lengths: Any = None  # (batch,)
    causal: bool = False
    window: int | None = None
    slopes: Any = None  # (heads,): ALiBi adds -slope |distance|

    def as_mask(self, xp: Any = np) -> Any:
        """Return all masks combined (without ALiBi) as one boolean array that broadcasts to (batch, heads, query, key).
        Without a mask, return None.
        """
        parts = [] if self.mask is None else [self.mask]
        if self.key_lengths is not None:
            parts.append((xp.arange(self.key_length) < self.key_lengths[:, None])[:, None, None, :])
        if self.causal:
            parts.append(self.distance(xp) >= 0)
        if self.window is not None:
            parts.append(abs(self.distance(xp)) <= self.window)
        return reduce(xp.logical_and, parts) if parts else None

    def alibi(self, dtype: Any, xp: Any = np) -> Any:
        """Return -slope |distance|, (1, heads, query, key), or None.
        Source: Press et al. 2022, arXiv 2108.12409, here for both directions.
        """
        if self.slopes is None:
            return None
        return -self.slopes[:, None, None].astype(dtype) * abs(self.distance(xp)).astype(dtype)

    def distance(self, xp: Any) -> Any:
        """Return the query's position minus the key's position, as an array (1, 1, query, key)."""
        position = xp.arange(self.query_length)[:, None] + self.key_length - self.query_length
        return (position - xp.arange(self.key_length))[None, None]


def largest_score(allowed: Any, dtype: Any, xp: Any) -> Any:
    """Return infinity where a query may attend to a key, else -infinity. With this, `fmin` makes a forbidden score
    -infinity even if the score is NaN or infinity, for example because the key is infinite.
    """
    return xp.where(allowed, dtype.type(np.inf), dtype.type(-np.inf))


def _attention_reference(
    query, key, value, *, mask=None, key_lengths=None, causal=False, window=None, bias=None, alibi_slopes=None,
    dropout=0.0, scale=None, generator=None, **choices,
):  # fmt: skip
    """Compute attention for one query at a time, with explicit sums over the keys that the query may attend to."""
    batch, heads, queries, width = query.shape
    keys, group = key.shape[2], heads // max(key.shape[1], 1)
    key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
    scale = 1 / np.sqrt(width) if scale is None else scale
    added = np.broadcast_to(np.zeros((), query.dtype) if bias is None else bias, (batch, heads, queries, keys))
    out = np.zeros((batch, heads, queries, value.shape[3]), np.result_type(query, key, value, added))
    allowed = np.broadcast_to(True if mask is None else mask, added.shape)
    slopes = np.zeros(heads) if alibi_slopes is None else alibi_slopes
    # The mask is drawn in the layout in which fast/attention.py holds the weights.
    keep_mask, factor = np.ones((batch, keys, heads, queries)), 1.0
    if dropout and generator is not None:
        keep_mask, factor = generator.keep_mask(keep_mask.shape, dropout)
    for b, h, i in np.ndindex(batch, heads, queries):
        position = i + keys - queries
        seen = [
            j
            for j in range(keys)
            if allowed[b, h, i, j]
            and (key_lengths is None or j < key_lengths[b])
            and not (causal and j > position)
            and not (window is not None and abs(position - j) > window)
        ]
        scores = [scale * (query[b, h, i] * key[b, h, j]).sum() + added[b, h, i, j] for j in seen]
        e = [np.exp(score - slopes[h] * abs(position - j)) for score, j in zip(scores, seen, strict=True)]
        for weight, j in zip(e, seen, strict=True):
            out[b, h, i] += weight / sum(e) * keep_mask[b, j, h, i] * factor * value[b, h, j]
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
    """Compute softmax(query key^T scale + bias) value over the keys that each query may attend to.

    Args:
        query: (batch, heads, query_length, head_dim).
        key: (batch, heads, key_length, head_dim). If the key has fewer heads than the query, consecutive query heads
            share a key head (Ainslie et al. 2023, arXiv 2305.13245).
        value: (batch, heads, key_length, value_dim), with the key's number of heads.
        mask: boolean array that broadcasts to (batch, heads, query_length, key_length); True means that the query may
            attend to the key.
        key_lengths: (batch,) integers: in batch row b, key j is padding if j >= key_lengths[b].
        causal: whether a query attends only to keys up to the query's position; the last query has the last key's
            position.
        window: the maximum distance, in positions, of the keys that a query attends to.
        bias: array or Tensor that is added to the scaled scores. It broadcasts to (batch, heads, query_length,
            key_length) and gets a gradient.
        alibi_slopes: (heads,); the head's slope times the distance in positions is subtracted from the score.
        dropout: probability with which an attention weight is dropped.
        scale: 1 / sqrt(head_dim) by default.
        return_weights: also return the weights before dropout, (batch, heads, query_length, key_length); a list of head
            indices selects the heads whose weights are returned. The blocked and the fused method recompute the weights
            from the log-sum-exp, without a gradient.
        method: "standard" stores all weights. "blocked" stores one block at a time, so memory grows linearly with the
            length, not quadratically. "fused" is the blocked method in CUDA kernels, for float16 and float32 on a GPU
            of compute capability 8.0 or later. "auto" uses the fused kernels if possible, else the blocked method for
            long sequences and the standard method for others; `explain` shows the selected one.
        block_size: number of queries, and of keys, in a block of the blocked method; None selects a number
            automatically.
        deterministic: whether the fused method sums the gradient of the queries in a fixed order, in a separate pass.
            (The standard and the blocked method always use a fixed order.)

    If a query may attend to no key, its output and gradients are 0. A key to which a query may not attend does not
    change the query's output, even if the key is infinite or NaN, but the gradients may then be NaN. The values
    must be finite. The methods agree up to rounding, but draw different dropout masks. Raises ValueError for shapes
    that don't fit, an unknown or unusable method, a dropout outside [0, 1], a negative window, or return_weights
    together with dropout. Raises TypeError for a mask that is not boolean. Source: arXiv 1706.03762, section 3.2.1.
    """
    query, key, value, bias = promoted(query, key, value, bias)
    _check_shapes(query, key, value)
    key, value = (_for_each_head(x, query.shape[1]) for x in (key, value))
    one_of("attention: method", method, METHODS)
    if block_size is not None and block_size < 1:
        raise ValueError(f"attention: block_size must be at least 1, not {block_size}")
    if window is not None and window < 0:
        raise ValueError(f"attention: window must be a number of positions, at least 0, not {window}")
    check_probability("attention: dropout", dropout)
    if isinstance(return_weights, list | tuple) or np.ndim(return_weights):
        return_weights = sizes("attention: return_weights", return_weights)
    else:
        return_weights = argument("attention: return_weights", return_weights, bool)
    if return_weights is not False and dropout:
        raise ValueError("attention: return_weights is supported only without dropout; set dropout=0")
    queries, keys = query.shape[2], key.shape[2]
    xp, full = array_module(array_of(query)), (*query.shape[:2], queries, keys)
    if bias is not None:
        wide = with_four_axes("bias", array_of(bias), full)
        bias = bias if bias.ndim == wide.ndim else reshape(bias, wide.shape)
    mask_spec = MaskSpec(
        queries,
        keys,
        mask=_checked_mask(mask, full, xp, is_recorded(query, key, value, bias)),
        key_lengths=_per("batch row", "key_lengths", key_lengths, query.shape[0], xp),
        causal=causal,
        window=window,
        slopes=_per("head", "alibi_slopes", alibi_slopes, query.shape[1], xp),
    )
    scale = float(max(query.shape[-1], 1) ** -0.5 if scale is None else scale)
    generator = generator or default_generator
    operands = (query, key, value) if bias is None else (query, key, value, bias)
    options: dict[str, Any] = {"method": method, "block_size": block_size, "deterministic": deterministic}
    refused = unsupported_reason(attention_plain, "fused", operands, method=method) if method == "fused" else None
    if refused:
        raise ValueError(f"attention: method 'fused' can't be used: {refused}; use 'auto' instead")
    return dispatch(
        attention_plain, operands, mask_spec=mask_spec, dropout=dropout, scale=scale, generator=generator,
        return_weights=return_weights, **options,
    )  # fmt: skip


def _for_each_head(x: Any, heads: int) -> Any:
    """Repeat keys or values (batch, kv_heads, length, dim) to (batch, heads, length, dim) for groups of query heads."""
    batch, kv_heads, length, dim = x.shape
    if kv_heads == heads:
        return x
    shape = batch, kv_heads, heads // kv_heads, length, dim
    return broadcast_to(reshape(x, (batch, kv_heads, 1, length, dim)), shape).reshape(batch, heads, length, dim)


def _check_shapes(query: Any, key: Any, value: Any) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) != 4:
            raise ValueError(f"{name} must have the shape (batch, heads, length, head_dim), not {tensor.shape}")
    if (
        key.shape[-1] != query.shape[-1]
        or key.shape[2] != value.shape[2]
        or not query.shape[0] == key.shape[0] == value.shape[0]
        or key.shape[1] != value.shape[1]
        or (query.shape[1] != key.shape[1] and (not key.shape[1] or query.shape[1] % key.shape[1]))
    ):
        raise ValueError(f"attention: query {query.shape}, key {key.shape} and value {value.shape} don't fit together")


def _checked_mask(mask: Any, full: tuple[int, ...], xp: Any, record: bool) -> Any:
    """Return the mask with four axes. It is copied if a backward pass may need it: a buffer may be filled again."""
    if mask is None:
        return None
    mask = constant_array(mask, "attention: masks")
    if mask.dtype != bool:
        raise TypeError(f"a mask must be boolean (True: may attend), not {mask.dtype}; use bias to add numbers")
    if record:
        mask = xp.array(mask[tuple(slice(None) if step else slice(1) for step in mask.strides)])  # broadcast: one part
    return with_four_axes("mask", xp.asarray(mask), full)


def _per(what: str, name: str, values: Any, count: int, xp: Any) -> Any:
    """Return `values` as an array of `count` numbers, one for each batch row or head. They are copied, because the
    caller can change them before the backward pass; lengths on a device are not, which saves a launch in each layer.
    """
    if values is None:
        return None
    array = constant_array(values, f"attention: {name}")
    array = xp.array(array) if xp is np or name == "alibi_slopes" else xp.asarray(array)
    if array.shape != (count,):
        raise ValueError(f"attention: {name} must have one number for each {what}, shape ({count},), not {array.shape}")
    return array


def with_four_axes(name: str, array: Any, full: tuple[int, ...]) -> Any:
    """Return a view of `array` with four axes. Raises ValueError if `array` doesn't broadcast to the shape `full`."""
    wide = array[(None,) * (4 - array.ndim)] if array.ndim < 4 else array
    if wide.ndim > 4 or any(side not in (1, whole) for side, whole in zip(wide.shape, full, strict=True)):
        raise ValueError(f"attention: the {name} of shape {array.shape} does not broadcast to {full}")
    return wide
