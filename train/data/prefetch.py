"""Batches made ahead of time, in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items in the same order, up to `depth` of them made ahead by a thread while one is worked on.

    What making an item raises is raised here, in its place. When the consumer stops early (closes the generator, or
    forgets it) the thread ends. Raises ValueError for a depth below 1.
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
