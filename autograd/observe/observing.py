"""Observers of every call, independent of the engine.

`Function.__call__` checks one variable, which is the only cost without observers. Observers form a stack: the
newest is called first, and passes the call on to the one before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .. import function
from ..function import Function

_lock = threading.Lock()
_stack: list[Observer] = []


class Observer:
    """The base class of observers.
    It runs each computation and returns its result; subclasses examine inputs and results.

    All threads are observed.
    """

    inner: Observer | None = None  # the next one in the stack

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        """Return call.forward(*arrays): an array or a tuple of arrays."""
        return call.forward(*arrays) if self.inner is None else self.inner.forward(call, arrays)

    def backward(self, call: Function, rule: Callable[..., Any], gradients: list[Any]) -> Any:
        """Return rule(*gradients): the gradients of the call's inputs.
        `gradients` are the gradients of the outputs, None for unused outputs.
        """
        return rule(*gradients) if self.inner is None else self.inner.backward(call, rule, gradients)


AnyObserver = TypeVar("AnyObserver", bound=Observer)


def start_observing(observer: AnyObserver) -> AnyObserver:
    """Put `observer` on top of the stack and return it. Raises ValueError if it is already there."""
    with _lock:
        if observer in _stack:
            raise ValueError("this observer observes already: make another one")
        _stack.append(observer)
        _link()
    return observer


def stop_observing(observer: Observer) -> None:
    """Remove the observer from the stack. Others that have started since continue."""
    with _lock:
        _stack.remove(observer)
        _link()


def _link() -> None:
    for before, observer in zip([None, *_stack], _stack, strict=False):
        observer.inner = before
    function.observer = _stack[-1] if _stack else None
