"""Between the layout of linear layers, (batch, length, features), and that of attention heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, address_of, array_module
from ..costs import COPIED
from ..function import Function, run
from ..parallel import parallel_for
from ..tensor import Tensor
from .elementwise import promoted
from .registry import declare


class SplitHeads(Function):
    """Views (batch, heads, length, head_dim), one for each part; backward writes all gradients into one array."""

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
        return run(MergeHeads(), *(xp.zeros_like(present) if g is None else g for g in gradients))


class MergeHeads(Function):
    """Copies nothing where the parts lie side by side as `empty_heads` made them."""

    def forward(self, *parts):
        batch, heads, length, width = parts[0].shape
        self.heads = heads
        xp, features = array_module(parts[0]), len(parts) * heads * width
        whole = _side_by_side(parts)
        if whole is not None:
            return whole.reshape(batch, length, features)
        out = xp.empty((batch, length, len(parts), heads, width), dtype=parts[0].dtype)

        def copy(start, stop):
            for position, part in enumerate(parts):
                out[start:stop, :, position] = part[start:stop].transpose(0, 2, 1, 3)

        parallel_for(xp, batch, copy, cost=COPIED * length * features)
        return out.reshape(batch, length, features)

    def backward(self, g):
        return run(SplitHeads(self.heads, len(self.inputs)), g)


def empty_heads(xp: Any, shape: tuple[int, ...], dtype: Any, parts: int = 1) -> list[Array]:
    """`parts` arrays (batch, heads, length, width) in the memory of one (batch, length, parts, heads, width)."""
    batch, heads, length, width = shape
    whole = xp.empty((batch, length, parts, heads, width), dtype)
    return [whole[:, :, part].transpose(0, 2, 1, 3) for part in range(parts)]


def empty_like_heads(xp: Any, query: Any, key: Any, value: Any, dtype: Any) -> tuple[Any, ...]:
    """Room for the gradients, side by side where the operands are so: then `merge_heads` copies nothing."""
    if query.base is not None and query.base is key.base is value.base and query.shape == key.shape == value.shape:
        return tuple(empty_heads(xp, query.shape, dtype, parts=3))
    (d_query,) = empty_heads(xp, query.shape, dtype)
    if key.base is not None and key.base is value.base and key.shape == value.shape:
        return d_query, *empty_heads(xp, key.shape, dtype, parts=2)
    return d_query, *(empty_heads(xp, x.shape, dtype)[0] for x in (key, value))


def _side_by_side(parts: tuple[Array, ...]) -> Array | None:
    """The array (batch, length, parts, heads, width) that the parts are all of, in this order, or None."""
    batch, heads, length, width = parts[0].shape
    whole = parts[0].base
    if whole is None or whole.shape != (batch, length, len(parts), heads, width) or not whole.flags.c_contiguous:
        return None
    if not all(part.base is whole for part in parts):
        return None
    start = address_of(whole)
    for position, part in enumerate(parts):
        expected = whole[:, :, position].transpose(0, 2, 1, 3)
        if part.shape != expected.shape or part.strides != expected.strides or part.dtype != whole.dtype:
            return None
        if address_of(part) != start + position * heads * width * whole.itemsize:
            return None
    return whole


def _split_reference(x: np.ndarray, heads: int, parts: int = 1) -> tuple[np.ndarray, ...]:
    return tuple(np.stack(np.split(part, heads, axis=2), axis=1) for part in np.split(x, parts, axis=2))


@declare(_split_reference)
def split_heads(x: Any, heads: int, parts: int = 1) -> tuple[Tensor, ...]:
    """(batch, length, parts * heads * head_dim) -> `parts` tensors (batch, heads, length, head_dim)."""
    return SplitHeads(heads, parts)(x)


@declare(lambda *parts: np.concatenate([np.concatenate(list(p.swapaxes(0, 1)), axis=2) for p in parts], axis=2))
def merge_heads(*parts: Any) -> Tensor:
    """The reverse of `split_heads`: tensors (batch, heads, length, head_dim) -> (batch, length, features)."""
    return MergeHeads()(*promoted(*parts))
