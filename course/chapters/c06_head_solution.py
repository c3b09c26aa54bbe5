"""What chapter 6 builds: one attention head with its masks; the learner's file is cut from this one."""

import numpy as np


def attend(q, k, v):
    """Compute one head: queries q (queries, d), keys k (keys, d), values v (keys, e) -> (queries, e), float arrays."""
    # your turn: Three steps: the scores of all pairs, divided by sqrt(d); a softmax along each row; the mean of the
    # values with these weights.
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ v


def causal_mask(queries, keys):
    """Return the causal mask (queries, keys), True = may look. The last query is at the position of the last key."""
    # your turn: At which position of the sequence is query i, if the last of `queries` is at the position of the last
    # of `keys`? It may look at the keys up to that one.
    position = np.arange(queries)[:, None] + keys - queries
    return np.arange(keys) <= position


def padding_mask(lengths, keys):
    """Return which keys are words and not padding: integers lengths (batch,) -> (batch, keys), True = a word."""
    # your turn: In a sentence of n words the keys 0 to n - 1 are words. One comparison makes the whole array, if the
    # lengths and the positions are on different axes.
    return np.arange(keys) < np.asarray(lengths)[:, None]


def masked_attend(q, k, v, mask):
    """Compute `attend` with a mask (queries, keys), True = may look. A query that may look at nothing gets zeros."""
    # your turn: Which score gives the weight 0 after the softmax, however large the others are? And what is the largest
    # score of a row in which every key is forbidden?
    scores = np.where(mask, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    top = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total == 0, 1.0, total) @ v
