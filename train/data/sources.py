"""What a Trainer accepts as batches: a list, another re-iterable, a function of the epoch, or an object with epochs."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

import numpy as np

from ...autograd import Tensor
from ...autograd.backend import is_array, to_device
from ...autograd.tensor import array_of
from ...errors import InputError, short
from ...nn import Module


class Batches(Protocol):
    """Training data: `epoch(k)` yields the batches of epoch k, in an order that depends only on k and a seed.

    All epochs have the same number of batches. With `start` and `every` it yields batches start, start + every, ....
    A method `fingerprint() -> str` is optional: a resumed run compares it to check that the data are the same.
    """

    def __len__(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Any]: ...


#: Batches as people have them: see `as_batches`.
BatchSource = Batches | Iterable[Any] | Callable[[int], Iterable[Any]]


class IterableBatches:
    """The batches of an iterable, or of a function of the epoch, as `Batches`. Without `len`, epoch 0 is counted."""

    def __init__(self, source: Any):
        self._source = source if not hasattr(source, "__iter__") else lambda epoch: source
        first = self._source(0)
        if not hasattr(first, "__iter__"):
            raise TypeError(f"the function of the epoch must return the batches of the epoch, not {short(first)}")
        self._count = len(first) if hasattr(first, "__len__") else sum(1 for _ in first)
        # A list is the same each time; the batches of others may be too many to read, or random.
        self._fingerprint = f"{self._count} batches" + (checksum(source) if isinstance(source, list | tuple) else "")

    def __len__(self) -> int:
        return self._count

    def fingerprint(self) -> str:
        return self._fingerprint

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Any]:
        return islice(self._source(epoch), start, None, every)


def _read(source: Any) -> Any:
    """Return an object with `__len__` and `__getitem__` alone, as PyTorch's data sets, as a function of the epoch."""
    if hasattr(source, "__iter__") or isinstance(source, type) or not hasattr(source, "__getitem__"):
        return source
    return lambda epoch: (source[index] for index in range(len(source)))


def checksum(batches: Any) -> str:
    """Return a checksum of the arrays, texts and numbers in lists, tuples and dicts."""
    total = hashlib.sha256()

    def add(item: Any) -> None:
        if isinstance(item, list | tuple | dict):
            total.update(f"{type(item).__name__} {len(item)}".encode())
            for part in item.items() if isinstance(item, dict) else item:
                add(part)
        elif is_array(array_of(item)):
            array = to_device(array_of(item), "cpu")
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(np.ascontiguousarray(array).data if array.dtype != object else b"")
        elif isinstance(item, str | bytes | int | float):
            total.update(repr(item).encode())

    add(batches)
    return f", {total.hexdigest()}"


def as_batches(source: BatchSource) -> Batches:
    """Return training batches as `Batches`: of an iterable that gives the batches of an epoch each time, such as a list
    or an object with `__len__` and `__getitem__`, or of a function of the number of the epoch, from 0, on which alone
    the order of its batches depends.
    """
    source = _read(source)
    if hasattr(source, "epoch") and hasattr(source, "__len__") and not isinstance(source, type):
        found: Any = source
    else:
        once, wrong = isinstance(source, Iterator), isinstance(source, str | bytes | Mapping | Tensor | Module | type)
        if once or wrong or not (callable(source) or hasattr(source, "__iter__")):
            why = "which can be read only once" if once else f"{short(source)}"
            raise TypeError(
                f"the batches are a {type(source).__name__}, {why}: give a list of batches, or a function of the epoch "
                "that returns its batches"
            )
        found = IterableBatches(source)
    if not len(found):
        raise InputError("There must be at least one batch to train on.")
    return found


def listed(batches: Any) -> list[Any]:
    """Return validation batches, of an iterable or of the first epoch of `Batches`, as a list."""
    found = batches.epoch(0) if hasattr(batches, "epoch") else batches
    found = found if (read := _read(found)) is found else read(0)
    if not hasattr(found, "__iter__") or isinstance(found, str | bytes | Mapping | Tensor):
        cure = "; call the function: batches(0)" if callable(found) else ""
        raise TypeError(f"validation batches are a list or another iterable, not a {type(batches).__name__}{cure}")
    if not (found := list(found)):
        raise InputError("There must be at least one batch to validate with.")
    return found
