"""The solution of chapter 7: splitting and merging heads, rotary positions, and the attention layer."""

import numpy as np


def attend(q, k, v):
    """Compute the attention of chapter 6 with the causal mask, for stacks q, k, v (..., length, d)."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def split_heads(x, heads):
    """Change the shape from (length, d) to (heads, length, d / heads): each head gets d / heads features of a word."""
    # your turn: Cut each row into pieces with one reshape, (length, heads, d / heads). Then exchange two axes. Which?
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def merge_heads(x):
    """Change the shape from (heads, length, n) to (length, heads * n): put the results of all heads side by side."""
    # your turn: Undo the steps of `split_heads` in reversed order, the last step first.
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def rotate(x, first=0):
    """Apply rotary positions to x (..., length, d), where d is even and row 0 is at position `first`.

    Features p and p + d / 2 are an arrow. At position t this arrow is rotated by t * 10000 ** (-2 * p / d).
    """
    # your turn: First compute the angles, an array (length, d / 2), as a column of positions times a row of speeds.
    # Then use the two halves of the features as a and b in the formula, and join a' and b' along the last axis.
    length, d = x.shape[-2:]
    speeds = 10000.0 ** (-2 * np.arange(d // 2) / d)
    angles = np.arange(first, first + length)[:, None] * speeds
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)],
        axis=-1,
    )


def multi_head(x, w_in, w_out, heads):
    """Return causal self-attention with rotary positions of x (length, d), with weights w_in (3 d, d), w_out (d, d)."""
    # your turn: x times the transpose of w_in has 3 d features: first those of q, then those of k, then those of v.
    # Split q, k and v into heads, rotate q and k, attend, merge the heads, and multiply by the transpose of w_out.
    q, k, v = (split_heads(part, heads) for part in np.split(x @ w_in.T, 3, axis=1))
    return merge_heads(attend(rotate(q), rotate(k), v)) @ w_out.T
