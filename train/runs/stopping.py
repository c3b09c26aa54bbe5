"""Ending a run early without losing anything: stop signals, and the exception that says how to go on."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class TrainingStopped(Exception):  # noqa: N818 - it is no error
    """A run ended before its last step, with all it needs to go on saved.

    Attributes:
        step: the updates made.
        signal: the signal that asked for it; None where `stop_at` did.
    """

    def __init__(self, message: str, step: int, signal: int | None = None):
        super().__init__(message)
        self.step, self.signal = step, signal

    @property
    def exit_code(self) -> int:
        """What a process should end with: 0 for a planned stop, else 128 and the signal's number, as shells have it."""
        return 0 if self.signal is None else 128 + self.signal


class StopSignals:
    """Within the `with` block SIGINT (Ctrl-C) and SIGTERM only set `received`; the loop looks at it after each step.

    A second signal ends the process as the first would have done outside the block. Only the main thread can receive
    signals: in another one this does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        # Straight to the file descriptor: the signal may have come while sys.stderr was writing.
        os.write(2, b"\nstopping after this step; once more ends at once, without saving\n")
        self.__exit__()
