"""One session of the explorer: its run, the run's model once there is one, and the function of each view."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import attention, beam, check, graph, merges, tiles, training
from .asking import Ask
from .subject import Subject, load_subject
from .training import COMMANDS, PRESETS, Log, Training

#: View -> function that computes it for a model.
VIEWS: dict[str, Callable[[Subject, Ask], dict[str, Any]]] = {
    "translate": attention.translate,
    "head": attention.head,
    "beam": beam.beam,
    "graph": graph.graph,
    "call": graph.call,
    "check": check.check,
    "bpe": merges.merges,
    "tiles": tiles.tiles,
    "saves": training.saves,
}


class Session:
    """Answers requests one at a time, since models, observers and planted mistakes are shared by the whole process.

    Args:
        run: the run's folder; None to train one.
    """

    def __init__(self, run: Path | None):
        self._lock = threading.Lock()
        self._subject: Subject | None = None
        self._saved: tuple[Path, int] | None = None  # folder of the weights in `_subject`, and when they were written
        self._given, self._log = run, Log()
        self.training = Training() if run is None else None

    @property
    def run(self) -> Path:
        """The explored folder: of the run that is trained here, or else the given one."""
        if self.training is not None:
            return self.training.run
        assert self._given is not None
        return self._given

    def close(self) -> None:
        """End the training started here."""
        if self.training is not None:
            self.training.close()

    def subject(self) -> Subject:
        """The run's model, reloaded when better weights were saved. Raises InputError while there is none."""
        path = self.run / "model.safetensors"
        saved = self.run, path.stat().st_mtime_ns if path.is_file() else 0
        if self._subject is None or saved != self._saved:
            try:
                self._subject, self._saved = load_subject(self.run), saved
            except InputError:
                raise
            except (MemoryError, TypeError, ValueError) as error:  # sizes that no model can have
                raise InputError(f"The model of {self.run} can't be built: {error}. Train it again.") from None
        return self._subject

    def answer(self, view: str, body: Any) -> dict[str, Any]:
        """The content of a view. Raises InputError for a request that can't be answered, KeyError for no such view."""
        ask = Ask(body)
        with self._lock:
            if view == "state":
                return self.state()
            if view == "train":
                return self.train(ask)
            compute = VIEWS[view]
            try:
                return compute(self.subject(), ask)
            except ValueError as error:  # the engine's message for a number that it can't use
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{error}.") from error

    def state(self) -> dict[str, Any]:
        """The model's facts, or why there is no model."""
        try:
            return {"run": str(self.run), "model": self.subject().facts(), "problem": None}
        except InputError as error:
            return {"run": str(self.run), "model": None, "problem": str(error)}

    def train(self, ask: Ask) -> dict[str, Any]:
        """Start a training, or control the current one."""
        order = ask.choice("order", ("start", *COMMANDS))
        if order == "start":
            preset = ask.choice("preset", PRESETS, "smoke")
            precision = ask.choice("precision", ("fp32", "fp16"), "fp32")
            if self.training is not None:
                self.training.close()
            self.training = Training(preset, precision)
        elif self.training is None:
            raise InputError("This run is trained elsewhere: it can be watched, not controlled. Start one here.")
        else:
            self.training.command(order)
        return {"state": self.training.state}

    def progress(self, version: int, known: int, model: int) -> dict[str, Any]:
        """What is new in the log for a page with `known` rows of its `version` and the weights of time `model`.

        Raises InputError if the log is damaged.
        """
        run, own = self.run, self.training
        current, rows = self._log.read(run)
        if version != current:
            known = 0
        path = run / "model.safetensors"
        saved = path.stat().st_mtime_ns // 10**6 if path.is_file() else 0
        return {
            "run": run.name,
            "state": own.state if own is not None else "watched",
            "said": list(own.said)[-3:] if own is not None else [],
            "steps": own.steps if own is not None else None,
            "version": current,
            "from": known,
            "rows": rows[known:],
            "model": saved,
            "changed": saved != model,
        }
