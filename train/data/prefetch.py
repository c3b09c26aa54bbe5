"""Prefetching: a thread makes batches ahead of time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield `items` in their order, while a thread computes up to `depth` items ahead.

    An exception in the thread is raised when the item that caused it is requested. If the generator is closed or
    deleted early, the thread ends. Raises ValueError for a depth below 1.
    """
    if depth < 1:
        raise ValueError(f"prefetch: depth = {depth} must be at least 1")
    return _consume(items, depth)


def _consume(items: Iterable[T], depth: int) -> Iterator[T]:
    ready: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()

    def put(value: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put(value, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((_END, None))
        except BaseException as error:  # for the consumer to see
            put((_END, error))

    thread = threading.Thread(target=produce, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        thread.join()


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
