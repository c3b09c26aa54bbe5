"""The solution of chapter 5: softmax, cross-entropy, label smoothing, and the gradient of the loss."""

import numpy as np


def softmax(x):
    """Return exp(x) divided by its sum along each row: (rows, n) -> (rows, n). Each row sums to 1."""
    # your turn: Compute exp, then divide by the sum of each row. What must be subtracted from each row first, so that
    # exp(1000) is never computed, and why does this change nothing?
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cross_entropy(logits, target):
    """Return the mean of -log p(target) in nats, for logits (positions, tokens) and integers target (positions,)."""
    # your turn: For each row compute the logarithm of the sum of exp, minus the score of the target. Return the mean
    # over the rows. If the row's largest score is subtracted first, this works for scores of any size.
    x = logits - logits.max(axis=1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(target)), target].mean()


def smoothed(logits, target, smoothing):
    """Return the mean loss with label smoothing (0 to 1), without positions with target -100 (padding)."""
    # your turn: Remove the positions of padding. Then the loss is (1 - smoothing) times the cross-entropy, plus
    # smoothing times the mean of -log p over all tokens.
    counts = target != -100
    x = logits[counts] - logits[counts].max(axis=1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return (1 - smoothing) * cross_entropy(logits[counts], target[counts]) - smoothing * log_p.mean()


def gradient(logits, target, smoothing):
    """Return the gradient of `smoothed` with respect to the logits: (positions, tokens)."""
    # your turn: The gradient is the prediction minus the target, p - q, divided by a number. q is the smoothed target.
    # What is the number, and what is the gradient at positions of padding?
    counts = target != -100
    q = np.full(logits.shape, smoothing / logits.shape[1])
    q[np.arange(len(target)), np.where(counts, target, 0)] += 1 - smoothing
    return (softmax(logits) - q) * counts[:, None] / counts.sum()
