"""Chapter 13, the exercises: a running sum of exponentials, one block, and attention in blocks forward and backward."""

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ..exercise import need, normal
from .c13_blocks_solution import forward

LONG = 400  # number of queries and keys in the probe that measures the memory


def holds_the_table(call: Callable[[], Any]) -> bool:
    """Return whether the peak memory of a call is more than half of the size of the whole table of scores."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] > LONG * LONG * 8 / 2
    finally:
        tracemalloc.stop()


def blocked(q: Any, k: Any, v: Any, size: int) -> Any:
    return ops.attention(*(x[None, None] for x in (q, k, v)), method="blocked", block_size=size)


def probe_running_sum(running_sum: Any) -> dict[str, Any]:
    (drawn,) = normal(13, (12,))
    rising = [np.array([0.0, 1.0]), np.array([3.0]), np.array([2.0, 5.0])]

    def pair(blocks: list[np.ndarray]) -> np.ndarray:
        return np.array(need(running_sum(blocks), tuple, "running_sum(...)"), dtype=float)

    return {
        "m and total of one block": pair([drawn]),
        "m and total of three blocks, the largest number first": pair(np.split(np.sort(drawn)[::-1], 3)),
        "m and total of three blocks that rise": pair(rising),
        "m and total of numbers near 1000": pair(np.split(1000 + 3 * drawn, 4)),
        "whether all arrays were in memory at once": holds_the_table(lambda: running_sum(Long())),
        "how often the arrays were read": reads(running_sum),
    }


class Long(Sequence):
    """LONG arrays of LONG numbers, each of which is made when it is read."""

    def __init__(self) -> None:
        self.read = 0

    def __len__(self) -> int:
        return LONG

    def __getitem__(self, index: Any) -> Any:
        if not -LONG <= index < LONG:
            raise IndexError(index)
        self.read += 1
        return np.full(LONG, float(index % 7))


def reads(running_sum: Any) -> int:
    blocks = Long()
    running_sum(blocks)
    return -(-blocks.read // LONG)


def real_running_sum(blocks):
    """Return the largest number, and the total from the sums that handloom's log_softmax subtracts."""
    m, log_sum = -np.inf, -np.inf
    for numbers in blocks:
        m = max(m, numbers.max())
        log_sum = np.logaddexp(log_sum, numbers[0] - ops.log_softmax(numbers).data[0])
    return m, np.exp(log_sum - m)


NAMES = "m", "total", "o"


def first_block(scores, values):
    """Return m, total and o after the first block."""
    top = scores.max(axis=1)
    p = np.exp(scores - top[:, None])
    return top, p.sum(axis=1), p @ values


def probe_take_block(take_block: Any) -> dict[str, Any]:
    scores, values = normal(13, (3, 8), (8, 2))
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
    q, k, v = normal(13, (3, 4), (7, 4), (7, 2))
    long = normal(13, (LONG, 4), (LONG, 4), (LONG, 2))
    one = need(forward(q, k, v, 7), tuple, "forward(...)")
    three = forward(q, k, v, 3)
    return {
        "the output with all keys in one block": one[0],
        "the output with blocks of 3, 3 and 1 keys": three[0],
        "log_sum, the logarithm of each row's sum": three[1],
        "the output with scores near 1000": forward(q * 40, k * 40, v, 2)[0],
        "whether the whole table was in memory at once": holds_the_table(lambda: forward(*long, 40)),
        "whether all keys were multiplied at once": multiplies_all(lambda k: forward(q, k, v, 3), k),
    }


def real_forward(q, k, v, size):
    k = np.asarray(k)
    scores = q @ k.T / np.sqrt(q.shape[1]) if len(q) < LONG else np.zeros((1, 1))
    return blocked(q, k, v, size).data[0, 0], np.logaddexp.reduce(scores, axis=1)


def probe_backward(backward: Any) -> dict[str, Any]:
    q, k, v, g = normal(13, (3, 4), (7, 4), (7, 2), (3, 2))
    long = normal(13, (LONG, 4), (LONG, 4), (LONG, 2), (LONG, 2))

    def gradients(size: int) -> tuple[Any, ...]:
        return need(backward(q, k, v, *forward(q, k, v, size), g, size), tuple, "backward(...)")

    names = "the gradient of q", "the gradient of k", "the gradient of v"
    found = {f"{name}, all keys in one block": x for name, x in zip(names[::-1], gradients(7)[::-1], strict=True)}
    found |= {f"{name}, blocks of 3, 3 and 1": x for name, x in zip(names, gradients(3), strict=True)}
    q_long, k_long, v_long, g_long = long
    saved = forward(q_long, k_long, v_long, 40)
    held = holds_the_table(lambda: backward(q_long, k_long, v_long, *saved, g_long, 40))
    return found | {"whether the whole table was in memory at once": held}


def real_backward(q, k, v, out, log_sum, g, size):
    leaves = [Tensor(x[None, None], requires_grad=True) for x in (q, k, v)]
    ops.attention(*leaves, method="blocked", block_size=size).backward(g[None, None])
    return tuple(leaf.grad[0, 0] for leaf in leaves)
