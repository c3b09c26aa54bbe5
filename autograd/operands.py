"""The operands of a call of an op: Tensors, arrays of the caller, numbers, lists; and errors about them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .backend import array_module, as_array, device_of, is_array, native
from .changes import overlap
from .origin import Origin, grad_enabled
from .tensor import Tensor

_ndarray = np.ndarray
_PLAIN = (int, float, complex)  # operands that `forward` takes as they are
_SMALL = 256  # elements of an array that is copied in less time than it takes to find out whether a rule keeps it


def unpacked(call: Any, operands: Sequence[Any]) -> tuple[list[Any], list[Origin | None] | None, tuple[int, ...]]:
    """Return the arrays and numbers for a call of an op; if the call is recorded, the origins of the operands that
    require a gradient (None for others), else None; and the positions of large arrays that are the caller's.
    """
    arrays: list[Any] = []
    origins: list[Origin | None] = []
    borrowed: tuple[int, ...] = ()
    record = scalars = False
    numbers = 0
    for operand in operands:
        if isinstance(operand, Tensor):
            array = operand.data
            arrays.append(array)
            if operand.requires_grad:
                origin = operand._origin
                if origin is None or (
                    origin.node is None and (origin.shape != array.shape or origin.dtype != array.dtype)
                ):
                    origin = operand.origin
                origins.append(origin)
                record = True
                continue
        else:
            if type(operand) is _ndarray and operand.dtype.isnative:
                if operand.size <= _SMALL:
                    operand = operand.copy()  # the caller may fill it again
                else:
                    borrowed += (len(arrays),)
            elif isinstance(operand, np.generic):
                scalars = True
            elif isinstance(operand, _PLAIN):
                numbers += 1
            else:
                if isinstance(operand, list | tuple) and holds_tensors(operand):
                    return unpacked(call, [stacked(other) for other in operands])
                operand = native(operand) if is_array(operand) else as_array(operand, f"{call.name}: operands")
                borrowed += (len(arrays),)
            arrays.append(operand)
        origins.append(None)
    if scalars:
        weaken(arrays)
    if not record:
        if numbers and numbers == len(arrays):
            arrays = [as_array(x, call.name) for x in arrays]  # Python's own arithmetic has other rules
        return arrays, None, borrowed
    count = len(arrays)
    if count > 1 and (arrays[0] is arrays[1] or (count > 2 and len(set(map(id, arrays))) < count)):
        tell_apart(arrays, origins)
    return arrays, origins if grad_enabled.get() else None, borrowed


def copy_kept(call: Any, borrowed: tuple[int, ...], arrays: list[Any]) -> None:
    """Copy the caller's arrays that the backward rule keeps: the caller may fill a buffer again. (Tensors are not
    copied: the engine notices their changes.)
    """
    count, held = len(call._saved or ()), [*(call._saved or ()), *call.kept]
    for position in borrowed:
        array = arrays[position]
        if any(value is array for value in held):
            arrays[position] = array.copy()
            held = [arrays[position] if value is array else value for value in held]
    call._saved, call.kept = tuple(held[:count]), tuple(held[count:])


def apart(output: Any, operands: list[Any]) -> Any:
    """Return the result of a call that is not recorded, in memory of its own: not a view of the caller's arrays."""
    if type(output) is tuple:
        return tuple(apart(array, operands) for array in output)
    if getattr(output, "base", None) is None:
        return output.copy() if any(output is operand for operand in operands) else output
    return output.copy() if any(is_array(x) and overlap(output, x) for x in operands) else output


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
