"""Ending a run early without losing anything: stop signals, and the exception with a hint on how to resume."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any


class TrainingStopped(Exception):  # noqa: N818 - it is no error
    """An exception for a run that ended before its last step. Everything needed to resume it is saved.

    Attributes:
        step: the number of updates made.
        signal: the signal that stopped the run; None for `stop_at`.
    """

    def __init__(self, message: str, step: int, signal: int | None = None):
        super().__init__(message)
        self.step, self.signal = step, signal

    @property
    def exit_code(self) -> int:
        """The exit code of the process: 0 for a planned stop, else 128 plus the signal's number, as in shells."""
        return 0 if self.signal is None else 128 + self.signal


class StopSignals:
    """A context manager in which SIGINT (Ctrl-C) and SIGTERM only set `received`. The loop checks it after each step.

    A second signal ends the process, as it would outside the block. At the end of the block, a signal that the loop has
    not handled does the same. Only the main thread can receive signals; in other threads this does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._put_back()
        if kind is None and self.received is not None:
            signal.raise_signal(self.received)

    def _put_back(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        # This writes to the file descriptor, because the signal may have come while sys.stderr was writing.
        with contextlib.suppress(OSError):  # nobody reads it
            os.write(2, b"\nstopping after this step; once more ends at once, without saving\n")
        self._put_back()
