"""Chapter 13, the exercises: a running sum of exponentials, one block, and attention in blocks forward and backward."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ..exercise import Exercise, need
from .c13_blocks_solution import backward, forward, running_sum, slices, take_block

LONG = 400  # number of queries and keys in the probe that measures the memory


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(13)
    return [rng.standard_normal(shape) for shape in shapes]


def holds_the_table(call: Callable[[], Any]) -> bool:
    """Return whether the peak memory of a call is more than half of the size of the whole table of scores."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before > LONG * LONG * 8 / 2
    finally:
        if not running:
            tracemalloc.stop()


def blocked(q: Any, k: Any, v: Any, size: int) -> Any:
    return ops.attention(*(x[None, None] for x in (q, k, v)), method="blocked", block_size=size)


# -- running_sum -------------------------------------------------------------------------------------------------------


def probe_running_sum(running_sum: Any) -> dict[str, Any]:
    (drawn,) = numbers((12,))
    rising = [np.array([0.0, 1.0]), np.array([3.0]), np.array([2.0, 5.0])]

    def pair(blocks: list[np.ndarray]) -> np.ndarray:
        return np.array(need(running_sum(blocks), tuple, "running_sum(...)"), dtype=float)

    return {
        "m and total of one block": pair([drawn]),
        "m and total of three blocks, the largest number first": pair(np.split(np.sort(drawn)[::-1], 3)),
        "m and total of three blocks that rise": pair(rising),
        "m and total of numbers near 1000": pair(np.split(1000 + 3 * drawn, 4)),
    }


def real_running_sum(blocks):
    """Return the largest number, and the total from the largest output of handloom's log_softmax."""
    whole = np.concatenate(blocks)
    return whole.max(), np.exp(ops.log_softmax(whole).data * -1).min()


RUNNING_SUM = Exercise(
    running_sum,
    probe_running_sum,
    real_running_sum,
    source="autograd.ops.attention_blocked.BlockedAttention.forward",
    hints=(
        "The largest number grows from 3 to 5. All terms of the old sum were relative to 3: by which one factor do "
        "they become relative to 5?",
        "By exp(3 - 5) = 0.135. For the first block it is exp(-infinity) = 0.",
        "new = max(m, numbers.max()); total = total * np.exp(m - new) + np.exp(numbers - new).sum(); m = new.",
    ),
    changes="""
        This is right as long as the largest number comes first. When a larger number comes, the old sum is still
        relative to the old m, so it must shrink.
        - total * np.exp(m - new)
        + total
        The old sum is multiplied by exp(m' - m), which is above 1. It has to shrink: exp(m - m').
        - np.exp(m - new)
        + np.exp(new - m)
        m is the largest number of the last block. It should be the largest number so far: max(m, ...).
        - max(m, numbers.max())
        + numbers.max()
        The numbers of the block are taken relative to the old m, which is -inf at first. They must be relative to the
        new m: exp(number - m').
        - np.exp(numbers - new)
        + np.exp(numbers - m)
        This sums exp(number) itself, and m is always 0. Near 1000 that is infinity.
        - max(m, numbers.max())
        + 0.0
    """,
)


@RUNNING_SUM.right
def two_at_a_time(blocks):
    pairs = [(block.max(), np.exp(block - block.max()).sum()) for block in blocks]
    m, total = pairs[0]
    for other, more in pairs[1:]:
        m, total = max(m, other), total * np.exp(min(0.0, m - other)) + more * np.exp(min(0.0, other - m))
    return m, total


# -- take_block --------------------------------------------------------------------------------------------------------


NAMES = "m", "total", "o"


def first_block(scores, values):
    """Return m, total and o after the first block."""
    top = scores.max(axis=1)
    p = np.exp(scores - top[:, None])
    return top, p.sum(axis=1), p @ values


def probe_take_block(take_block: Any) -> dict[str, Any]:
    scores, values = numbers((3, 8), (8, 2))
    scores *= 3
    scores[0, 1] = 9.0  # for this query, the second block has no larger score
    state = np.full(3, -np.inf), np.zeros(3), np.zeros((3, 2))
    first = need(take_block(*state, scores[:, :4], values[:4]), tuple, "take_block(...)")
    given = first_block(scores[:, :4], values[:4])
    second = take_block(*given, scores[:, 4:], values[4:])
    found = {f"{name} after the first block": x for name, x in zip(NAMES, first, strict=True)}
    return found | {f"{name} after the second block": x for name, x in zip(NAMES, second, strict=True)}


def real_take_block(m, total, o, scores, values):
    """Call handloom's attention with the earlier blocks as one key, with score m + log(total) and value o / total."""
    if not total.any():
        return first_block(scores, values)
    before = np.concatenate([(m + np.log(total))[:, None], scores], axis=1)
    top = np.maximum(m, scores.max(axis=1))
    grown = np.exp(before[:, 0] - top - ops.log_softmax(before).data[:, 0])
    rows = [
        blocked(np.eye(1), row[:, None], np.concatenate([o[[i]] / total[i], values]), len(row)).data[0, 0, 0]
        for i, row in enumerate(before)
    ]
    return top, grown, np.stack(rows) * grown[:, None]


TAKE_BLOCK = Exercise(
    take_block,
    probe_take_block,
    real_take_block,
    source="autograd.ops.attention_blocked.BlockedAttention.forward",
    hints=(
        "o is a sum with the same weights as total. By what must it be multiplied if the maximum grows?",
        "For 2 queries there are 2 maxima and 2 factors: one for each row of o. As a column the factors have the "
        "shape (2, 1).",
        "new = np.maximum(m, scores.max(axis=1)); shrink = np.exp(m - new); p = np.exp(scores - new[:, None]); then "
        "total * shrink + p.sum(axis=1) and o * shrink[:, None] + p @ values.",
    ),
    changes="""
        m and total are right. o is a sum with the same weights, so it must shrink by the same factor.
        - o * shrink[:, None]
        + o
        o is right, but total is not: it must shrink by the same factor.
        - total * shrink
        + total
        The factor is inverted. The new m is the larger one, so the old sum must shrink: exp(m - m').
        - m - new
        + new - m
        The weights of the block are divided by their sum at once. Divide at the very end, by the sum over all blocks,
        which total collects.
        - p = np.exp(scores - new[:, None])
        + p = np.exp(scores - new[:, None])
        + p = p / p.sum(axis=1, keepdims=True)
        m forgets the earlier blocks: take the larger of the old m and the new one.
        - np.maximum(m, scores.max(axis=1))
        + scores.max(axis=1)
        You take one m for all queries. Each query has its own m, the largest score of its row: axis=1.
        - np.maximum(m, scores.max(axis=1))
        + np.full(len(m), max(m.max(), scores.max()))
    """,
)


@TAKE_BLOCK.right
def query_by_query(m, total, o, scores, values):
    rows = []
    for i, row in enumerate(scores):
        new = max(m[i], max(row))
        weights = [np.exp(score - new) for score in row]
        shrink = np.exp(m[i] - new)
        mixed = o[i] * shrink + sum(w * value for w, value in zip(weights, values, strict=True))
        rows.append((new, total[i] * shrink + sum(weights), mixed))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


# -- forward -----------------------------------------------------------------------------------------------------------


class _Keys(np.ndarray):
    """An array that records, for each matrix product, whether all 7 keys take part."""

    noted: list[bool]

    def __array_finalize__(self, other: Any) -> None:
        self.noted = getattr(other, "noted", [])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.matmul:
            self.noted += [isinstance(x, _Keys) and 7 in x.shape for x in inputs]
        plain = [x.view(np.ndarray) if isinstance(x, _Keys) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)


def multiplies_all(compute: Any, k: np.ndarray) -> bool:
    """Return whether `compute` multiplies all 7 keys in one product, and so does not use blocks."""
    keys = k.view(_Keys)
    keys.noted = []
    compute(keys)
    return any(keys.noted)


def probe_forward(forward: Any) -> dict[str, Any]:
    q, k, v = numbers((3, 4), (7, 4), (7, 2))
    long = numbers((LONG, 4), (LONG, 4), (LONG, 2))
    one = need(forward(q, k, v, 7), tuple, "forward(...)")
    three = forward(q, k, v, 3)
    return {
        "the output with all keys in one block": one[0],
        "the output with blocks of 3, 3 and 1 keys": three[0],
        "log_sum, the logarithm of each row's sum": three[1],
        "the output with scores near 1000": forward(q * 40, k * 40, v, 2)[0],
        "whether the whole table was held at a time": holds_the_table(lambda: forward(*long, 40)),
        "whether all keys were multiplied at a time": multiplies_all(lambda k: forward(q, k, v, 3), k),
    }


def real_forward(q, k, v, size):
    k = np.asarray(k)
    scores = q @ k.T / np.sqrt(q.shape[1]) if len(q) < LONG else np.zeros((1, 1))
    return blocked(q, k, v, size).data[0, 0], np.logaddexp.reduce(scores, axis=1)


FORWARD = Exercise(
    forward,
    probe_forward,
    real_forward,
    source="autograd.ops.attention_blocked.BlockedAttention.forward",
    hints=(
        "What does take_block need to know of a block, and what has to be done once, after the last one?",
        "7 keys with a size of 3 make blocks of 3, 3 and 1. If the sum of exp(score - m) is 2 and m is 5, log_sum "
        "is 5 + log 2 = 5.69.",
        "m, total, o = take_block(m, total, o, q @ k[block].T / np.sqrt(q.shape[1]), v[block]) in the loop; return "
        "o / total[:, None], m + np.log(total).",
    ),
    changes="""
        The output is not yet divided by total, the sum of its weights.
        - o / total[:, None]
        + o
        The scores are not divided by sqrt(d).
        - / np.sqrt(q.shape[1])
        +
        The output is right. log_sum is log(sum of exp(score)), but total is the sum of exp(score - m): add m.
        - m + np.log(total)
        + np.log(total)
        The output is right. log_sum is a logarithm: m + log(total).
        - m + np.log(total)
        + m + total
        The last block, which is shorter, is left out. `slices` gives all blocks.
        - slices(len(k), size)
        + slices(len(k) // size * size, size)
    """,
)


@FORWARD.wrong
def mean_of_the_blocks(q, k, v, size):
    """The blocks are averaged with equal weights. A block with large scores should have a larger weight: use the
    running total and m.
    """
    parts = [table_at_once(q, k[block], v[block], size) for block in slices(len(k), size)]
    return np.mean([out for out, _ in parts], axis=0), np.logaddexp.reduce([log_sum for _, log_sum in parts], axis=0)


@FORWARD.wrong
def row_by_row(q, k, v, size):
    """The numbers are right. But each query is multiplied by all keys at once. Process the keys in blocks, and keep m
    and total.
    """
    out, log_sum = np.zeros((len(q), v.shape[1])), np.zeros(len(q))
    for i, query in enumerate(q):
        scores = k @ query / np.sqrt(q.shape[1])
        p = np.exp(scores - scores.max())
        out[i], log_sum[i] = p @ v / p.sum(), scores.max() + np.log(p.sum())
    return out, log_sum


@FORWARD.wrong
def table_at_once(q, k, v, size):
    """The numbers are right. But the whole table of scores is in memory, which this chapter should avoid. Use only
    k[block] at a time.
    """
    scores = q @ k.T / np.sqrt(q.shape[1])
    top = scores.max(axis=1)
    p = np.exp(scores - top[:, None])
    return p @ v / p.sum(axis=1, keepdims=True), top + np.log(p.sum(axis=1))


@FORWARD.right
def normalised_all_along(q, k, v, size):
    """A correct answer that stores the output so far as a mean, and adds each block with its share of the sum."""
    log_sum, out = np.full(len(q), -np.inf), np.zeros((len(q), v.shape[1]))
    for block in slices(len(k), size):
        scores = q @ k[block].T / q.shape[1] ** 0.5
        top = scores.max(axis=1, keepdims=True)
        p = np.exp(scores - top)
        new = np.logaddexp(log_sum, top[:, 0] + np.log(p.sum(axis=1)))
        out = out * np.exp(log_sum - new)[:, None] + np.exp(top[:, 0] - new)[:, None] * (p @ v[block])
        log_sum = new
    return out, log_sum


# -- backward ----------------------------------------------------------------------------------------------------------


def probe_backward(backward: Any) -> dict[str, Any]:
    q, k, v, g = numbers((3, 4), (7, 4), (7, 2), (3, 2))
    long = numbers((LONG, 4), (LONG, 4), (LONG, 2), (LONG, 2))

    def gradients(size: int) -> tuple[Any, ...]:
        return need(backward(q, k, v, *forward(q, k, v, size), g, size), tuple, "backward(...)")

    names = "the gradient of q", "the gradient of k", "the gradient of v"
    found = {f"{name}, all keys in one block": x for name, x in zip(names[::-1], gradients(7)[::-1], strict=True)}
    found |= {f"{name}, blocks of 3, 3 and 1": x for name, x in zip(names, gradients(3), strict=True)}
    q_long, k_long, v_long, g_long = long
    saved = forward(q_long, k_long, v_long, 40)
    held = holds_the_table(lambda: backward(q_long, k_long, v_long, *saved, g_long, 40))
    return found | {"whether the whole table was held at a time": held}


def real_backward(q, k, v, out, log_sum, g, size):
    leaves = [Tensor(x[None, None], requires_grad=True) for x in (q, k, v)]
    ops.attention(*leaves, method="blocked", block_size=size).backward(g[None, None])
    return tuple(leaf.grad[0, 0] for leaf in leaves)


BACKWARD = Exercise(
    backward,
    probe_backward,
    real_backward,
    source="autograd.ops.attention_blocked.BlockedAttention.backward",
    hints=(
        "log_sum is kept from the forward pass. How do you get the weights of a block from it, without the other "
        "blocks?",
        "A score of 3 in a row with log_sum 5 has the weight exp(3 - 5) = 0.135. D is 1 number for each query, "
        "computed once, before the loop.",
        "p = np.exp(q @ k[block].T * scale - log_sum[:, None]); dv[block] = p.T @ g; ds = p * (g @ v[block].T - D) "
        "with D = (g * out).sum(axis=1, keepdims=True); dq += ds @ k[block] * scale; dk[block] = ds.T @ q * scale.",
    ),
    changes="""
        The gradient of v is right, but D is missing in the rule of the softmax: raising one weight lowers the others.
        - (g * out).sum(axis=1, keepdims=True)
        + 0
        D is one number for all queries here. Each query has its own D: sum along the row, axis=1, and keep the axis.
        - (g * out).sum(axis=1, keepdims=True)
        + (g * out).sum()
        The scores were divided by sqrt(d), so divide the gradients of q and k by sqrt(d) too.
        - k[block] * scale
        + k[block]
        - ds.T @ q * scale
        + ds.T @ q
        The gradient of q is right. Divide the gradient of k by sqrt(d) as well.
        - ds.T @ q * scale
        + ds.T @ q
        This is right for one block. A query looks at the keys of all blocks, so add the share of each block to its
        gradient, with `+=`.
        - dq +=
        + dq[:] =
        This is right for one block. The weights are normalised within the block here. They should be normalised over
        the whole row: exp(S - log_sum).
        - dv[block] =
        + p = p / p.sum(axis=1, keepdims=True)
        + dv[block] =
        The numbers are right, but the whole table is in memory at once: work with k[block], v[block].
        - slices(len(k), size)
        + [slice(None)]
    """,
)


@BACKWARD.right
def key_by_key(q, k, v, out, log_sum, g, size):
    scale = q.shape[1] ** -0.5
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for j in range(len(k)):
        p = np.exp(scale * (q @ k[j]) - log_sum)
        dv[j] = p @ g
        ds = p * ((g * (v[j] - out)).sum(axis=1)) * scale
        dk[j] = ds @ q
        dq += np.outer(ds, k[j])
    return dq, dk, dv
