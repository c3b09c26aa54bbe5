"""What chapter 7 builds: heads, split and merged, rotary positions, and the attention layer around them."""

import numpy as np


def attend(q, k, v):
    """Compute chapter 6's head with the causal mask, for a stack: (..., length, d) -> (..., length, d)."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def split_heads(x, heads):
    """(length, d) -> (heads, length, d / heads): each head gets its own features of every word."""
    # your turn: Cut each row into pieces with one reshape, (length, heads, d / heads). Then which two axes must change
    # places?
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def merge_heads(x):
    """(heads, length, n) -> (length, heads * n): for each word the results of all heads side by side."""
    # your turn: Undo the steps of `split_heads` in reversed order, the last step first.
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def rotate(x, first=0):
    """Rotary positions: x (..., length, d), d even; row 0 is at position `first`. The result has the same shape.

    Features p and p + d / 2 are an arrow. At position t it is turned by t * 10000 ** (-2 * p / d).
    """
    # your turn: First compute the angles, a table (length, d / 2): the positions as a column times the speeds as a row.
    # Then the two halves of the features are a and b of the formula; join the two results side by side.
    length, d = x.shape[-2:]
    speeds = 10000.0 ** (-2 * np.arange(d // 2) / d)
    angles = np.arange(first, first + length)[:, None] * speeds
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)],
        axis=-1,
    )


def multi_head(x, w_in, w_out, heads):
    """Causal self-attention with rotary positions: x (length, d), w_in (3 d, d), w_out (d, d) -> (length, d)."""
    # your turn: x times the transpose of w_in has 3 d features: first those of q, then those of k, then those of v.
    # Split each of the three into heads, rotate the two that are compared, attend, merge, and multiply by the transpose
    # of w_out.
    q, k, v = (split_heads(part, heads) for part in np.split(x @ w_in.T, 3, axis=1))
    return merge_heads(attend(rotate(q), rotate(k), v)) @ w_out.T
