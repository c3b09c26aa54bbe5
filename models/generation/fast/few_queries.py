"""Compute attention of few queries in compiled code, for a decoding step.

`raw_layers.attend` multiplies all queries of a sentence with all its keys, and the weights with all values. In a beam
most of this work is unnecessary, because each sequence may attend only to its own nodes of the cache. This loop
processes only the keys that a query may see, and its intermediate results stay in the processor's cache.

It needs Numba (the extra `fast`). It runs on the threads of `team`.
"""

import numpy as np

from ....autograd.fast.loops import exponential, inlined
from .team import FLOAT, INTEGER, PARTS, floats, integers, job, run

MAX_QUERIES = 8  # queries of a sentence; more are multiplied faster by a BLAS


@inlined
def attend_one(q, keys, values, bias, seen, weights, out):
    """Compute out (head_dim,) = softmax(keys q + bias) values, for keys and values (n, head_dim).

    If the query may not attend to any key, `out` is zero.

    `bias` (n,) is -inf for a key that the query may not see; `seen` and `weights` (n + 4,) are temporary memory. Keys
    and values are processed in groups of four, so that q and `out` are read once per group.
    """
    count, top, total = 0, np.float32(-np.inf), np.float32(0)
    for n in range(bias.size):
        seen[count] = n
        count += bias[n] != np.float32(-np.inf)
    seen[count:] = seen[0]  # fills the last group of four, in which it gets the weight 0
    for i in range(0, count, 4):
        k0, k1, k2, k3 = keys[seen[i]], keys[seen[i + 1]], keys[seen[i + 2]], keys[seen[i + 3]]
        s0, s1, s2, s3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(q.size):
            s0 += q[k] * k0[k]
            s1 += q[k] * k1[k]
            s2 += q[k] * k2[k]
            s3 += q[k] * k3[k]
        weights[i], weights[i + 1], weights[i + 2], weights[i + 3] = s0, s1, s2, s3
    for i in range(count):
        weights[i] += bias[seen[i]]
        top = weights[i] if weights[i] > top else top
    for i in range(count):
        weights[i] = exponential(weights[i] - top)
        total += weights[i]
    for i in range(count):
        weights[i] /= total
    weights[count:] = np.float32(0)
    out[:] = np.float32(0)
    for i in range(0, count, 4):
        v0, v1, v2, v3 = values[seen[i]], values[seen[i + 1]], values[seen[i + 2]], values[seen[i + 3]]
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(out.size):
            out[k] += w0 * v0[k] + w1 * v1[k] + w2 * v2[k] + w3 * v3[k]


@job
def attention(arguments, part):
    """Compute part `part` of an attention call, which contains some sentences and heads.

    The arguments are sizes, the bytes from one row of q to the next, whether q is still to be scaled by head_dim^-0.5,
    addresses, and the bytes from one sentence, head or query to the next in keys, values and bias.
    """
    sentences, heads, queries, length, head_dim, group, q_step, scaled = integers(arguments, 8)
    q_at, keys_at, values_at, bias_at, out_at = integers(arguments + 8 * INTEGER, 5)
    key_steps, value_steps = integers(arguments + 13 * INTEGER, 2), integers(arguments + 15 * INTEGER, 2)
    bias_steps = integers(arguments + 17 * INTEGER, 3)
    out = floats(out_at, (sentences, queries, heads, head_dim))
    q, scale = np.empty(head_dim, np.float32), np.float32(head_dim**-0.5 if scaled else 1.0)
    seen, weights = np.empty(length + 4, np.int64), np.empty(length + 4, np.float32)
    for number in range(sentences * heads * part // PARTS, sentences * heads * (part + 1) // PARTS):
        sentence, head = number // heads, number % heads
        keys = floats(keys_at + sentence * key_steps[0] + head // group * key_steps[1], (length, head_dim))
        values = floats(values_at + sentence * value_steps[0] + head // group * value_steps[1], (length, head_dim))
        for i in range(queries):
            given = floats(q_at + (sentence * queries + i) * q_step + head * head_dim * FLOAT, head_dim)
            for k in range(head_dim):
                q[k] = given[k] * scale
            at = bias_at + sentence * bias_steps[0] + head * bias_steps[1] + i * bias_steps[2]
            attend_one(q, keys, values, floats(at, length), seen, weights, out[sentence, i, head])


def attend(q: np.ndarray, keys: np.ndarray, values: np.ndarray, bias: np.ndarray | None) -> np.ndarray | None:
    """Return the results of `raw_layers.attend` for the same arguments, or None if there are many queries.
    The arrays are float32, and keys and values have the cache's memory layout.
    """
    (sentences, heads, queries, head_dim), (_, kv_heads, length, _) = q.shape, keys.shape
    if queries > MAX_QUERIES:
        return None
    q = np.ascontiguousarray(q.swapaxes(1, 2), np.float32)  # usually no copy, because q is a transposed view
    out, bias_at, bias_steps, _kept = np.empty_like(q), *bias_in_memory(bias, sentences, heads, queries, length)
    sizes = sentences, heads, queries, length, head_dim, heads // kv_heads, heads * head_dim * FLOAT, False
    places = q.ctypes.data, keys.ctypes.data, values.ctypes.data, bias_at, out.ctypes.data
    run(attention, *sizes, *places, *keys.strides[:2], *values.strides[:2], *bias_steps)
    return out


def bias_in_memory(
    bias: np.ndarray | None, sentences: int, heads: int, queries: int, length: int
) -> tuple[int, tuple[int, ...], np.ndarray]:
    """Return the address of a bias, the bytes from a sentence, head and query to the next, and the array to keep."""
    bias = np.zeros((1, 1, 1, length), np.float32) if bias is None else np.ascontiguousarray(bias, np.float32)
    steps = np.broadcast_to(bias, (sentences, heads, queries, length)).strides[:3]
    return bias.ctypes.data, steps, bias
