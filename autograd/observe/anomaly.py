"""detect_anomaly finds the op that produced the first NaN or infinity, and the line of your code that called the op."""

import linecache
import sys
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from ..backend import is_array, to_device
from ..changes import held
from ..function import Function
from ..operands import described
from ..origin import BlockDecorator
from ..row_gradient import as_dense
from ..tensor import array_of
from .observing import Observer


class AnomalyError(RuntimeError):
    """An op produced NaN or infinity, or a saved array was overwritten. The message names the op and the line."""


class detect_anomaly(Observer, BlockDecorator):  # noqa: N801  (reads as a statement: `with detect_anomaly():`)
    """Context manager and decorator: check every value and every gradient, in all threads, and raise an error at the
    first NaN or infinity.

    Raises AnomalyError, with the op, the shapes and the line of your code that called the op,

    - when a forward or backward computation turns finite numbers into NaN or infinity (an infinity in the op's inputs
      or parameters, such as the -inf of a mask, is allowed; a NaN is not);
    - when an array that a backward rule needs was changed from outside between the forward and the backward pass,
      which the engine can't notice otherwise (`tensor.data[0] = 1`, or the array of a constant `Tensor(array)`).

    NumPy's floating-point warnings are off inside the ops. Computations inside the block are several times slower than
    outside.
    """

    def _recreate_cm(self) -> "detect_anomaly":  # a decorated function may call itself
        return detect_anomaly()

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        line = _callers_line()
        for position, array in enumerate(arrays):
            if _has_nan(array):
                raise AnomalyError(
                    f"{call.name}: input {position} of shape {array.shape} already contains NaN: the NaN is in the "
                    f"data or the weights, or was computed outside detect_anomaly()\n{line}"
                )
        with np.errstate(all="ignore"):
            output = super().forward(call, arrays)
        for array in output if isinstance(output, tuple) else (output,):
            if bad := _bad_kind(array, [*arrays, *vars(call).values()]):
                raise AnomalyError(f"{call.name} made {bad} from {described(arrays)}\n{line}")
        # For the backward pass: the line, and checksums of the arrays that the rule needs.
        call._seen = line, {id(array): _checksum(array) for _, array in held(call)}
        return output

    def backward(self, call: Function, rule: Callable[..., Any], gradients: list[Any]) -> Any:
        for slot, gradient in enumerate(gradients):
            if bad := _bad_kind(array_of(gradient), []):
                raise AnomalyError(
                    f"the gradient that arrives at output {slot} of {call.name} contains {bad}: it was passed to "
                    f"backward(), a hook made it, or a sum of gradients overflowed\n{self.line_of(call)}"
                )
        seen = call._seen[1] if call._seen else {}
        for name, array in held(call):  # without arrays that an earlier pass has handed over
            if (checksum := _checksum(array)) != seen.get(id(array), checksum):
                raise AnomalyError(
                    f"{call.name}: {name} of shape {array.shape}, which its backward pass needs, was changed after the "
                    f"forward pass\n{self.line_of(call)}"
                )
        with np.errstate(all="ignore"):
            results = super().backward(call, rule, gradients)
        outgoing = results if isinstance(results, tuple) else (results,)
        for position, (gradient, origin) in enumerate(zip(outgoing, call.inputs, strict=False)):
            if origin is not None and (bad := _bad_kind(as_dense(array_of(gradient)), [])):
                shapes = described([array for _, array in held(call)])
                raise AnomalyError(
                    f"{call.name}.backward made {bad} in the gradient of input {position}, of shape {gradient.shape}; "
                    f"the call had saved {shapes or 'nothing'}\n{self.line_of(call)}"
                )
        return results

    @staticmethod
    def line_of(call: Function) -> str:
        return call._seen[0] if call._seen is not None else "  (called outside detect_anomaly(): line unknown)"


def _is_floating(array: Any) -> bool:
    return hasattr(array, "dtype") and array.dtype.kind == "f"


def _has_nan(array: Any) -> bool:
    return _is_floating(array) and bool((array != array).any())


def _bad_kind(array: Any, sources: list[Any]) -> str:
    """Return "NaN" if `array` contains NaN, "infinity" if `array` but no source contains infinity, else ""."""
    if not _is_floating(array) or bool(np.isfinite(to_device(array, "cpu") if is_array(array) else array).all()):
        return ""
    if _has_nan(array):
        return "NaN"
    return "" if any(_has_infinity(source) for source in sources) else "infinity"


def _has_infinity(source: Any) -> bool:
    if _is_floating(source):
        return bool((abs(source) == np.inf).any())
    return isinstance(source, float) and abs(source) == np.inf


def _checksum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(to_device(array, "cpu")).data)


def _callers_line() -> str:
    """Return the innermost line of the call stack outside handloom, and the calls inside handloom that follow it."""
    frame: FrameType | None = sys._getframe(2)
    inner: list[str] = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("handloom."):
            break
        if not module.startswith(("handloom.autograd.", "handloom.kinds")):
            inner.append(f"  through {_location(frame)}")
        frame = frame.f_back
    if frame is None:
        return "\n".join(inner)
    path, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(path, number).strip()
    return "\n".join([f"  called at {_location(frame)}" + (f"\n    {text}" if text else ""), *inner[::-1]])


def _location(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_qualname}"
