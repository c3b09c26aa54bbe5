"""Prefetching: a thread makes batches ahead of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_END: Any = object()


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield `items` in their order, while a thread computes up to `depth` items ahead.

    An exception in the thread is raised when the item that caused it is requested. If the generator is closed or
    deleted early, the thread ends. Raises ValueError for a depth below 1.
    """
    if depth < 1:
        raise ValueError(f"prefetch: depth = {depth} must be at least 1")
    return _consume(iter(items), depth)


def _consume(items: Iterator[T], depth: int) -> Iterator[T]:
    thread = ThreadPoolExecutor(1, "prefetch")
    try:
        ahead = deque(thread.submit(next, items, _END) for _ in range(depth + 1))  # one of them is being made
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(thread.submit(next, items, _END))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


class PrefetchedBatches:
    """Training data (`trainer.Batches`) whose batches a thread computes ahead.

    Args:
        batches: the data; all other attributes, such as `fingerprint`, are forwarded to it.
        depth: number of batches that the thread computes ahead, at least 1.
    """

    def __init__(self, batches: Any, depth: int):
        self.batches, self.depth = batches, depth

    def __len__(self) -> int:
        return len(self.batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches, name)

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Any]:
        return prefetch(self.batches.epoch(epoch, start, every), self.depth)
