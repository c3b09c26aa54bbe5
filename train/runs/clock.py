"""The training time, without validations, saves and pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class TrainingClock:
    """A stopwatch of updates: validations, saves and pictures pause it.

    Attributes:
        processor: processor seconds of this process and its threads; a resumed run adds to what it had.
    """

    def __init__(self, processor: float = 0.0):
        self.processor = processor
        self._seconds = 0.0
        self.start()

    def start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def _stop(self) -> None:
        self._seconds += time.perf_counter() - self._began[0]
        self.processor += time.process_time() - self._began[1]
        self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time of the `with` block is not counted."""
        self._stop()
        try:
            yield
        finally:
            self.start()

    def lap(self) -> float:
        """Seconds since the last call."""
        self._stop()
        seconds, self._seconds = self._seconds, 0.0
        return seconds
