"""Compute the largest logits and the log-sum-exp of each row, for vocabularies of tens of thousands of tokens.
With 128 sequences and 50,000 tokens, sorting all logits would take longer than the whole model.
"""

from typing import Any

import numpy as np

from ...autograd.backend import array_module
from ...autograd.quick import parallel_for, replaceable, slices

CHUNK = 1 << 18  # elements that stay in a processor's cache between two passes
STRIP = 256  # see _candidates


@replaceable
def log_sum_exp(logits: Any) -> Any:
    """Compute log sum exp over the last axis, (rows, vocab_size) -> (rows,), in float32 or float64."""
    xp = array_module(logits)
    dtype = np.float32 if logits.dtype == np.float16 else logits.dtype
    if xp is not np:
        return shifted(logits, dtype, xp)
    rows, vocabulary = logits.shape
    out = np.empty(rows, dtype)
    chunk = max(CHUNK // max(vocabulary, 1), 1)

    def part(first: int, last: int) -> None:
        buffer = np.empty((min(chunk, last - first), vocabulary), dtype)
        for some in slices(first, last, chunk):
            _sum_chunk(logits[some], buffer[: some.stop - some.start], out[some])

    parallel_for(np, rows, part, cost=0.7 * vocabulary)
    return out


def _sum_chunk(logits: np.ndarray, buffer: np.ndarray, out: np.ndarray) -> None:
    """Compute log sum exp of each row of logits (rows, vocab_size) into `out` (rows,)."""
    with np.errstate(over="ignore", under="ignore"):
        total = np.exp(logits, out=buffer, dtype=buffer.dtype).sum(axis=1)
    # The exponentials of usual logits neither overflow nor lose their smallest terms; this saves two of four passes.
    if np.isfinite(total).all() and (total > 1e-20).all():
        np.log(total, out=out)
    else:
        out[...] = shifted(logits, buffer.dtype, np)


def shifted(logits: Any, dtype: Any, xp: Any) -> Any:
    """Compute log sum exp as max x + log sum exp(x - max x), for logits of any size."""
    top = logits.max(axis=1, keepdims=True).astype(dtype)
    top = xp.where(xp.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):  # a row of -inf has the sum 0
        return xp.log(xp.exp(logits - top).sum(axis=1)) + top[:, 0]


@replaceable
def top_k(logits: Any, k: int) -> tuple[Any, Any]:
    """Return the k largest logits of each row in descending order. Equal logits are sorted by ascending id.

    For logits (rows, vocab_size), returns values (rows, k) and ids (rows, k); k is at most vocab_size. Raises
    ValueError if a logit is NaN or k is 0.
    """
    xp, (rows, vocabulary) = array_module(logits), logits.shape
    k = min(k, vocabulary)
    if 4 * k > vocabulary:
        refuse_nan(logits)
        ids = xp.argsort(-logits, axis=1, kind="stable")[:, :k]
        return xp.take_along_axis(logits, ids, axis=1), ids
    values, ids = xp.empty((rows, k), logits.dtype), xp.empty((rows, k), np.int64)

    def part(first: int, last: int) -> None:
        chunks = slices(first, last, max(CHUNK // vocabulary, 1) if xp is np else rows)
        found = [_candidates(logits[chunk], k) for chunk in chunks]
        row = xp.concatenate([row + (chunk.start - first) for chunk, (row, _) in zip(chunks, found, strict=True)])
        contenders = xp.concatenate([ids for _, ids in found])
        values[first:last], ids[first:last] = _sorted(logits[first:last], row, contenders, k)

    parallel_for(xp, rows, part, cost=0.4 * vocabulary)
    return values, ids


def _candidates(logits: Any, k: int) -> tuple[Any, Any]:
    """Return the rows and ids of a few candidates, among which are the k largest logits of each row."""
    xp, (rows, vocabulary) = array_module(logits), logits.shape
    # Fold each row into a strip and keep the maximum of each column of the fold. k columns have a maximum that reaches
    # the k-th largest of these; so the k largest elements of the row reach it, too.
    folds = max(vocabulary // max(STRIP, 4 * k), 1)
    length = vocabulary // folds
    best = logits[:, : folds * length].reshape(rows, folds, length).max(axis=1)
    refuse_nan(best)
    refuse_nan(logits[:, folds * length :])
    bound = xp.partition(best, length - k, axis=1)[:, length - k]
    return xp.divmod(xp.flatnonzero(logits >= bound[:, None]), vocabulary)


def _sorted(logits: Any, row: Any, ids: Any, k: int) -> tuple[Any, Any]:
    """Return the values and ids of the k largest candidates of each row, in descending order."""
    xp = array_module(logits)
    values = logits[row, ids]
    order = xp.lexsort(xp.stack([ids, -values, row]))  # by row, then value, then id
    first = xp.searchsorted(row, xp.arange(len(logits)))
    chosen = order[first[:, None] + xp.arange(k)]
    return values[chosen], ids[chosen]


def refuse_nan(logits: Any) -> None:
    """Raise ValueError if a logit is NaN."""
    if array_module(logits).isnan(logits).any():
        raise ValueError("the model's logits are NaN: its weights are damaged, or its training diverged")
