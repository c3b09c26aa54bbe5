"""record(): the recording of every call in a computation, with its values and, after a backward pass, its gradients."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..function import Function
from ..row_gradient import as_dense
from ..tensor import array_of
from .observing import Observer


@dataclass
class RecordedCall:
    """The record of one call.

    Attributes:
        call: the Function. Its `number` is the number of the call, or -1 if the call is not part of a graph.
        settings: the call's attributes before the computation, from which `again` makes a new call.
        label: the string that `record`'s argument `label` returned at the call.
        inputs, outputs: the input and output arrays (or numbers) of the call, not copied.
        output_gradients, input_gradients: copies of the gradients that the backward rule received and returned (before
            un-broadcasting), with None for a missing gradient. Before a backward pass, both attributes are None.
    """

    call: Function
    settings: dict[str, Any]
    label: str
    inputs: list[Any]
    outputs: tuple[Any, ...]
    output_gradients: list[Any] | None = None
    input_gradients: list[Any] | None = None

    def again(self) -> Function:
        """Return a new call with the same settings."""
        fresh = object.__new__(type(self.call))
        fresh.__dict__.update(self.settings)
        return fresh


class record(Observer):  # noqa: N801  (reads as a statement: `with record() as recording:`)
    """Context manager: record all calls of this thread inside the block, in order, as the list `calls`.

    Args:
        label: function that is called at each call and returns a string, such as the name of the running module.

    All values stay in memory as long as the recording. Other observers, such as `detect_anomaly`, can be active too.
    """

    def __init__(self, label: Callable[[], str] = str):
        self.label, self.thread = label, threading.get_ident()
        self.calls: list[RecordedCall] = []
        self._by_call: dict[int, RecordedCall] = {}  # by id: the call is held, so it stays its own

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        if threading.get_ident() != self.thread:
            return super().forward(call, arrays)
        settings = dict(vars(call))
        output = super().forward(call, arrays)
        outputs = output if isinstance(output, tuple) else (output,)
        self.calls.append(RecordedCall(call, settings, self.label(), list(arrays), outputs))
        self._by_call[id(call)] = self.calls[-1]
        return output

    def backward(self, call: Function, rule: Callable[..., Any], gradients: list[Any]) -> Any:
        results = super().backward(call, rule, gradients)
        seen = self._by_call.get(id(call))
        if seen is not None:
            returned = results if isinstance(results, tuple) else (results,)
            seen.output_gradients = [_copy(gradient) for gradient in gradients]
            seen.input_gradients = [_copy(gradient) for gradient in returned]
        return results


def _copy(gradient: Any) -> Any:
    """Copy a gradient, since the engine adds to gradients in place."""
    return None if gradient is None else as_dense(array_of(gradient)).copy()
