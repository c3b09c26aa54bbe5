"""Chapter 7, the exercises: splitting and merging heads, rotary positions, and the whole attention layer."""

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...nn import MultiHeadAttention
from ...nn.positional import RotaryPositions
from ..exercise import normal


def counted(*shape: int) -> np.ndarray:
    """Return the numbers 0, 1, 2, ... in an array. Each number shows where it comes from."""
    return np.arange(float(np.prod(shape))).reshape(shape)


def probe_split_heads(split_heads: Any) -> dict[str, Any]:
    return {
        "one word for 2 heads": split_heads(counted(1, 4), 2),
        "4 words with 4 features, 0 to 15 row by row, for 2 heads": split_heads(counted(4, 4), 2),
        "3 words with 8 features for 4 heads": split_heads(counted(3, 8), 4),
    }


def real_split_heads(x: Any, heads: int) -> np.ndarray:
    (parts,) = ops.split_heads(Tensor(x[None]), heads)
    return parts.data[0]


def probe_merge_heads(merge_heads: Any) -> dict[str, Any]:
    return {
        "2 heads of one word": merge_heads(counted(2, 1, 2)),
        "2 heads of 2 words, 0 to 7": merge_heads(counted(2, 2, 2)),
        "4 heads of 3 words with 2 features": merge_heads(counted(4, 3, 2)),
    }


def real_merge_heads(x: Any) -> np.ndarray:
    return ops.merge_heads(Tensor(x[None])).data[0]


def probe_rotate(rotate: Any) -> dict[str, Any]:
    (x,) = normal(7, (2, 4, 6))
    return {
        "one word, at position 0": rotate(x[0, :1], 0),
        "the arrow (1, 0) at position 1": rotate(np.array([[1.0, 0.0]]), 1),
        "the arrow (0, 1) at positions 0 to 3": rotate(np.array([[0.0, 1.0]] * 4), 0),
        "4 words with 6 features": rotate(x[0], 0),
        "4 words, the first at position 10": rotate(x[0], 10),
        "2 heads of 4 words": rotate(x, 0),
    }


def real_rotate(x: Any, first: int = 0) -> np.ndarray:
    stack = Tensor(x.reshape(1, -1, *x.shape[-2:]))
    rotated, _ = RotaryPositions(x.shape[-1]).rotate(stack, stack, first)
    return rotated.data.reshape(x.shape)


def probe_multi_head(multi_head: Any) -> dict[str, Any]:
    x, w_in, w_out = normal(7, (5, 8), (24, 8), (8, 8))
    return {
        "the output for one word": multi_head(x[:1], w_in, w_out, 2),
        "the output for 5 words with one head": multi_head(x, w_in, w_out, 1),
        "the output for 5 words with 2 heads": multi_head(x, w_in, w_out, 2),
        "the output for 5 words with 4 heads": multi_head(x, w_in, w_out, 4),
    }


def real_multi_head(x: Any, w_in: Any, w_out: Any, heads: int) -> np.ndarray:
    layer = MultiHeadAttention(x.shape[1], heads, bias=False, positions="rotary").astype(np.float64).eval()
    layer.in_proj_weight.data, layer.out_proj.weight.data = w_in, w_out
    return layer(Tensor(x[None]), causal=True).data[0]
