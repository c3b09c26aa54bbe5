"""float16: rules and sums are computed in float32, whose 24 significant bits suffice for them, and rounded once.

An op declares `float16 = "widened"`, and its base class carries this out (`function.py`). A function that consists of
ops is marked with `in_float32`. Their texts contain only the formula.
"""

import functools
from collections.abc import Callable, Sequence
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


def any_half(arrays: Sequence[Any]) -> bool:
    """Return whether one of the arrays is float16."""
    for x in arrays:  # noqa: SIM110  (a generator takes three times as long)
        if getattr(x, "dtype", None) == HALF:
            return True
    return False


def forward_in_float32(call: Any, arrays: Sequence[Any]) -> Any:
    """Return call.forward(*arrays), computed in float32 in place of float16 and rounded.

    Inputs and outputs are saved as they are outside the call. `Function.saved` widens them again for `backward`.
    """
    wide = list(map(widened, arrays))
    output = call.forward(*wide)
    outputs = output if type(output) is tuple else (output,)
    narrow = np.result_type(*(x if hasattr(x, "dtype") else 0.0 for x in arrays)) == HALF
    rounded = tuple(y.astype(HALF) if narrow and y.dtype == np.float32 else y for y in outputs)
    outside = {id(y): x for y, x in zip((*wide, *outputs), (*arrays, *rounded), strict=True)}
    call._saved, call._half = tuple(outside.get(id(x), x) for x in call._saved or ()), True
    return rounded if type(output) is tuple else rounded[0]
