"""A record of in-place changes of arrays. A backward pass raises an error if an array that it needs was changed.

Changes are tracked by memory, not by tensor, because views, `detach()`, `Tensor(x.data)` and a bare `x.data` given to
an op all share the leaf's memory. Each change calls `note`. A check compares only two numbers, unless a call of the
graph is older than the latest change.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from .backend import Array, address_of, is_array
from .locks import new_lock
from .origin import call_numbers

_MOST = 1 << 16  # regions to remember; a model has some hundreds


_lock = new_lock()


class Changes:
    """The regions of memory that were changed in place, and the number of each region's latest change.

    Attributes:
        last: the number of the latest change. Changes and calls are numbered in one sequence, `call_numbers`.
    """

    def __init__(self) -> None:
        self.last = -1
        self._numbers: dict[tuple[int, int], int] = {}  # by first and last address, the latest change last
        self._forgotten = -1  # the number of the latest change that was removed from `_numbers`

    def note(self, array: Array) -> None:
        """Record that `array` was written to."""
        region = _region(array)
        with _lock:
            self._numbers.pop(region, None)
            self._numbers[region] = self.last = next(call_numbers)
            if len(self._numbers) > _MOST:
                self._forgotten = self._numbers.pop(next(iter(self._numbers)))

    def find(self, arrays: Sequence[Array], number: int) -> int | None:
        """Return the index of the first array that may have been changed since call `number`, or None."""
        with _lock:
            recent, forgotten = self._since(number), self._forgotten > number
        for index, array in enumerate(arrays):
            start, stop = _region(array)
            if forgotten or any(max(first, start) < min(last, stop) for first, last in recent):
                return index
        return None

    def _since(self, number: int) -> list[tuple[int, int]]:
        """Return the regions that were changed after call `number`."""
        while True:
            try:
                latest = takewhile(lambda item: item[1] > number, reversed(self._numbers.items()))
                return [region for region, _ in latest]
            except RuntimeError:  # a signal handler noted a change in between
                continue


def overlap(x: Array, y: Array) -> bool:
    """Return whether the memory of two arrays, from the first to the last byte of each, overlaps."""
    (first, last), (start, stop) = _region(x), _region(y)
    return max(first, start) < min(last, stop)


def _region(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first byte and of the byte after its last; equal ones for an empty array."""
    start = address_of(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    if not array.size:
        return start, start
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    first = start + sum(step for step in steps if step < 0)
    return first, start + sum(step for step in steps if step > 0) + array.itemsize


#: The changes in this process.
changes = Changes()


def held(call: Any) -> Iterator[tuple[str, Any]]:
    """Yield a name and the array for every array that this call keeps for its backward rule."""
    identities = call._identities[: len(call.inputs)] if call.inputs else []
    for position, value in enumerate(call._saved or ()):
        if is_array(value):
            of_input = id(value) in identities
            yield (f"input {identities.index(id(value))}" if of_input else f"saved array {position}"), value
    own = {name: value for name, value in vars(call).items() if not name.startswith("_")}
    for name, value in {"kept array": own.pop("kept", ()), **own}.items():
        for position, part in enumerate(value if isinstance(value, tuple | list) else (value,)):
            if is_array(part):
                yield (f"{name} {position}" if isinstance(value, tuple | list) else name), part


def refuse_if_changed(call: Any) -> None:
    """Raise RuntimeError if an array that the call's backward rule needs was changed since the call."""
    arrays = list(held(call))
    index = changes.find([array for _, array in arrays], call.number)
    if index is not None:
        name, array = arrays[index]
        raise RuntimeError(
            f"{call.name}: {name} of shape {array.shape} was changed in place after the forward pass, so the "
            "gradient would be wrong. Change this array after backward(), or change a copy."
        )
