"""Compute the largest logits, log sum exp and layer norm of each row in compiled loops.

Each loop reads every number at most twice and stores no intermediate arrays. This module needs Numba (the extra
`fast`); for unsupported arrays the plain implementation is used.
"""

from typing import Any

import numpy as np

from ....autograd.backend import array_module
from ....autograd.fast import compiled
from ....autograd.quick import replaces
from .. import raw_layers, top
from ..top import refuse_nan, shifted

MAX_BY_LOOP = 64  # a loop that keeps the largest numbers sorted is slow for more


def for_loops(logits: Any) -> bool:
    """Return whether compiled loops are available for these rows."""
    if compiled.unsupported_reason([logits], {}) is not None:
        return False
    from .team import usable

    return usable() and logits.size > 0 and logits.strides[0] >= 0 and logits.strides[1] == logits.itemsize


def memory(logits: np.ndarray) -> tuple[int, int, int, int]:
    """Return the number of rows, their length, the numbers from one row to the next, and the address."""
    return *logits.shape, logits.strides[0] // logits.itemsize, logits.ctypes.data


@replaces(top.log_sum_exp)
def log_sum_exp(logits: Any) -> Any:
    if not for_loops(logits):
        return top.log_sum_exp.__wrapped__(logits)  # type: ignore[attr-defined]
    from .vocabulary import run, sums

    out = np.empty(len(logits), logits.dtype)
    run(sums, *memory(logits), out.ctypes.data)
    if not np.isfinite(out).all():  # infinite logits and NaN
        odd = ~np.isfinite(out)
        out[odd] = shifted(logits[odd], logits.dtype, np)
    return out


@replaces(top.top_k)
def top_k(logits: Any, k: int) -> tuple[Any, Any]:
    rows, vocabulary = logits.shape
    if not 0 < k <= min(MAX_BY_LOOP, vocabulary // 4) or not for_loops(logits):
        return top.top_k.__wrapped__(logits, k)  # type: ignore[attr-defined]
    from .vocabulary import run, tops

    values, ids = np.empty((rows, k), logits.dtype), np.empty((rows, k), np.int64)
    run(tops, *memory(logits), values.ctypes.data, ids.ctypes.data, k)
    refuse_nan(values)
    return values, ids


@replaces(raw_layers.normalised)
def normalised(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    if array_module(x) is not np or not x.dtype == weight.dtype == np.float32 or compiled.missing():
        return raw_layers.normalised.__wrapped__(x, weight, bias, eps)  # type: ignore[attr-defined]
    x = np.ascontiguousarray(x)
    # LLVM sums a row in another order if x_hat lies less than 256 bytes behind x, which the 64 unused numbers prevent.
    x_hat = np.empty(64 + x.size, np.float32)[64:].reshape(x.shape)
    y, rstd, one = np.empty_like(x), np.empty((len(x), 1), np.float32), np.float32(1)
    compiled.loops().normalize(x, None, None, one, weight, bias, np.float32(eps), None, x_hat, rstd, y, 0, len(x))
    return y
