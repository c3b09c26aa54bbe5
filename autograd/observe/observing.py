"""Observers of every call of an op. Without observers, their only cost is that `Function.__call__` checks one variable.
Observers form a stack: the newest observer is called first, and passes the call on to the observer below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from .. import function
from ..function import Function
from ..locks import new_lock

_lock = new_lock()
_stack: list[Observer] = []


class Observer:
    """The base class of observers.
    It runs each computation and returns the result; subclasses also examine inputs and results. An observer observes
    all threads. It is a context manager: it is active in its `with` block. Blocks of other observers may begin and end
    in between.
    """

    inner: Observer | None = None  # the next one in the stack

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        """Return the call's result for these inputs, an array or a tuple of arrays."""
        return call.evaluate(*arrays) if self.inner is None else self.inner.forward(call, arrays)

    def backward(self, call: Function, rule: Callable[..., Any], gradients: list[Any]) -> Any:
        """Return rule(*gradients), the gradients of the inputs, from those of the outputs (None for unused ones)."""
        return rule(*gradients) if self.inner is None else self.inner.backward(call, rule, gradients)

    def __enter__(self) -> Self:
        with _lock:
            if self in _stack:
                raise ValueError("this observer is already active: create another one")
            _stack.append(self)
            _link()
        return self

    def __exit__(self, *exception: object) -> None:
        with _lock:
            _stack.remove(self)
            _link()


def _link() -> None:
    for before, observer in zip([None, *_stack], _stack, strict=False):
        observer.inner = before
    function.observer = _stack[-1] if _stack else None
