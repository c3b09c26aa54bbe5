"""Ops that split features (batch, length, features) into heads (batch, heads, length, head_dim), and merge heads."""

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function, run
from ..tensor import Tensor, shape_of
from .elementwise import promoted
from .registry import declare, dispatch, run_dispatched


class SplitHeads(Function):
    """Split features into views (batch, heads, length, head_dim), one for each part: query, key and value."""

    def __init__(self, heads, parts):
        self.heads, self.parts = heads, parts

    def forward(self, x):
        if x.ndim != 3:
            raise ValueError(f"split_heads needs the shape (batch, length, features), not {x.shape}")
        batch, length, features = x.shape
        width, rest = divmod(features, self.parts * self.heads)
        if rest:
            raise ValueError(f"{features} features are not divisible into {self.parts} parts of {self.heads} heads")
        views = x.reshape(batch, length, self.parts, self.heads, width).transpose(2, 0, 3, 1, 4)
        return tuple(views[part] for part in range(self.parts))

    def backward(self, *gradients):
        present = next(g for g in gradients if g is not None)
        xp = array_module(present)
        return run_dispatched(MergeHeads, *(xp.zeros_like(present) if g is None else g for g in gradients))


class MergeHeads(Function):
    """Concatenate parts (batch, heads, length, head_dim) to (batch, length, parts * heads * head_dim)."""

    def forward(self, *parts):
        batch, self.heads, length, width = parts[0].shape
        rows = array_module(*parts).stack([part.transpose(0, 2, 1, 3) for part in parts], axis=2)
        return rows.reshape(batch, length, len(parts) * self.heads * width)

    def backward(self, g):
        return run(SplitHeads(self.heads, len(self.inputs)), g)


def empty_heads(xp: Any, shape: tuple[int, ...], dtype: Any, parts: int = 1) -> list[Array]:
    """Return `parts` views (batch, heads, length, width) of one array (batch, length, parts, heads, width)."""
    batch, heads, length, width = shape
    whole = xp.empty((batch, length, parts, heads, width), dtype)
    return [whole[:, :, part].transpose(0, 2, 1, 3) for part in range(parts)]


def empty_like_heads(xp: Any, query: Any, key: Any, value: Any, dtype: Any) -> tuple[Any, ...]:
    """Return arrays for the gradients of the operands. If operands are views of one array, their gradients are too, so
    that `merge_heads` needs no copy.
    """
    if query.base is not None and query.base is key.base is value.base and query.shape == key.shape == value.shape:
        return tuple(empty_heads(xp, query.shape, dtype, parts=3))
    (d_query,) = empty_heads(xp, query.shape, dtype)
    if key.base is not None and key.base is value.base and key.shape == value.shape:
        return d_query, *empty_heads(xp, key.shape, dtype, parts=2)
    return d_query, *(empty_heads(xp, x.shape, dtype)[0] for x in (key, value))


def _split_reference(x: np.ndarray, heads: int, parts: int = 1) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(np.split(part, heads, axis=2), axis=1) for part in np.split(x, parts, axis=2))


@declare(_split_reference)
def split_heads(x: Any, heads: int, parts: int = 1) -> tuple[Tensor, ...]:
    """Split (batch, length, parts * heads * head_dim) into `parts` tensors (batch, heads, length, head_dim). Raises
    ValueError unless x has three axes and the features are divisible by parts * heads.
    """
    if heads < 1 or parts < 1:
        raise ValueError(f"split_heads: heads and parts must be at least 1, not {heads} and {parts}")
    return SplitHeads(heads, parts)(x)


@declare(lambda *parts: np.concatenate([np.concatenate(list(p.swapaxes(0, 1)), axis=2) for p in parts], axis=2))
def merge_heads(*parts: Any) -> Tensor:
    """Merge tensors (batch, heads, length, head_dim) to (batch, length, features): the inverse of `split_heads`. Raises
    ValueError unless all tensors have four axes and the same shape.
    """
    shapes = {shape_of(part, "merge_heads") for part in parts}
    if len(shapes) != 1 or len(next(iter(shapes))) != 4:
        raise ValueError(f"merge_heads needs tensors of one shape (batch, heads, length, head_dim), not {shapes}")
    return dispatch(MergeHeads, promoted(*parts))
