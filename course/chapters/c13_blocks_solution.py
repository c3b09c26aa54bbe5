"""The solution of chapter 13: attention in blocks, forward and backward."""

import numpy as np


def slices(length, size):
    """Return the blocks of an axis: slice(0, size), slice(size, 2 * size), ... The last block can be shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def running_sum(blocks):
    """Return m, the largest number in the arrays `blocks`, and total, the sum of exp(number - m). Read arrays once."""
    m, total = -np.inf, 0.0
    for numbers in blocks:
        # your turn: The largest number so far may grow. The old sum is relative to the old m: by which factor must it
        # be multiplied to be relative to the new m? (exp(a - m') = exp(a - m) times what?)
        new = max(m, numbers.max())
        total = total * np.exp(m - new) + np.exp(numbers - new).sum()
        m = new
        # given:
    return m, total


def take_block(m, total, o, scores, values):
    """Return new running values m, total and o of several queries after another block of keys.

    m, total (queries,) as in `running_sum`, for each query; o (queries, e): the values so far, summed with the weights
    exp(score - m). scores (queries, block), values (block, e). Returns new m, total, o.
    """
    # your turn: Do the same as in running_sum, for each row. o is a sum like total: multiply the old sum by the same
    # factor, and add the values of the block with the weights exp(score - m').
    new = np.maximum(m, scores.max(axis=1))
    shrink = np.exp(m - new)
    p = np.exp(scores - new[:, None])
    return new, total * shrink + p.sum(axis=1), o * shrink[:, None] + p @ values


def forward(q, k, v, size):
    """Return softmax(q kᵀ / sqrt(d)) v, with at most `size` keys at a time, and log_sum, the logarithm of each row's
    sum.

    q (queries, d), k (keys, d), v (keys, e) -> (queries, e), (queries,).
    """
    m, total = np.full(len(q), -np.inf), np.zeros(len(q))
    o = np.zeros((len(q), v.shape[1]))
    # your turn: For each block of keys compute its scores, then call take_block. At the end divide o by the sum of the
    # weights. log_sum is log(sum of exp(score)); compute it from m and total.
    for block in slices(len(k), size):
        m, total, o = take_block(m, total, o, q @ k[block].T / np.sqrt(q.shape[1]), v[block])
    return o / total[:, None], m + np.log(total)


def backward(q, k, v, out, log_sum, g, size):
    """Return the gradients of q, k, v from the gradient g (queries, e) of `out`. `forward` returned out and log_sum."""
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    # your turn: For each block of keys compute the weights again, P = exp(S - log_sum). Then dV = Pᵀ g; dP = g Vᵀ; dS =
    # P (dP - D), where D = g · out is one number for each query. Compute dQ (a sum over all blocks) and dK from dS.
    scale = 1 / np.sqrt(q.shape[1])
    D = (g * out).sum(axis=1, keepdims=True)
    for block in slices(len(k), size):
        p = np.exp(q @ k[block].T * scale - log_sum[:, None])
        dv[block] = p.T @ g
        ds = p * (g @ v[block].T - D)
        dq += ds @ k[block] * scale
        dk[block] = ds.T @ q * scale
    # given:
    return dq, dk, dv
