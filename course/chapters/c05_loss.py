"""Chapter 5, the exercises: softmax, cross-entropy, label smoothing with padding, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ..exercise import Exercise
from .c05_loss_solution import cross_entropy, gradient, smoothed, softmax

PADDED = np.array([3, -100, 0, 1, -100])


def numbers(*shape: int) -> np.ndarray:
    return 2 * np.random.default_rng(5).standard_normal(shape)


# -- softmax -----------------------------------------------------------------------------------------------------------


def probe_softmax(softmax: Any) -> dict[str, Any]:
    far = np.array([[1000.0, 999.0, 1001.0], [-1000.0, -1001.0, -1003.0]])
    return {
        "the softmax of one row": softmax(numbers(1, 3)),
        "the softmax of 3 rows of 3": softmax(numbers(3, 3)),
        "the softmax of 2 rows of 5": softmax(numbers(2, 5)),
        "the softmax of scores near 1000": softmax(far[:1]),
        "the softmax of a row near 1000 and a row near -1000": softmax(far),
    }


def real_softmax(x: Any) -> np.ndarray:
    return ops.softmax(Tensor(x)).data


SOFTMAX = Exercise(
    softmax,
    probe_softmax,
    real_softmax,
    source="autograd.ops.softmax.Softmax.forward",
    hints=(
        "If you subtract the same number from every score of a row, what happens to exp of each, and to their ratio?",
        "exp(1001) and exp(1000) are infinite; exp(0) = 1 and exp(-1) = 0.37 are not, and their shares are the "
        "same: 0.73 and 0.27.",
        "e = np.exp(x - x.max(axis=1, keepdims=True)); the result is e / e.sum(axis=1, keepdims=True).",
    ),
    changes="""
        The columns sum to 1 here. Each row should sum to 1: use axis=1 in the maximum and in the sum.
        - axis=1
        + axis=0
        All numbers together sum to 1. Each row should sum to 1: sum with axis=1.
        - axis=1, keepdims=True
        +
        Without exp a negative score gives a negative share: first exp, then the division.
        - np.exp(x - x.max(axis=1, keepdims=True))
        + x
        The formula is right, but exp(1000) is infinite, and infinity over infinity is NaN. Subtract the largest number
        of each row first.
        - x - x.max(axis=1, keepdims=True)
        + x
        You subtract the largest number of the whole array. In a row far below it, every number becomes exp(-2000) = 0,
        and the result is 0 / 0. Each row needs its own maximum: axis=1, keepdims=True.
        - x.max(axis=1, keepdims=True)
        + x.max()
        The sums of the rows have the shape (rows,), which NumPy lines up with the columns (chapter 2): keepdims=True
        keeps them as a column.
        - e.sum(axis=1, keepdims=True)
        + e.sum(axis=1)
    """,
)


@SOFTMAX.right
def by_logarithms(x):
    return np.exp(x - np.logaddexp.reduce(x, axis=1)[:, None])


# -- cross_entropy -----------------------------------------------------------------------------------------------------


def probe_cross_entropy(cross_entropy: Any) -> dict[str, Any]:
    target = np.array([3, 0, 0, 1, 2])
    return {
        "the loss of one position": cross_entropy(numbers(1, 4), target[:1]),
        "the loss of 10 equal scores, log 10": cross_entropy(np.zeros((1, 10)), target[:1]),
        "the loss of 5 positions": cross_entropy(numbers(5, 4), target),
        "the loss of scores that are 800 apart": cross_entropy(np.array([[0.0, 800.0], [1000.0, 0.0]]), target[1:3]),
    }


def real_cross_entropy(logits: Any, target: Any) -> float:
    return real_smoothed(logits, target, 0.0)


CROSS_ENTROPY = Exercise(
    cross_entropy,
    probe_cross_entropy,
    real_cross_entropy,
    source="autograd.ops.loss.cross_entropy",
    hints=(
        "What is the logarithm of a quotient? So what is log p of a token, without computing p?",
        "For the scores 2, 0 and the target 0: log(e² + 1) - 2 = 0.127. That is -log p of the target, as p = 0.88.",
        "log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True)), after the maximum of each row has been subtracted "
        "from x; then -log_p[np.arange(len(target)), target].mean().",
    ),
    changes="""
        This is the sum over the positions; the loss is their mean.
        - .mean()
        + .sum()
        The sign is missing: log p is negative, and the loss is -log p.
        - return -log_p
        + return log_p
        This loss is in bits, with logarithms to the base 2. Here the unit is nats: use np.log.
        - .mean()
        + .mean() / np.log(2)
        This is the mean of -log p over all tokens. Only the token that came next counts.
        - [np.arange(len(target)), target]
        +
        This is right as long as no probability is 0. But exp(-800) is rounded to 0, and -log 0 is infinite: compute log
        p as x_t minus the log of the sum of exp(x).
        - x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        + np.log(softmax(logits))
        A small number added to p keeps the logarithm finite, but every loss is a little wrong, and none can be more
        than 20.7. Compute log p as x_t minus the log of the sum of exp(x).
        - x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        + np.log(softmax(logits) + 1e-9)
        log_p[:, target] takes the targets of all rows for each row. log_p[np.arange(len(target)), target] takes one
        number for each row.
        - np.arange(len(target)), target
        + :, target
        p[:, target] takes the targets of all rows for each row. p[np.arange(len(target)), target] takes one number for
        each row.
        - x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        + np.log(softmax(logits))
        - np.arange(len(target)), target
        + :, target
        This is the mean of 1 - p. The cost of a token is -log p.
        - x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        + softmax(logits) - 1
    """,
)


@CROSS_ENTROPY.right
def position_by_position(logits, target):
    costs = [np.logaddexp.reduce(row) - row[t] for row, t in zip(logits, target, strict=True)]
    return sum(costs) / len(costs)


# -- smoothed ----------------------------------------------------------------------------------------------------------


def probe_smoothed(smoothed: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the loss without smoothing and padding": smoothed(numbers(5, 4), target, 0.0),
        "the loss with a smoothing of 0.1, without padding": smoothed(numbers(5, 4), target, 0.1),
        "the loss with padding, without smoothing": smoothed(numbers(5, 4), PADDED, 0.0),
        "the loss with padding and a smoothing of 0.2": smoothed(numbers(5, 4), PADDED, 0.2),
        "the loss with a smoothing of 1": smoothed(numbers(5, 4), target, 1.0),
        "the loss of scores near 1000": smoothed(numbers(5, 4) + 1000, target, 0.1),
    }


def real_smoothed(logits: Any, target: Any, smoothing: float) -> float:
    return float(ops.cross_entropy(Tensor(logits), target, label_smoothing=smoothing).data)


SMOOTHED = Exercise(
    smoothed,
    probe_smoothed,
    real_smoothed,
    source="autograd.ops.loss.cross_entropy",
    hints=(
        "Which positions count? And which two means over these positions make up the loss?",
        "With the targets 3, -100, 0 two of the 3 positions count. With smoothing 0.1 the loss is 0.9 of the "
        "cross-entropy and 0.1 of the mean of -log p over all tokens of both.",
        "counts = target != -100; (1 - smoothing) * cross_entropy(logits[counts], target[counts]) - smoothing * "
        "log_p.mean(), with log_p of logits[counts] as in cross_entropy.",
    ),
    changes="""
        You give the share s only to the other tokens, s / (V - 1) each. Here all V tokens get s / V, including the
        target. (Both formulas are in use; this exercise checks the one in the text.)
        - smoothing * log_p.mean()
        + smoothing * (log_p.sum(axis=1).mean() + cross_entropy(logits[counts], target[counts])) / (log_p.shape[1] - 1)
        The share s is added, but it is not subtracted from the target: the target's part is (1 - s) times -log p.
        - (1 - smoothing) * cross
        + cross
        The smoothing is V times too strong: each token has the weight s / V, so it is s times the *mean* over the
        tokens.
        - log_p.mean()
        + log_p.sum(axis=1).mean()
        -100 is padding and not a token: select the positions with target != -100 before you look anything up.
        - target != -100
        + slice(None)
        Padding has no target, but its part of the smoothing is still in the sum. Leave padding out of both sums.
        - logits[counts] - logits[counts].max
        + logits - logits.max
        - log_p.mean()
        + log_p.mean(axis=1).sum() / counts.sum()
        The sum is right, but you divide by the number of all positions. Divide by the number of those that count.
        - log_p.mean()
        + log_p.mean() * counts.mean()
        - return (1 - smoothing)
        + return counts.mean() * (1 - smoothing)
        The formula is right, but exp(1000) is infinite, and so is its logarithm. Subtract the largest score of each row
        first, as in cross_entropy.
        - logits[counts] - logits[counts].max(axis=1, keepdims=True)
        + logits[counts]
        The smoothing has no effect yet.
        - (1 - smoothing) * cross_entropy(logits[counts], target[counts]) - smoothing * log_p.mean()
        + cross_entropy(logits[counts], target[counts])
    """,
)


@SMOOTHED.right
def with_the_target_distribution(logits, target, smoothing):
    costs = []
    for row, t in zip(logits, target, strict=True):
        if t >= 0:
            q = (1 - smoothing) * np.eye(len(row))[t] + smoothing / len(row)
            costs.append(q @ (np.logaddexp.reduce(row) - row))
    return np.mean(costs)


# -- gradient ----------------------------------------------------------------------------------------------------------


def probe_gradient(gradient: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the gradient of one position without smoothing": gradient(numbers(1, 4), target[:1], 0.0),
        "the gradient of 5 positions without smoothing": gradient(numbers(5, 4), target, 0.0),
        "the gradient with a smoothing of 0.2": gradient(numbers(5, 4), target, 0.2),
        "the gradient with padding and a smoothing of 0.2": gradient(numbers(5, 4), PADDED, 0.2),
    }


def real_gradient(logits: Any, target: Any, smoothing: float) -> Any:
    leaf = Tensor(logits, requires_grad=True)
    ops.cross_entropy(leaf, target, label_smoothing=smoothing).backward()
    return leaf.grad


GRADIENT = Exercise(
    gradient,
    probe_gradient,
    real_gradient,
    source="autograd.ops.loss.cross_entropy_plain",
    hints=(
        "First without padding and smoothing: which number of each row of the softmax is different in the gradient, "
        "and by how much?",
        "With 4 tokens and smoothing 0.1 the wanted distribution is 0.025 everywhere and 0.925 at the target. A row "
        "of padding gets 0 everywhere.",
        "q = np.full(logits.shape, smoothing / V); q[np.arange(len(target)), np.where(counts, target, 0)] += 1 - "
        "smoothing; then (softmax(logits) - q) * counts[:, None] / counts.sum(), with counts = target != -100.",
    ),
    changes="""
        The sign is reversed: the gradient is p - q. The score of the target gets a negative gradient, because raising
        this score lowers the loss.
        - softmax(logits) - q
        + q - softmax(logits)
        The loss is a mean, so the gradient is divided by the number of positions too.
        - / counts.sum()
        +
        You divide by the number of all positions, but the mean is over the positions without padding.
        - counts.sum()
        + len(target)
        Positions of padding have a gradient here. They don't count in the loss, so their gradient is 0.
        - * counts[:, None]
        +
        -100 is padding and not a token, so it can't be an index: replace it by 0 there, and set the gradient of these
        rows to 0.
        - np.where(counts, target, 0)
        + target
        - * counts[:, None] / counts.sum()
        + / len(target)
        This is right without smoothing. With smoothing the wanted distribution is q: s / V for each token, plus 1 - s
        for the target.
        - smoothing / logits.shape[1]
        + 0.0
        - 1 - smoothing
        + 1
        Only the score of the target gets a gradient here. But all scores are part of the softmax: the gradient of each
        is p - q.
        - * counts[:, None]
        + * (q == q.max(axis=1, keepdims=True)) * counts[:, None]
    """,
)


@GRADIENT.right
def row_by_row(logits, target, smoothing):
    out, count = np.zeros_like(logits), np.sum(target >= 0)
    for i, t in enumerate(target):
        if t >= 0:
            out[i] = by_logarithms(logits[i : i + 1])[0] - smoothing / logits.shape[1]
            out[i, t] -= 1 - smoothing
    return out / count
