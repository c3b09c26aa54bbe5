"""A record of in-place changes of arrays. A backward pass raises an error if an array that it needs was changed.

Changes are tracked by memory, not by tensor, because views, `detach()`, `Tensor(x.data)` and a bare `x.data` given to
an op all share the leaf's memory. Each change calls `note`. A check compares only two numbers, unless a call of the
graph is older than the latest change.
"""

from collections.abc import Sequence
from itertools import takewhile

from .backend import Array, address_of
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
