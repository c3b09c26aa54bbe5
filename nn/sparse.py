"""Sparse self-attention patterns: a local window, or a local window and every n-th position beyond the window."""

from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd.backend import array_module, constant
from .positional import PositionScores


class SparsePattern(PositionScores):
    """Self-attention restricted to a pattern of positions. `inner` is the position encoding of the attention scores.

    With "local", a query attends to keys at most `size` positions away (Beltagy et al. 2020, arXiv 2004.05150, section
    3.1). With "strided", a query attends to keys less than `size` positions away and to every `size`-th key beyond.
    These are the two patterns of Child et al. 2019 (arXiv 1904.10509, section 4.2), in one head.
    """

    def __init__(self, kind: str, size: int, inner: PositionScores | None):
        self.kind, self.size, self.inner = kind, size, inner

    def sees(self, distance: Any) -> Any:
        """Return whether a query attends to a key at this distance, as a boolean array of the shape of `distance`."""
        away = abs(distance)
        return away <= self.size if self.kind == "local" else (away < self.size) | (away % self.size == 0)

    def rotate(self, query: Tensor, key: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        return (query, key) if self.inner is None else self.inner.rotate(query, key, offset)

    def scores(self, query: Tensor, key: Tensor) -> dict[str, Any]:
        options = {} if self.inner is None else self.inner.scores(query, key)
        if self.kind == "local":
            return {**options, "window": self.size}
        queries, keys = query.shape[2], key.shape[2]
        distance = np.arange(keys) - np.arange(keys - queries, keys)[:, None]
        return {**options, "mask": constant(array_module(query.data), self.sees(distance))[None, None]}

    def bias_at(self, distance: np.ndarray, dtype: Any) -> Any:
        added = None if self.inner is None else self.inner.bias_at(distance, dtype)
        hidden = np.where(self.sees(distance), 0.0, -np.inf).astype(dtype)[..., None, :, :]
        return hidden if added is None else added + array_module(added).asarray(hidden)

    def extra_repr(self) -> str:
        return f"{self.kind}:{self.size}"


def with_pattern(pattern: str, inner: PositionScores | None) -> PositionScores | None:
    """Restrict `inner` to a pattern such as "full", "local:16" or "strided:16". A local size can be 0; a stride cannot.
    Raises ValueError for another pattern.
    """
    if pattern == "full":
        return inner
    kind, _, size = pattern.partition(":")
    if kind not in ("local", "strided") or not size.isdecimal() or int(size) < (kind == "strided"):
        raise ValueError(f"unknown attention pattern {pattern!r}: use full, local:SIZE or strided:SIZE")
    return SparsePattern(kind, int(size), inner)
