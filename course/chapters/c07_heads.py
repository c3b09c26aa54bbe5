"""Chapter 7, the exercises: splitting and merging heads, rotary positions, and the whole attention layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...nn import MultiHeadAttention
from ...nn.positional import RotaryPositions
from ..exercise import Exercise
from .c07_heads_solution import attend, merge_heads, multi_head, rotate, split_heads


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape) for shape in shapes]


def counted(*shape: int) -> np.ndarray:
    """Return the numbers 0, 1, 2, ... in an array. Each number shows where it comes from."""
    return np.arange(float(np.prod(shape))).reshape(shape)


def table(x: Any, first: int, exponent: Any = None) -> np.ndarray:
    d = x.shape[-1]
    exponents = -2 * np.arange(d // 2) / d if exponent is None else exponent(d)
    return np.arange(first, first + x.shape[-2])[:, None] * 10000.0**exponents


# -- split_heads -------------------------------------------------------------------------------------------------------


def probe_split_heads(split_heads: Any) -> dict[str, Any]:
    return {
        "one word for 2 heads": split_heads(counted(1, 4), 2),
        "4 words with 4 features, 0 to 15 row by row, for 2 heads": split_heads(counted(4, 4), 2),
        "3 words with 8 features for 4 heads": split_heads(counted(3, 8), 4),
    }


def real_split_heads(x: Any, heads: int) -> np.ndarray:
    (parts,) = ops.split_heads(Tensor(x[None]), heads)
    return parts.data[0]


SPLIT_HEADS = Exercise(
    split_heads,
    probe_split_heads,
    real_split_heads,
    source="autograd.ops.heads.SplitHeads.forward",
    hints=(
        "If a row of 6 features is cut into 2 pieces of 3, which axis does the number of the piece get, and which "
        "axis should it have?",
        "x of shape (5, 6) becomes (5, 2, 3): [word, head, feature]. It should be (2, 5, 3): [head, word, feature].",
        "x.reshape(len(x), heads, -1).swapaxes(0, 1); -1 stands for the remaining size, d / heads.",
    ),
    changes="""
        The shape is right, but the numbers are not: a reshape to (heads, length, ...) gives all features of the first
        words to head 0. Reshape to (length, heads, ...) first, then swap the axes.
        - x.reshape(len(x), heads, -1).swapaxes(0, 1)
        + x.reshape(heads, len(x), -1)
        The shape is (length, heads, d / heads) here. The heads should come first: swap the first two axes.
        - .swapaxes(0, 1)
        +
        Head 0 gets the features 0, h, 2h, ... here. It should get the first d / heads features: reshape to (length,
        heads, d / heads), in this order.
        - x.reshape(len(x), heads, -1).swapaxes(0, 1)
        + x.reshape(len(x), -1, heads).transpose(2, 0, 1)
        .T reverses all three axes. Only the first two should change places: swapaxes(0, 1).
        - .swapaxes(0, 1)
        + .T
    """,
)


@SPLIT_HEADS.right
def slice_by_slice(x, heads):
    width = x.shape[1] // heads
    return np.stack([x[:, head * width : (head + 1) * width] for head in range(heads)])


# -- merge_heads -------------------------------------------------------------------------------------------------------


def probe_merge_heads(merge_heads: Any) -> dict[str, Any]:
    return {
        "2 heads of one word": merge_heads(counted(2, 1, 2)),
        "2 heads of 2 words, 0 to 7": merge_heads(counted(2, 2, 2)),
        "4 heads of 3 words with 2 features": merge_heads(counted(4, 3, 2)),
    }


def real_merge_heads(x: Any) -> np.ndarray:
    return ops.merge_heads(Tensor(x[None])).data[0]


MERGE_HEADS = Exercise(
    merge_heads,
    probe_merge_heads,
    real_merge_heads,
    source="autograd.ops.heads.MergeHeads.forward",
    hints=(
        "`split_heads` cuts and then swaps. Which of the two must be undone first?",
        "(2, 5, 3) becomes (5, 2, 3) again, and then (5, 6). merge_heads(split_heads of x, 2) is x: try that.",
        "x.swapaxes(0, 1).reshape(x.shape[1], -1): the length is the second number of x.shape.",
    ),
    changes="""
        The shape is right, but the numbers are not: swap the first two axes back before the reshape; otherwise each row
        holds several words of one head.
        - .swapaxes(0, 1)
        +
        The heads are added here. They should be joined side by side: (length, heads * n).
        - x.swapaxes(0, 1).reshape(x.shape[1], -1)
        + x.sum(axis=0)
        The heads are joined one below the other here, (heads * length, n). Join them side by side, so that each word
        has one row.
        - x.swapaxes(0, 1).reshape(x.shape[1], -1)
        + x.reshape(-1, x.shape[2])
        In each row the features of the heads alternate. All features of head 0 should come first, then all of head 1.
        - .swapaxes(0, 1)
        + .transpose(1, 2, 0)
    """,
)


@MERGE_HEADS.right
def side_by_side(x):
    return np.concatenate(list(x), axis=1)


# -- rotate ------------------------------------------------------------------------------------------------------------


def probe_rotate(rotate: Any) -> dict[str, Any]:
    (x,) = numbers((2, 4, 6))
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


ROTATE = Exercise(
    rotate,
    probe_rotate,
    real_rotate,
    source="nn.positional.RotaryPositions.rotate",
    hints=(
        "With d = 2 there is one arrow: by which angle is it turned in row t, if row 0 is at position `first`?",
        "For d = 4 the speeds are 1 and 0.01. At position 3 the first arrow turns by 3 and the second by 0.03: row "
        "3 of a table of angles.",
        "angles = np.arange(first, first + length)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d); a = x[..., : "
        "d // 2], b = x[..., d // 2 :]; np.concatenate of a cos - b sin and a sin + b cos, axis=-1.",
    ),
    changes="""
        Every arrow turns the other way: the minus belongs to a' = a cos t - b sin t. (The scores would still be right,
        since they depend only on the angle between two arrows. But with weights trained elsewhere the results would be
        wrong.)
        - [:, None] * speeds
        + [:, None] * -speeds
        This is right for first = 0. But the first row is at position `first`: use np.arange(first, first + length).
        - np.arange(first, first + length)
        + np.arange(length)
        All arrows turn at the same speed. Arrow p turns by 10000 ** (-2 * p / d) for each position.
        - 10000.0 ** (-2 * np.arange(d // 2) / d)
        + np.ones(d // 2)
        The exponent is -p / d here, but it should be -2 p / d: there are only d / 2 arrows, and the speed of the
        slowest should be near 1 / 10000.
        - -2 * np.arange
        + -np.arange
        x[..., ::2] and x[..., 1::2] pair neighbouring features, and your result has its features in another order than
        x: at position 0 nothing should change. Take the two halves, x[..., : d // 2] and x[..., d // 2 :].
        - x[..., : d // 2], x[..., d // 2 :]
        + x[..., 0::2], x[..., 1::2]
        This adds sines and cosines, as the first Transformer did with its word vectors. Here each arrow is turned.
        - [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)]
        + [a + np.sin(angles), b + np.cos(angles)]
        x may be a stack of heads with three axes: length, d = x.shape[-2:] takes the last two.
        - x.shape[-2:]
        + x.shape
        For a stack of heads you count the heads as positions: positions go along the axis before the last one,
        x.shape[-2].
        - x.shape[-2:]
        + len(x), x.shape[-1]
        - [:, None]
        + .reshape(-1, *[1] * (x.ndim - 1))
    """,
)


@ROTATE.wrong
def neighbours(x, first=0):
    """You use features 2p and 2p + 1 as an arrow, as the original paper does. Here features p and p + d / 2 are an
    arrow.
    """
    angles, out = table(x, first), np.empty_like(x)
    a, b = x[..., 0::2], x[..., 1::2]
    out[..., 0::2] = a * np.cos(angles) - b * np.sin(angles)
    out[..., 1::2] = a * np.sin(angles) + b * np.cos(angles)
    return out


@ROTATE.right
def by_complex_numbers(x, first=0):
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * table(x, first))
    return np.concatenate([z.real, z.imag], axis=-1)


# -- multi_head --------------------------------------------------------------------------------------------------------


def probe_multi_head(multi_head: Any) -> dict[str, Any]:
    x, w_in, w_out = numbers((5, 8), (24, 8), (8, 8))
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


MULTI_HEAD = Exercise(
    multi_head,
    probe_multi_head,
    real_multi_head,
    source="nn.attention.MultiHeadAttention.forward",
    hints=(
        "Which of q, k and v are compared with each other, and so need positions?",
        "x (5, 6) times w_in transposed (6, 18) is (5, 18): 6 columns each for q, k and v.",
        "q, k, v = (split_heads(part, heads) for part in np.split(x @ w_in.T, 3, axis=1)); "
        "merge_heads(attend(rotate(q), rotate(k), v)) @ w_out.T",
    ),
    changes="""
        Nothing is rotated yet: rotate q and k after the split.
        - rotate(q), rotate(k)
        + q, k
        np.split cuts along axis 0, which are the words here. q, k and v are thirds of the features: axis=1.
        - , axis=1
        +
        The values are rotated too. They are not compared with anything, so they need no positions: leave them as they
        are.
        - rotate(k), v
        + rotate(k), rotate(v)
        This is right with one head. You rotate all d features together and then split them. Each head has its own
        arrows, so split first.
        - split_heads(part, heads) for
        + part for
        - rotate(q), rotate(k), v
        + *(split_heads(part, heads) for part in (rotate(q), rotate(k), v))
        The heads are joined side by side, but w_out does not mix them yet.
        - @ w_out.T
        +
        w_out is stored as (out, in), as PyTorch does: multiply by its transpose, as with w_in.
        - w_out.T
        + w_out
        w_in is stored as (out, in), here (3 d, d), as PyTorch does: x @ w_in.T.
        - w_in.T
        + w_in
        Only the queries are rotated. The score depends on the difference of two positions only if queries and keys are
        both rotated.
        - rotate(k)
        + k
    """,
)


@MULTI_HEAD.wrong
def cut_by_heads_first(x, w_in, w_out, heads):
    """This is right with one head. The features are in the order q, k, v: cut them into these three parts first, then
    cut each part into heads.
    """
    parts = np.split(x @ w_in.T, heads, axis=1)
    return (
        np.concatenate(
            [attend(rotate(q), rotate(k), v) for q, k, v in (np.split(part, 3, axis=1) for part in parts)], axis=1
        )
        @ w_out.T
    )


@MULTI_HEAD.right
def head_by_head(x, w_in, w_out, heads):
    d, out = x.shape[1], np.zeros(x.shape)
    width = d // heads
    for head in range(heads):
        rows = slice(head * width, (head + 1) * width)
        q, k, v = (x @ w_in[at : at + d][rows].T for at in (0, d, 2 * d))
        out += attend(by_complex_numbers(q), by_complex_numbers(k), v) @ w_out[:, rows].T
    return out
