"""The solution of chapter 6: one attention head with its masks."""

import numpy as np


def attend(q, k, v):
    """Return the output (queries, e) of one head for the queries q (queries, d), keys k (keys, d) and values v (keys,
    e).
    """
    # your turn: Compute the scores of all pairs, divided by sqrt(d). Then compute the softmax along each row. Then
    # compute the mean of the values with these weights.
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ v


def causal_mask(queries, keys):
    """Return the causal mask (queries, keys), True for allowed keys. The last query has the last key's position."""
    # your turn: The last query is at the position of the last key. At which position is query i? Query i may look at
    # the keys up to its position.
    position = np.arange(queries)[:, None] + keys - queries
    return np.arange(keys) <= position


def padding_mask(lengths, keys):
    """Return an array (batch, keys), True for words and False for padding, from the sentences' lengths (batch,)."""
    # your turn: In a sentence of n words the keys 0 to n - 1 are words. One comparison computes the whole array if the
    # lengths and the positions are on different axes.
    return np.arange(keys) < np.asarray(lengths)[:, None]


def masked_attend(q, k, v, mask):
    """Compute `attend` with a mask (queries, keys), True for allowed keys. A query without allowed keys gets zeros."""
    # your turn: Which score gives the weight 0 after the softmax, however large the other scores are? And what is the
    # largest score of a row in which every key is forbidden?
    scores = np.where(mask, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    top = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total == 0, 1.0, total) @ v
