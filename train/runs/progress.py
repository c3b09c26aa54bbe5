"""The progress of a run: the counters of the training loop, and the time that training takes."""

import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, Self


def add_means(sums: dict[str, float], tokens: float, means: Mapping[str, Any]) -> None:
    """Add a batch's mean values per token to the sums over all tokens; `sums["tokens"]` counts them."""
    for name, mean in {**means, "tokens": 1.0}.items():
        sums[name] = sums.get(name, 0.0) + float(mean) * tokens


def means_of(sums: Mapping[str, float]) -> dict[str, float]:
    """Compute the means from the sums of `add_means`."""
    return {name: total / sums["tokens"] for name, total in sums.items() if name != "tokens"}


@dataclass
class Progress:
    """The counters of a run, which determine the decisions of the loop. A resumed run restores them."""

    seed: int  # determines each batch's random numbers (dropout), together with the batch's position in the data
    step: int = 0  # number of updates made
    epoch: int = 0  # of the next batch, from 0
    batch: int = 0  # number of the next batch in its epoch, from 0
    best: float | None = None  # best value of the monitored metric; None before a finite value
    best_step: int = 0
    stale: int = 0  # number of validations since `best_step`
    snapshots: list[int] = field(default_factory=list)  # steps of the last validations, whose weights may be averaged
    overflowed: str | None = None  # the parameter whose gradient overflowed first at the last overflow, if it is known
    log_sums: dict[str, float] = field(default_factory=dict)  # over tokens, by name, since the last row of the log

    def advance(self, batches: int, per_epoch: int) -> None:
        """Count an update made from `batches` batches; an epoch has `per_epoch` batches."""
        self.step += 1
        epochs, self.batch = divmod(self.batch + batches, per_epoch)
        self.epoch += epochs

    def batches(self, per_epoch: int) -> int:
        """Return the number of batches so far; an epoch has `per_epoch` batches."""
        return self.epoch * per_epoch + self.batch

    def add_to_log(self, tokens: float, means: dict[str, float]) -> None:
        """Add a step's means over its tokens to the sums for the next row of the log, unless the loss is not finite."""
        if not math.isfinite(means["loss"]):
            return  # float16 overflowed, and the step was skipped
        add_means(self.log_sums, tokens, means)

    def log_means(self, *, reset: bool) -> tuple[float, dict[str, float]]:
        """Return the number of tokens since the last reset and the means over them. `reset` resets the sums."""
        tokens, means = self.log_sums.get("tokens", 0.0), means_of(self.log_sums) or {"loss": math.nan}
        if reset:
            self.log_sums = {}
        return tokens, means

    def note_validation(self, value: float, higher: bool) -> bool:
        """Count a validation, and return whether it is the best so far. Every later value beats NaN or infinity."""
        better = self.best is None or (value > self.best if higher else value < self.best)
        if better:
            self.best, self.best_step, self.stale = value if math.isfinite(value) else None, self.step, 0
        else:
            self.stale += 1
        return better

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


class TrainingClock:
    """A stopwatch of updates, which validations, saves and pictures pause; `processor` are seconds of the process."""

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
        """Pause the clock within the `with` block."""
        self._stop()
        try:
            yield
        finally:
            self.start()

    def lap(self) -> float:
        """Return the seconds since the last call."""
        self._stop()
        seconds, self._seconds = self._seconds, 0.0
        return seconds


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
    """A context manager in which SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed) only set `received`. The
    loop checks it after each step. SIGHUP stays ignored under `nohup`.

    A second signal ends the process, as it would outside the block. At the end of the block, a signal that the loop has
    not handled does the same. Only the main thread can receive signals; in other threads this does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}
        self._terminals = [number for number in (1, 2) if os.isatty(number)]

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, *self._hang_up()):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._put_back()
        if kind is None and self.received is not None:
            signal.raise_signal(self.received)

    @staticmethod
    def _hang_up() -> list[int]:
        number = getattr(signal, "SIGHUP", None)  # Windows has none
        return [number] if number and signal.getsignal(number) is not signal.SIG_IGN else []

    def _put_back(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        if number in self._hang_up():  # the terminal is gone: printing would fail before the run is saved
            null = os.open(os.devnull, os.O_WRONLY)
            for terminal in self._terminals:
                os.dup2(null, terminal)
        # This writes to the file descriptor, because the signal may have come while sys.stderr was writing.
        with suppress(OSError):  # nobody reads it
            os.write(2, b"\nstopping after this step; once more ends at once, without saving\n")
        self._put_back()
