"""Scaled dot-product attention in small ops, and its conditions as one mask and one bias.

The truth that the quicker kinds of attention are held to, and their second derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from .exponential import exp
from .linalg import matmul
from .selection import where


def attention_composed(
    query: Any, key: Any, value: Any, bias: Any = None, *, mask: Any, scale: float, keep_mask: Any = None
) -> tuple[Tensor, Tensor]:
    """Attention in small ops: the output and the weights before dropout. `keep_mask` holds dropout's factors."""
    scores = matmul(query, key.swapaxes(-1, -2)) * scale
    if bias is not None:
        scores = scores + bias
    allowed = np.True_ if mask is None else mask
    finite = where(allowed, scores, 0.0)
    e = where(allowed, exp(finite - finite.max(axis=-1, keepdims=True).detach()), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    weights = e / (total + (total == 0))
    return matmul(weights if keep_mask is None else weights * keep_mask, value), weights


def attention_mask(
    query_length: int,
    key_length: int,
    *,
    mask: Any = None,
    key_lengths: Any = None,
    causal: bool = False,
    window: int | None = None,
    xp: Any = np,
) -> Any:
    """All conditions in one boolean array (True = may attend) that broadcasts to (batch, heads, query, key), or None.

    Causal and window count from the end: the last query stands at the last key's position.
    """
    parts = []
    if mask is not None:
        parts.append(mask)
    if key_lengths is not None:
        parts.append((xp.arange(key_length) < key_lengths[:, None])[:, None, None, :])
    if causal or window is not None:
        distance = (xp.arange(query_length)[:, None] + key_length - query_length) - xp.arange(key_length)
        if causal:
            parts.append((distance >= 0)[None, None])
        if window is not None:
            parts.append((xp.abs(distance) <= window)[None, None])
    combined = None
    for part in parts:
        combined = part if combined is None else combined & part
    return combined


def alibi_bias(slopes: Any, query_length: int, key_length: int, dtype: Any, xp: Any = np) -> Any:
    """-slope |distance|, (1, heads, query, key). (Press et al. 2022, arXiv 2108.12409; both directions.)"""
    distance = xp.arange(query_length)[:, None] + (key_length - query_length) - xp.arange(key_length)
    return (-slopes[:, None, None].astype(dtype) * abs(distance).astype(dtype))[None]


def with_four_axes(name: str, array: Any, full: tuple[int, ...]) -> Any:
    """A view with four axes. Raises ValueError if it doesn't broadcast to (batch, heads, query, key)."""
    wide = array[(None,) * (4 - array.ndim)] if array.ndim < 4 else array
    if wide.ndim > 4 or any(side not in (1, whole) for side, whole in zip(wide.shape, full, strict=True)):
        raise ValueError(f"attention: the {name} of shape {array.shape} does not broadcast to {full}")
    return wide
