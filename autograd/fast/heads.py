"""Merging heads without a copy: replaces `MergeHeads` of heads.py.

Attention's quick implementations allocate their output, and the gradients of query, key and value, with `empty_heads`.
The arrays to merge are then views of one array, which the merge returns.
"""

import math
from typing import Any

from ..backend import Array, address_of
from ..ops.heads import MergeHeads
from ..ops.registry import implements


def side_by_side(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the parts are views made by `empty_heads`."""
    return "the parts are not views of one array, side by side" if whole_of(arrays) is None else None


@implements(MergeHeads, "in place", side_by_side)
class MergeHeadsInPlace(MergeHeads):
    """Merge heads by returning the array of which all parts are views."""

    def forward(self, *parts):
        batch, self.heads, length, width = parts[0].shape
        whole: Any = whole_of(parts)
        return whole.reshape(batch, length, len(parts) * self.heads * width)


def whole_of(parts: Any) -> Array | None:
    """Return the array (batch, length, parts, heads, width) that consists of the views `parts` in order, or None."""
    if parts[0].ndim != 4:
        return None
    batch, heads, length, width = parts[0].shape
    whole = parts[0].base
    shape = batch, length, len(parts), heads, width
    if whole is None or whole.size != math.prod(shape) or not whole.flags.c_contiguous:
        return None
    if not all(part.base is whole for part in parts):
        return None
    whole = whole.reshape(shape)
    for position, part in enumerate(parts):
        expected = whole[:, :, position].transpose(0, 2, 1, 3)
        if part.shape != expected.shape or part.strides != expected.strides or part.dtype != whole.dtype:
            return None
        if address_of(part) != address_of(expected):
            return None
    return whole
