"""Chapter 5, the exercises: softmax, cross-entropy, label smoothing with padding, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ..exercise import Exercise, Mistake
from .c05_loss_solution import cross_entropy, softmax

PADDED = np.array([3, -100, 0, 1, -100])


def numbers(*shape: int) -> np.ndarray:
    return 2 * np.random.default_rng(5).standard_normal(shape)


def probe_softmax(softmax: Any) -> dict[str, Any]:
    far = np.array([[1000.0, 999.0, 1001.0], [-1000.0, -1001.0, -1003.0]])
    return {
        "the softmax of one row": softmax(numbers(1, 3)),
        "the softmax of 3 rows of 3": softmax(numbers(3, 3)),
        "the softmax of 2 rows of 5": softmax(numbers(2, 5)),
        "the softmax of scores near 1000": softmax(far[:1]),
        "the softmax of a row near 1000 and a row near -1000": softmax(far),
    }


def probe_cross_entropy(cross_entropy: Any) -> dict[str, Any]:
    target = np.array([3, 0, 0, 1, 2])
    return {
        "the loss of one position": cross_entropy(numbers(1, 4), target[:1]),
        "the loss of 10 equal scores, log 10": cross_entropy(np.zeros((1, 10)), target[:1]),
        "the loss of 5 positions": cross_entropy(numbers(5, 4), target),
        "the loss of scores that are 800 apart": cross_entropy(np.array([[0.0, 800.0], [1000.0, 0.0]]), target[1:3]),
    }


def probe_smoothed(smoothed: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the loss without smoothing and padding": smoothed(numbers(5, 4), target, 0.0),
        "the loss with a smoothing of 0.1, without padding": smoothed(numbers(5, 4), target, 0.1),
        "the loss with padding, without smoothing": smoothed(numbers(5, 4), PADDED, 0.0),
        "the loss with padding and a smoothing of 0.2": smoothed(numbers(5, 4), PADDED, 0.2),
        "the loss with a smoothing of 1": smoothed(numbers(5, 4), target, 1.0),
    }


def probe_gradient(gradient: Any) -> dict[str, Any]:
    target = np.array([3, 2, 0, 1, 2])
    return {
        "the gradient of one position without smoothing": gradient(numbers(1, 4), target[:1], 0.0),
        "the gradient of 5 positions without smoothing": gradient(numbers(5, 4), target, 0.0),
        "the gradient with a smoothing of 0.2": gradient(numbers(5, 4), target, 0.2),
        "the gradient with padding and a smoothing of 0.2": gradient(numbers(5, 4), PADDED, 0.2),
    }


# -- handloom's own ------------------------------------------------------------------------------------------------


def real_softmax(x: Any) -> np.ndarray:
    return ops.softmax(Tensor(x)).data


def real_smoothed(logits: Any, target: Any, smoothing: float) -> float:
    return float(ops.cross_entropy(Tensor(logits), target, label_smoothing=smoothing).data)


def real_cross_entropy(logits: Any, target: Any) -> float:
    return real_smoothed(logits, target, 0.0)


def real_gradient(logits: Any, target: Any, smoothing: float) -> Any:
    leaf = Tensor(logits, requires_grad=True)
    ops.cross_entropy(leaf, target, label_smoothing=smoothing).backward()
    return leaf.grad


# -- typical mistakes ----------------------------------------------------------------------------------------------


def down_the_columns(x):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


def over_everything(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def without_exp(x):
    return x / x.sum(axis=1, keepdims=True)


def overflows(x):
    e = np.exp(x)
    return e / e.sum(axis=1, keepdims=True)


def one_maximum_for_all(x):
    e = np.exp(x - x.max())
    return e / e.sum(axis=1, keepdims=True)


def without_keepdims(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1)


def logarithms(logits):
    x = logits - logits.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def of_target(values, target):
    return values[np.arange(len(target)), target]


def sum_of_costs(logits, target):
    return -of_target(logarithms(logits), target).sum()


def sign_forgotten(logits, target):
    return of_target(logarithms(logits), target).mean()


def in_bits(logits, target):
    return -of_target(logarithms(logits), target).mean() / np.log(2)


def of_all_tokens(logits, target):
    return -logarithms(logits).mean()


def logarithm_of_zero(logits, target):
    return -np.log(of_target(softmax(logits), target)).mean()


def a_little_added(logits, target):
    return -np.log(of_target(softmax(logits), target) + 1e-9).mean()


def whole_columns(logits, target):
    return -logarithms(logits)[:, target].mean()


def columns_of_probabilities(logits, target):
    return -np.log(softmax(logits)[:, target]).mean()


def no_logarithm(logits, target):
    return (1 - of_target(softmax(logits), target)).mean()


def kept(logits, target):
    counts = target != -100
    return logits[counts], target[counts]


def shared_by_the_others(logits, target, smoothing):
    logits, target = kept(logits, target)
    log_p = logarithms(logits)
    q = np.full(logits.shape, smoothing / (logits.shape[1] - 1))
    q[np.arange(len(target)), target] = 1 - smoothing
    return -(q * log_p).sum(axis=1).mean()


def not_taken_off(logits, target, smoothing):
    logits, target = kept(logits, target)
    return cross_entropy(logits, target) - smoothing * logarithms(logits).mean()


def sum_over_tokens(logits, target, smoothing):
    logits, target = kept(logits, target)
    loss = (1 - smoothing) * cross_entropy(logits, target)
    return loss - smoothing * logarithms(logits).sum(axis=1).mean()


def padding_is_a_token(logits, target, smoothing):
    return (1 - smoothing) * cross_entropy(logits, target) - smoothing * logarithms(logits).mean()


def padding_smoothed(logits, target, smoothing):
    counts = target != -100
    costs = -(1 - smoothing) * of_target(logarithms(logits), np.where(counts, target, 0)) * counts
    return (costs - smoothing * logarithms(logits).mean(axis=1)).sum() / counts.sum()


def padding_in_the_divisor(logits, target, smoothing):
    counts = target != -100
    costs = -(1 - smoothing) * of_target(logarithms(logits), np.where(counts, target, 0))
    return ((costs - smoothing * logarithms(logits).mean(axis=1)) * counts).mean()


def no_smoothing(logits, target, smoothing):
    return cross_entropy(*kept(logits, target))


def wanted(logits, target, smoothing):
    q = np.full(logits.shape, smoothing / logits.shape[1])
    q[np.arange(len(target)), np.where(target == -100, 0, target)] += 1 - smoothing
    return q


def sign_turned(logits, target, smoothing):
    counts = target != -100
    return (wanted(logits, target, smoothing) - softmax(logits)) * counts[:, None] / counts.sum()


def not_the_mean(logits, target, smoothing):
    return (softmax(logits) - wanted(logits, target, smoothing)) * (target != -100)[:, None]


def divided_by_all(logits, target, smoothing):
    return not_the_mean(logits, target, smoothing) / len(target)


def padding_pulls(logits, target, smoothing):
    return (softmax(logits) - wanted(logits, target, smoothing)) / (target != -100).sum()


def one_hot(logits, target, smoothing):
    counts = target != -100
    return (softmax(logits) - wanted(logits, target, 0.0)) * counts[:, None] / counts.sum()


def padding_is_an_index(logits, target, smoothing):
    q = np.full(logits.shape, smoothing / logits.shape[1])
    q[np.arange(len(target)), target] += 1 - smoothing
    return (softmax(logits) - q) / len(target)


def target_alone(logits, target, smoothing):
    counts = target != -100
    q = wanted(logits, target, smoothing)
    hit = wanted(logits, target, 0.0)
    return (softmax(logits) - q) * hit * counts[:, None] / counts.sum()


# -- right, and written differently --------------------------------------------------------------------------------


def by_logarithms(x):
    return np.exp(x - np.logaddexp.reduce(x, axis=1)[:, None])


def position_by_position(logits, target):
    costs = [np.logaddexp.reduce(row) - row[t] for row, t in zip(logits, target, strict=True)]
    return sum(costs) / len(costs)


def with_the_target_distribution(logits, target, smoothing):
    costs = []
    for row, t in zip(logits, target, strict=True):
        if t >= 0:
            q = (1 - smoothing) * np.eye(len(row))[t] + smoothing / len(row)
            costs.append(q @ (np.logaddexp.reduce(row) - row))
    return np.mean(costs)


def row_by_row(logits, target, smoothing):
    out, count = np.zeros_like(logits), np.sum(target >= 0)
    for i, t in enumerate(target):
        if t >= 0:
            out[i] = by_logarithms(logits[i : i + 1])[0] - smoothing / logits.shape[1]
            out[i, t] -= 1 - smoothing
    return out / count


EXERCISES = [
    Exercise(
        name="softmax",
        real=real_softmax,
        probe=probe_softmax,
        mistakes=[
            Mistake(down_the_columns, "The columns sum to 1 here. Each row should: axis=1, in maximum and sum."),
            Mistake(over_everything, "All numbers together sum to 1. Each row for itself should: sum with axis=1."),
            Mistake(without_exp, "Without exp a negative score gives a negative share: first exp, then the division."),
            Mistake(
                overflows,
                "The formula is right, but exp(1000) is infinite, and infinity over infinity is NaN. Take the largest "
                "number off each row first.",
            ),
            Mistake(
                one_maximum_for_all,
                "You take the largest number of the whole array off. A row far below it then has nothing but "
                "exp(-2000) = 0, and 0 / 0. Each row needs its own maximum: axis=1, keepdims=True.",
            ),
            Mistake(
                without_keepdims,
                "The sums of the rows have the shape (rows,), which NumPy lines up with the columns (chapter 2): "
                "keepdims=True keeps them as a column.",
            ),
        ],
        hints=(
            "Three steps: take the row's maximum off, exp, divide by the row's sum.",
            "x.max(axis=1, keepdims=True) has the shape (rows, 1), so that it is subtracted row by row.",
            "e = np.exp(x - x.max(axis=1, keepdims=True)); the result is e / e.sum(axis=1, keepdims=True).",
        ),
        another=by_logarithms,
        source="autograd.ops.softmax.Softmax.forward",
    ),
    Exercise(
        name="cross_entropy",
        real=real_cross_entropy,
        probe=probe_cross_entropy,
        mistakes=[
            Mistake(sum_of_costs, "This is the sum over the positions; the loss is their mean."),
            Mistake(sign_forgotten, "The sign is missing: log p is negative, and the loss is -log p."),
            Mistake(in_bits, "These are bits, logarithms to the base 2. Here it is nats: np.log."),
            Mistake(of_all_tokens, "This is the mean of -log p over all tokens. Only the token that came counts."),
            Mistake(
                logarithm_of_zero,
                "Right as long as no probability is 0. But exp(-800) is 0 for a computer, and -log 0 is infinite: "
                "compute log p as x_t minus the log of the sum of exp(x).",
            ),
            Mistake(
                a_little_added,
                "A small number added to p keeps the logarithm finite, but every loss is a little wrong, and none can "
                "be more than 20.7. Compute log p as x_t minus the log of the sum of exp(x).",
            ),
            Mistake(
                whole_columns,
                "log_p[:, target] takes for each row the targets of all rows. One number for each row is "
                "log_p[np.arange(len(target)), target].",
            ),
            Mistake(
                columns_of_probabilities,
                "p[:, target] takes for each row the targets of all rows. One number for each row is "
                "p[np.arange(len(target)), target].",
            ),
            Mistake(no_logarithm, "This is the mean of 1 - p. The cost of a token is -log p."),
        ],
        hints=(
            "-log p_t = log(sum of exp(x)) - x_t, for each row. First take the row's maximum off x: it cancels.",
            "log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True)) holds log p of all tokens.",
            "log_p[np.arange(len(target)), target] picks one number from each row; the loss is minus its mean.",
        ),
        another=position_by_position,
        source="autograd.ops.loss.cross_entropy",
    ),
    Exercise(
        name="smoothed",
        real=real_smoothed,
        probe=probe_smoothed,
        mistakes=[
            Mistake(
                shared_by_the_others,
                "You give the share s to the other tokens only, s / (V - 1) each. Here all V tokens get s / V, that "
                "which came too. (Both are in use; it is the text's formula that is checked.)",
            ),
            Mistake(
                not_taken_off,
                "The share s is added but not taken off the token that came: its part is (1 - s) times -log p.",
            ),
            Mistake(
                sum_over_tokens,
                "The smoothing is V times too strong: each token has the weight s / V, so it is s times the *mean* "
                "over the tokens.",
            ),
            Mistake(
                padding_is_a_token,
                "-100 is no token but padding: pick the positions with target != -100 before you look anything up.",
            ),
            Mistake(
                padding_smoothed,
                "Padding has no target, but its part of the smoothing is still in the sum. It should count nowhere.",
            ),
            Mistake(
                padding_in_the_divisor,
                "The sum is right, but you divide by all positions. Divide by those that count.",
            ),
            Mistake(no_smoothing, "The smoothing has no effect yet."),
        ],
        hints=(
            "counts = target != -100 is True where something counts. logits[counts] and target[counts] are what is "
            "left; go on with these alone.",
            "The first part is (1 - smoothing) times cross_entropy(...) of what is left. The second is smoothing times "
            "the mean of -log p over all tokens and positions.",
            "With log_p as in cross_entropy, the second part is -smoothing * log_p.mean().",
        ),
        another=with_the_target_distribution,
        source="autograd.ops.loss.cross_entropy",
    ),
    Exercise(
        name="gradient",
        real=real_gradient,
        probe=probe_gradient,
        mistakes=[
            Mistake(
                sign_turned,
                "The sign is turned: the gradient is p - q. The score of the token that came gets a negative one, "
                "since raising it lowers the loss.",
            ),
            Mistake(not_the_mean, "The loss is a mean, so the gradient is divided by the number of positions too."),
            Mistake(
                divided_by_all,
                "You divide by all positions, but the mean is over those that are no padding.",
            ),
            Mistake(
                padding_pulls,
                "Positions of padding have a gradient here. They don't count in the loss, so theirs is 0.",
            ),
            Mistake(
                padding_is_an_index,
                "-100 is padding and no token, so it can't be an index: put 0 in its place there, and make the "
                "gradient of these rows 0.",
            ),
            Mistake(
                one_hot,
                "Right without smoothing. With it the target is q: s / V for each token, and 1 - s more for the one "
                "that came.",
            ),
            Mistake(
                target_alone,
                "Only the score of the token that came gets a gradient here. All scores are in the softmax: the others "
                "are pushed down by p - q as well.",
            ),
        ],
        hints=(
            "First without padding and smoothing: softmax(logits), minus 1 at the target of each row, divided by the "
            "number of rows.",
            "With smoothing: q = np.full(logits.shape, smoothing / V), and 1 - smoothing more at each row's target.",
            "Multiply by (target != -100)[:, None] and divide by how many of these are True. So that -100 is no index, "
            "put 0 in its place before: np.where(counts, target, 0).",
        ),
        another=row_by_row,
        source="autograd.ops.loss.cross_entropy_plain",
    ),
]
