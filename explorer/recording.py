"""The recording of every call in a computation, with values, gradients and the names of the running modules."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..autograd import Function, Observer
from ..autograd.row_gradient import as_dense
from ..autograd.tensor import array_of
from ..nn import Module


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


@contextmanager
def running_modules(model: Module) -> Iterator[list[str]]:
    """Context manager: yield a list that always contains the names of the modules whose `forward` is running.

    The outermost module comes first; "" is the model. A module with several names is listed under its first name. A
    direct call of another method, such as `norm.after`, is not listed. Outside the block, calls of modules take no
    extra time.
    """
    running: list[str] = []
    wrapped: dict[int, Module] = {}
    for name, module in model.named_modules():
        if id(module) not in wrapped:
            wrapped[id(module)] = module
            module.__dict__["forward"] = _noting(running, name, module.forward)
    try:
        yield running
    finally:
        for module in wrapped.values():
            del module.__dict__["forward"]


def _noting(running: list[str], name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        running.append(name)
        try:
            return forward(*args, **kwargs)
        finally:
            running.pop()

    observer: Any = noted
    observer.only_observes = True  # so that ops may still join the modules
    return observer
