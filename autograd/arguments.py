"""Checks of arguments that are arrays or numbers; `kinds.py` checks arguments by their annotations."""

from typing import Any

import numpy as np

from ..kinds import CONVERT
from .backend import as_array, is_array, native
from .random import Generator
from .tensor import Tensor, array_of


def integers(name: str, values: Any) -> Any:
    """Return indices, counts or sizes as an array, which is of integers if it is empty. Raises TypeError for others."""
    values = array_of(values)
    if not is_array(values):
        values = as_array(values, name)
        values = values if values.size else values.astype(int)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {values.dtype}")
    return native(values)


def sizes(name: str, values: Any) -> tuple[int, ...]:
    """Return a shape, or axes, as a tuple. Raises TypeError, with `name`, for what is not integers."""
    return values if type(values) is tuple else tuple(np.atleast_1d(integers(name, values)).tolist())


def _sizes(value: Any) -> tuple[int, ...] | None:
    try:
        return sizes("sizes", value) if isinstance(value, list | np.ndarray | Tensor) else None
    except (TypeError, ValueError):
        return None


def _numbers(value: Any) -> Any:
    try:
        value = as_array(array_of(value), "the array") if isinstance(value, list | tuple | Tensor) else value
    except (TypeError, ValueError):
        return None
    return value if is_array(value) and value.dtype.kind in "biufc" else None


CONVERT |= {
    Generator: lambda value: value if hasattr(value, "keep_mask") else None,
    tuple[int, ...]: _sizes,
    np.ndarray: _numbers,
}
