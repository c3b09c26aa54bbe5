"""Changes in place: which memory was written into, and when, so that a graph which holds it refuses to go on.

What counts is the memory and not the tensor. Views, `detach()`, `Tensor(x.data)` and a bare `x.data` given to an op all
hold the leaf's memory, and their addresses tell it. A change is one call of `note`; until a call of the graph is older
than one, all it costs is the comparison of two numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import takewhile

from .backend import Array, address_of
from .origin import call_numbers

_MOST = 1 << 16  # regions to remember; a model has some hundred


class Changes:
    """The regions of memory that were changed, each with the number of its latest change.

    Attributes:
        last: the number of the latest change of all, on the clock of `call_numbers`.
    """

    def __init__(self) -> None:
        self.last = -1
        self._numbers: dict[tuple[int, int], int] = {}  # by first and last address, the latest change last
        self._forgotten = -1  # the latest change that was forgotten
        self._lock = threading.Lock()

    def note(self, array: Array) -> None:
        """Something is being written into `array`."""
        region = _region(array)
        with self._lock:
            self._numbers.pop(region, None)
            self._numbers[region] = self.last = next(call_numbers)
            if len(self._numbers) > _MOST:
                self._forgotten = self._numbers.pop(next(iter(self._numbers)))

    def find(self, arrays: Sequence[Array], number: int) -> int | None:
        """The place of the first array that may have been changed since call `number`; None if there is none."""
        with self._lock:
            recent = [region for region, _ in takewhile(lambda item: item[1] > number, reversed(self._numbers.items()))]
            forgotten = self._forgotten > number
        for place, array in enumerate(arrays):
            start, stop = _region(array)
            if forgotten or any(max(first, start) < min(last, stop) for first, last in recent):
                return place
        return None


def _region(array: Array) -> tuple[int, int]:
    """The addresses from the first byte of an array to behind its last; equal ones for an empty array."""
    start = address_of(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    if not array.size:
        return start, start
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    first = start + sum(step for step in steps if step < 0)
    return first, start + sum(step for step in steps if step > 0) + array.itemsize


#: Those of this process.
changes = Changes()
