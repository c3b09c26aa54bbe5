"""One session of the explorer, with its run, the run's model, and the functions that compute the views."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..models.shipped import MODELS
from ..train.runs.folder import read_metrics
from . import attention, beam, check, graph, merges, tiles, training
from .asking import Ask
from .subject import Subject, load_subject
from .training import COMMANDS, PRESETS, Training
from .yours import BUILT, Yours

#: The function that computes each view for a model. Instead of the content it can return a function that completes it.
VIEWS: dict[str, Callable[[Subject, Ask], Any]] = {
    "translate": attention.translate,
    "head": attention.head,
    "next": attention.following,
    "beam": beam.beam,
    "graph": graph.graph,
    "call": graph.call,
    "check": check.begun,
    "bpe": merges.merges,
    "tiles": tiles.tiles,
    "saves": training.saves,
}
#: All names that `Session.answer` accepts.
ANSWERS = ("state", "choose", "train", *VIEWS)


class Session:
    """Computes one answer at a time, because models, observers and planted mistakes are shared by the whole process.

    A learner's function and the measurement of numeric gradients, which take long, don't block other answers.

    Args:
        run: the run's folder; None means to train a model.
        yours: a learner's course folder, whose functions are shown next to those of handloom.
    """

    def __init__(self, run: Path | None, yours: Path | None = None):
        self._lock = threading.Lock()
        self._yours = Yours(yours, self._lock) if yours is not None else None
        self._subject: Subject | None = None
        self._saved: tuple[Path, int] | None = None  # folder of the weights in `_subject`, and their time
        self._given = run
        self._log: tuple[Any, list[dict[str, Any]]] = None, []  # file, size and time of the log, and its rows
        self._shown = run  # None for the run that is trained here
        self.training = Training() if run is None else None

    @property
    def run(self) -> Path:
        """The folder of the selected run, or of the run being trained."""
        if self._shown is not None:
            return self._shown
        assert self.training is not None
        return self.training.run

    def runs(self) -> dict[str, Path | None]:
        """The runs that can be selected, by name: shipped models, runs in runs/, and the current run."""
        found: dict[str, Path | None] = dict(MODELS)
        found |= {f"runs/{path.parent.name}": path.parent for path in sorted(Path("runs").glob("*/model.safetensors"))}
        if self._given is not None and self._given.resolve() not in [path.resolve() for path in found.values() if path]:
            found[str(self._given)] = self._given
        if self.training is not None:
            found[f"runs/{self.training.run.name}"] = None
        return found

    def close(self) -> None:
        """End the training that this session started."""
        if self.training is not None:
            self.training.close()

    def subject(self) -> Subject:
        """The run's model, reloaded when better weights are saved. Raises InputError if no model is saved yet."""
        path = self.run / "model.safetensors"
        if self._shown is None and not path.is_file():
            raise InputError("The new run has no model yet: the model is saved at the first validation. Wait for it.")
        saved = self.run, path.stat().st_mtime_ns if path.is_file() else 0
        if self._subject is None or saved != self._saved:
            self._subject, self._saved = load_subject(self.run), saved
        return self._subject

    def answer(self, view: str, body: Any) -> dict[str, Any]:
        """Return the content of a view. Raises InputError for an invalid request."""
        ask = Ask(body)
        try:
            with self._lock:
                if view == "state":
                    return self.state()
                if view == "choose":
                    return self.choose(ask)
                if view == "train":
                    return self.train(ask)
                subject = self.subject()
                found = VIEWS[view](subject, ask)
            if callable(found):
                return found()
            if self._yours is not None and view in BUILT:
                found["yours"] = self._yours.answer(view, subject, ask, found)
            return found
        except ValueError as error:  # the engine's message for a number that it can't use
            if isinstance(error, InputError):
                raise
            raise InputError(f"{error}.") from error

    def state(self) -> dict[str, Any]:
        """Return information on the model, or the reason why there is no model."""
        try:
            found: dict[str, Any] = {"model": self.subject().facts(), "problem": None}
        except InputError as error:
            found = {"model": None, "problem": str(error)}
        runs = self.runs()
        chosen = next((name for name, path in runs.items() if path == self._shown), next(iter(runs)))
        return {"run": chosen, "runs": list(runs), "training": self._shown is None, **found}

    def choose(self, ask: Ask) -> dict[str, Any]:
        """Show another run."""
        runs = self.runs()
        self._shown = runs[ask.choice("run", runs)]
        return self.state()

    def train(self, ask: Ask) -> dict[str, Any]:
        """Start a training, or control the current one."""
        order = ask.choice("order", ("start", *COMMANDS))
        if order == "start":
            preset = ask.choice("preset", PRESETS, "smoke")
            precision = ask.choice("precision", ("fp32", "fp16"), "fp32")
            if self.training is not None:
                self.training.close()
            self.training, self._shown = Training(preset, precision), None
        elif self.training is None or self._shown is not None:
            raise InputError(
                "Another process trains this run, so the training can be watched but not controlled. Start a training "
                "here."
            )
        else:
            self.training.command(order)
        return {"state": self.training.state}

    def progress(self) -> dict[str, Any]:
        """Return the rows of the run's log, the state of its training, and the time of its weights in milliseconds.

        Raises InputError if the log is damaged.
        """
        run, own = self.run, self.training if self._shown is None else None
        log, weights = run / "metrics.jsonl", run / "model.safetensors"
        stamp = (log, log.stat().st_size, log.stat().st_mtime_ns) if log.is_file() else None
        if stamp != self._log[0]:
            self._log = stamp, read_metrics(log) if stamp else []
        return {
            "run": run.name,
            "state": own.state if own is not None else "watched",
            "said": list(own.said)[-3:] if own is not None else [],
            "steps": own.steps if own is not None else None,
            "rows": self._log[1],
            "model": weights.stat().st_mtime_ns // 10**6 if weights.is_file() else 0,
        }
