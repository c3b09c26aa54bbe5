"""The largest logits of a row and the logarithm of the sum of all, for vocabularies of tens of thousands of tokens.

Both are worth some care: at 128 sequences and 50,000 tokens, sorting takes longer than the whole model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.backend import array_module
from ...autograd.parallel import split

BLOCK = 256  # tokens; a maximum is kept of each block
CHUNK = 1 << 16  # numbers that stay in a processor's cache between two passes


def log_sum_exp(logits: Any) -> Any:
    """log sum exp over the last axis: (rows, vocab_size) -> (rows,), float32 at least."""
    xp = array_module(logits)
    dtype = np.float32 if logits.dtype == np.float16 else logits.dtype
    if xp is not np:
        return _shifted(logits, dtype, xp)
    rows, vocabulary = logits.shape
    out = np.empty(rows, dtype)
    chunk = max(CHUNK // max(vocabulary, 1), 1)

    def part(first: int, last: int) -> None:
        buffer = np.empty((min(chunk, last - first), vocabulary), dtype)
        for start in range(first, last, chunk):
            stop = min(start + chunk, last)
            _sum_chunk(logits[start:stop], buffer[: stop - start], out[start:stop])

    split(np, rows, part, cost=0.7 * vocabulary)
    return out


def _sum_chunk(logits: np.ndarray, buffer: np.ndarray, out: np.ndarray) -> None:
    """log sum exp of logits (rows, vocab_size) into out (rows,)."""
    with np.errstate(over="ignore", under="ignore"):
        total = np.exp(logits, out=buffer, dtype=buffer.dtype).sum(axis=1)
    # Logits are mostly of a size whose exponentials neither overflow nor lose their smallest terms; that saves two of
    # four passes.
    if np.isfinite(total).all() and (total > 1e-20).all():
        np.log(total, out=out)
    else:
        out[...] = _shifted(logits, buffer.dtype, np)


def _shifted(logits: Any, dtype: Any, xp: Any) -> Any:
    """log sum exp as max x + log sum exp(x - max x), for logits of any size."""
    top = logits.max(axis=1, keepdims=True).astype(dtype)
    top = xp.where(xp.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):  # a row of -inf has the sum 0
        return xp.log(xp.exp(logits - top).sum(axis=1)) + top[:, 0]


def top_k(logits: Any, k: int) -> tuple[Any, Any]:
    """The k largest of each row, largest first, and among equals the one of the smaller id first.

    Args:
        logits: (rows, vocab_size); the k largest of a row are overwritten.

    Returns values (rows, k) and ids (rows, k), k at most vocab_size.
    """
    xp = array_module(logits)
    rows, vocabulary = logits.shape
    k = min(k, vocabulary)
    if k > 32:
        ids = xp.argsort(-logits, axis=1, kind="stable")[:, :k]
        return xp.take_along_axis(logits, ids, axis=1), ids
    # Take the maximum k times; after each only the block it stood in must be looked at again.
    whole = vocabulary // BLOCK * BLOCK
    best = xp.full((rows, -(-vocabulary // BLOCK)), -np.inf, logits.dtype)
    if whole:
        blocks = logits[:, :whole].reshape(rows, -1, BLOCK)

        def part(first: int, last: int) -> None:
            best[first:last, : whole // BLOCK] = blocks[first:last].max(axis=2)

        split(xp, rows, part, cost=0.2 * vocabulary)
    if whole < vocabulary:
        best[:, -1] = logits[:, whole:].max(axis=1)
    values, ids = xp.empty((rows, k), logits.dtype), xp.empty((rows, k), np.int64)
    every, inside = xp.arange(rows), xp.arange(BLOCK)
    for rank in range(k):
        block = best.argmax(axis=1)
        columns = block[:, None] * BLOCK + inside
        window = logits[every[:, None], xp.minimum(columns, vocabulary - 1)]
        if whole < vocabulary:
            window[columns >= vocabulary] = -np.inf
        place = window.argmax(axis=1)
        values[:, rank], ids[:, rank] = window[every, place], columns[every, place]
        window[every, place] = -np.inf
        logits[every, ids[:, rank]] = -np.inf
        best[every, block] = window.max(axis=1)
    return values, ids
