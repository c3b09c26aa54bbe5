"""float16: rules and sums are computed in float32, whose 24 significant bits suffice for them, and rounded once.

An op declares `float16 = "widened"`, and its base class carries this out (`function.py`). A function that consists of
ops is marked with `in_float32`. Their texts contain only the formula.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
HALF = np.dtype(np.float16)


def widened(x: Any) -> Any:
    """Convert a float16 array or Tensor to float32. Other values are unchanged."""
    return x.astype(np.float32) if getattr(x, "dtype", None) == HALF else x


def in_float32(function: F) -> F:
    """Decorator: the function gets its float16 operands as float32. If all are float16, results are rounded."""

    @functools.wraps(function)
    def call(*operands: Any, **options: Any) -> Any:
        out = function(*map(widened, operands), **options)
        if any(operand.dtype != HALF for operand in operands):
            return out
        return tuple(y.astype(HALF) for y in out) if isinstance(out, tuple) else out.astype(HALF)

    narrowing: Any = call
    return narrowing
