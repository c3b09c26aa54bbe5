"""The origins of tensors, which are the edges of the computation graph, and the switch that turns recording off."""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any

from .backend import Array
from .locks import new_lock

if TYPE_CHECKING:
    from .tensor import Tensor

# Every recorded call, and every leaf when it is first used, gets the next number. So inputs have smaller numbers than
# the call that uses them, and descending numbers are a valid order for the backward pass. `next` on a count is atomic:
# threads may record at the same time.
call_numbers = itertools.count()
# Guards what threads may do to a leaf at the same time: create its origin, or add to its gradient.
leaf_lock = new_lock()


class Origin:
    """The origin of a tensor that requires a gradient: an output of a call, or a leaf (`Leaf`). A call refers to the
    origins of its inputs, not to the tensors, so that values that no backward rule saved can be freed.
    """

    __slots__ = ("dtype", "node", "shape", "slot")

    def __init__(self, array: Array, node: Any, slot: int):
        self.shape: tuple[int, ...] = array.shape
        self.dtype = array.dtype
        self.node = node  # the Function that made it; None for a leaf
        self.slot = slot  # which of the node's outputs it is

    @property
    def number(self) -> int:
        """The number of the call that made the tensor, or of the leaf."""
        return self.node.number


class Leaf(Origin):
    """The origin of a tensor that is not the result of a recorded call."""

    __slots__ = ("hooks", "number", "tensor")
    number: int

    def __init__(self, tensor: Tensor):
        super().__init__(tensor.data, None, 0)
        self.tensor = weakref.ref(tensor)  # a strong reference would be a cycle
        # Calls that use the tensor have larger numbers: a pass that computes the tensor's gradient may stop here.
        self.number = next(call_numbers)
        self.hooks: dict[int, Callable[[Any], Any]] = {}


def graph_of(tensors: Iterable[Tensor]) -> Iterator[Origin]:
    """Yield one origin for each call and each leaf in the graph of `tensors`."""
    waiting, seen = [tensor.origin for tensor in tensors if tensor.requires_grad], set()
    while waiting:
        origin = waiting.pop()
        key = origin if origin.node is None else origin.node
        if key not in seen:
            seen.add(key)
            yield origin
            waiting += [source for source in (origin.node.inputs if origin.node else ()) if source is not None]


# -- whether operations are recorded: a switch for each thread and each asynchronous task ------------------------------

grad_enabled: ContextVar[bool] = ContextVar("grad_enabled", default=True)


def is_grad_enabled() -> bool:
    """Return whether operations in this thread (and task) are being recorded."""
    return grad_enabled.get()


class BlockDecorator(ContextDecorator):
    """A context manager that is also a decorator of functions whose body runs during the call."""

    def __call__(self, function: Any) -> Any:
        if any(
            is_kind(function)
            for is_kind in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        ):
            raise TypeError(
                f"{type(self).__name__} can't decorate {function.__name__}, a generator or asynchronous function: its "
                "body runs later, in steps. Use a with statement around each computation in its body"
            )
        return super().__call__(function)


#: What the open blocks of this context will restore: the innermost block's variable and its value, and the same of the
#: other blocks. Threads and tasks can share a Switch.
_previous: ContextVar[Any] = ContextVar("previous", default=None)


def _ended(blocks: Any, variable: ContextVar[bool]) -> tuple[bool, Any]:
    """Return what the innermost block of `variable` will restore, and the other blocks. A generator may end its block
    within another block, or in another thread, which keeps its value.
    """
    if blocks is None:
        return variable.get(), None
    of, value, outer = blocks
    if of is variable:
        return value, outer
    restored, others = _ended(outer, variable)
    return restored, (of, value, others)


class Switch(BlockDecorator):
    """Context manager and decorator: set a variable of the thread, or of the asynchronous task, within the block."""

    _setting: tuple[ContextVar[bool], bool]

    def __init__(self, variable: ContextVar[bool], value: bool) -> None:
        self._setting = variable, value

    def __enter__(self) -> None:
        variable, value = self._setting
        _previous.set((variable, variable.get(), _previous.get()))
        variable.set(value)

    def __exit__(self, *exception: object) -> None:
        variable = self._setting[0]
        before, others = _ended(_previous.get(), variable)
        _previous.set(others)
        variable.set(before)

    def _recreate_cm(self) -> Switch:
        return copy(self)


class no_grad(Switch):  # noqa: N801  (reads as a statement: `with no_grad():`)
    """Context manager and decorator: do not record operations within the block, in this thread and task."""

    _setting = grad_enabled, False

    def __init__(self) -> None: ...


class enable_grad(Switch):  # noqa: N801
    """Context manager and decorator: record operations within the block, even inside `no_grad`."""

    _setting = grad_enabled, True

    def __init__(self) -> None: ...
