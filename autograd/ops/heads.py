"""Splits features (batch, length, features) into attention heads (batch, heads, length, head_dim), and merges them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, run
from ..tensor import Tensor
from .elementwise import promoted
from .registry import declare, form, run_form, serve


class SplitHeads(Function):
    """Views (batch, heads, length, head_dim), one for each part (query, key and value, for example)."""

    def __init__(self, heads, parts):
        self.heads, self.parts = heads, parts

    def forward(self, x):
        if x.ndim != 3:
            raise ValueError(f"heads are split off (batch, length, features), not {x.shape}")
        batch, length, features = x.shape
        width, rest = divmod(features, self.parts * self.heads)
        if rest:
            raise ValueError(f"{features} features don't divide into {self.parts} parts of {self.heads} heads")
        views = x.reshape(batch, length, self.parts, self.heads, width).transpose(2, 0, 3, 1, 4)
        return tuple(views[part] for part in range(self.parts))

    def backward(self, *gradients):
        present = next(g for g in gradients if g is not None)
        xp = array_module(present)
        return run_form("merge_heads", *(xp.zeros_like(present) if g is None else g for g in gradients))


@form("merge_heads")
class MergeHeads(Function):
    """The parts (batch, heads, length, head_dim) concatenated to (batch, length, parts * heads * head_dim)."""

    def forward(self, *parts):
        batch, self.heads, length, width = parts[0].shape
        rows = array_module(*parts).stack([part.transpose(0, 2, 1, 3) for part in parts], axis=2)
        return rows.reshape(batch, length, len(parts) * self.heads * width)

    def backward(self, g):
        return run(SplitHeads(self.heads, len(self.inputs)), g)


def _split_reference(x: np.ndarray, heads: int, parts: int = 1) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(np.split(part, heads, axis=2), axis=1) for part in np.split(x, parts, axis=2))


@declare(_split_reference)
def split_heads(x: Any, heads: int, parts: int = 1) -> tuple[Tensor, ...]:
    """(batch, length, parts * heads * head_dim) -> `parts` tensors (batch, heads, length, head_dim).

    Raises ValueError for another number of axes, or if the features can't be divided so.
    """
    return SplitHeads(heads, parts)(x)


@declare(lambda *parts: np.concatenate([np.concatenate(list(p.swapaxes(0, 1)), axis=2) for p in parts], axis=2))
def merge_heads(*parts: Any) -> Tensor:
    """The inverse of `split_heads`: tensors (batch, heads, length, head_dim) -> (batch, length, features)."""
    return serve("merge_heads", parts if len({part.dtype for part in parts}) == 1 else promoted(*parts))
