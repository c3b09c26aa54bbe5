"""Compute the largest logits, log sum exp and layer norm of each row in compiled loops.

Each loop reads every number at most twice and stores no intermediate arrays. This module needs Numba (the extra
`fast`); for unsupported arrays the plain implementation is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....autograd.backend import array_module
from ....autograd.fast import compiled
from ....autograd.quick import parallel_for, replaces
from .. import raw_layers, top
from ..top import refuse_nan, shifted

MAX_BY_LOOP = 64  # a loop that keeps the largest numbers sorted is slow for more


def for_loops(logits: Any) -> bool:
    """Return whether compiled loops are available for these rows."""
    if compiled.unsupported_reason([logits], {}) is not None:
        return False
    return logits.strides[0] >= 0 and logits.strides[1] == logits.itemsize


def memory(logits: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Return the rows as a flat array, the distance between the beginnings of rows, and the length of a row."""
    (rows, vocabulary), step = logits.shape, logits.strides[0] // logits.itemsize
    flat = np.lib.stride_tricks.as_strided(logits, ((rows - 1) * step + vocabulary,), (logits.itemsize,))
    return flat, step, vocabulary


@replaces(top.log_sum_exp)
def log_sum_exp(logits: Any) -> Any:
    if not for_loops(logits):
        return top.log_sum_exp.__wrapped__(logits)  # type: ignore[attr-defined]
    loop, where, (rows, vocabulary) = compiled.loops().log_sum_exp, memory(logits), logits.shape
    out = np.empty(rows, logits.dtype)
    parallel_for(np, rows, lambda first, last: loop(*where, out, first, last), cost=0.5 * vocabulary)
    if not np.isfinite(out).all():  # infinite logits and NaN
        odd = ~np.isfinite(out)
        out[odd] = shifted(logits[odd], logits.dtype, np)
    return out


@replaces(top.top_k)
def top_k(logits: Any, k: int) -> tuple[Any, Any]:
    rows, vocabulary = logits.shape
    if not 0 < k <= min(MAX_BY_LOOP, vocabulary // 4) or not for_loops(logits):
        return top.top_k.__wrapped__(logits, k)  # type: ignore[attr-defined]
    loop, where = compiled.loops().largest_numbers, memory(logits)
    values, ids = np.empty((rows, k), logits.dtype), np.empty((rows, k), np.int64)
    parallel_for(np, rows, lambda first, last: loop(*where, values, ids, first, last), cost=0.1 * vocabulary)
    refuse_nan(values)
    return values, ids


@replaces(raw_layers.normalised)
def normalised(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    if array_module(x) is not np or not x.dtype == weight.dtype == np.float32 or compiled.missing():
        return raw_layers.normalised.__wrapped__(x, weight, bias, eps)  # type: ignore[attr-defined]
    x = np.ascontiguousarray(x)
    y, x_hat, rstd = np.empty_like(x), np.empty_like(x), np.empty((len(x), 1), np.float32)
    one = np.float32(1)
    compiled.loops().normalize(x, None, None, one, weight, bias, np.float32(eps), None, x_hat, rstd, y, 0, len(x))
    return y
