"""The operands of a call of an op: lists that contain Tensors, arrays that two operands share, errors about them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .backend import array_module, device_of, is_array
from .changes import overlap
from .origin import Origin
from .tensor import Tensor


def apart(array: Any, operands: list[Any]) -> Any:
    """Return the result of a call that is not recorded, in memory of its own: not a view of the caller's arrays."""
    if getattr(array, "base", None) is None:
        for operand in operands:
            if array is operand:
                return array.copy()
        return array
    return array.copy() if any(is_array(x) and overlap(array, x) for x in operands) else array


def holds_tensors(values: Any) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, list | tuple) and holds_tensors(v)) for v in values)


def stacked(value: Any) -> Any:
    """Stack lists of Tensors along a new axis, as NumPy does with lists of arrays."""
    if isinstance(value, list | tuple) and holds_tensors(value):
        parts = [stacked(part) for part in value]
        return array_module(*parts).stack(parts)
    return value


def tell_apart(arrays: list[Any], origins: list[Origin | None]) -> None:
    """Replace an array that two tensors share, such as x and Tensor(x.data), by a view, a separate Python object. Saved
    arrays are matched to their tensors by object identity, and perhaps only one of the two tensors has a gradient.
    """
    first: dict[int, int] = {}
    for position, array in enumerate(arrays):
        other = first.setdefault(id(array), position)
        if origins[other] is not origins[position] and is_array(array):
            arrays[position] = array[...]


def weaken(arrays: list[Any]) -> None:
    """Replace a NumPy scalar by a Python scalar: float32 * np.sqrt(2.0) and float32 / mask.sum() are float32."""
    if any(is_array(array) and array.dtype.kind in "fc" for array in arrays):
        arrays[:] = [array.item() if isinstance(array, np.generic) else array for array in arrays]


def explained(name: str, error: Exception, arrays: list[Any]) -> Exception:
    """Return an error of the same type, with a message that names the op and its operands."""
    devices = {device_of(a) for a in arrays if is_array(a)}
    if len(devices) > 1:
        cure = f"the operands are on different devices ({', '.join(sorted(devices))}): move one with .to(device)"
    else:
        uneven = "inhomogeneous" in str(error)
        cure = "nested lists have different lengths: pad the shorter lists" if uneven else str(error)
    # NumPy's own subclasses (for an axis out of bounds, for dtypes that don't cast) need more than a message.
    kind = next(kind for kind in (ValueError, TypeError, IndexError) if isinstance(error, kind))
    return kind(f"{name}({described(arrays)}): {cure}")


def described(arrays: Sequence[Any]) -> str:
    """Return the dtypes and shapes of arrays, and numbers as they are, as text for messages."""
    return ", ".join(f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a) for a in arrays)
