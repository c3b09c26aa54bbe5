"""What chapter 5 builds: softmax, cross-entropy, label smoothing, and their gradient."""

import numpy as np


def softmax(x):
    """Return exp(x) divided by its sum along each row: (rows, n) -> (rows, n). Each row sums to 1."""
    # your turn: exp, then divide by the sum of the row. What must be subtracted from each row first, so that exp(1000)
    # is never computed, and why does this change nothing?
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cross_entropy(logits, target):
    """Return the mean of -log p(target) in nats, for logits (positions, tokens) and integers target (positions,)."""
    # your turn: For each row: log of the sum of exp, minus the score of the target. If the row's largest score is
    # subtracted first, this works for scores of any size.
    x = logits - logits.max(axis=1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(target)), target].mean()


def smoothed(logits, target, smoothing):
    """Return `cross_entropy` with label smoothing from 0 to 1. Positions with target -100 (padding) don't count."""
    # your turn: Keep only the positions that count. Then the loss is (1 - smoothing) times the cross-entropy, plus
    # smoothing times the mean of -log p over all tokens.
    counts = target != -100
    x = logits[counts] - logits[counts].max(axis=1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return (1 - smoothing) * cross_entropy(logits[counts], target[counts]) - smoothing * log_p.mean()


def gradient(logits, target, smoothing):
    """Return the gradient of `smoothed` with respect to the logits: (positions, tokens)."""
    # your turn: What the network said minus what was wanted: p - q, where q is the smoothed target. Which number is it
    # divided by, and what do positions of padding get?
    counts = target != -100
    q = np.full(logits.shape, smoothing / logits.shape[1])
    q[np.arange(len(target)), np.where(counts, target, 0)] += 1 - smoothing
    return (softmax(logits) - q) * counts[:, None] / counts.sum()
