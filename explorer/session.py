"""One session of the explorer: the run it looks at, its model once there is one, and what each view is computed by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import attention, beam, check, graph, merges, tiles
from .asking import Ask
from .subject import Subject, load_subject

#: View -> what computes it for a model.
VIEWS: dict[str, Callable[[Subject, Ask], dict[str, Any]]] = {
    "translate": attention.translate,
    "head": attention.head,
    "beam": beam.beam,
    "graph": graph.graph,
    "call": graph.call,
    "check": check.check,
    "bpe": merges.merges,
    "tiles": tiles.tiles,
}


class Session:
    """Answers requests one at a time: models, observers and planted mutants belong to the whole process.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path):
        self.run = run
        self._lock = threading.Lock()
        self._subject: Subject | None = None
        self._saved = 0  # when the weights of `_subject` were written, in nanoseconds

    def subject(self) -> Subject:
        """The run's model, loaded anew when better weights were saved. Raises InputError while there is none."""
        path = self.run / "model.safetensors"
        saved = path.stat().st_mtime_ns if path.is_file() else 0
        if self._subject is None or saved != self._saved:
            self._subject, self._saved = load_subject(self.run), saved
        return self._subject

    def answer(self, view: str, body: Any) -> dict[str, Any]:
        """What a view shows. Raises InputError for what can't be answered, KeyError for a view that there isn't."""
        ask = Ask(body)
        with self._lock:
            if view == "state":
                return self.state()
            compute = VIEWS[view]
            try:
                return compute(self.subject(), ask)
            except ValueError as error:  # the engine's words for a number that it can't use
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{error}.") from error

    def state(self) -> dict[str, Any]:
        """What the page is about: the model's facts, or why there is none."""
        try:
            return {"run": str(self.run), "model": self.subject().facts(), "problem": None}
        except InputError as error:
            return {"run": str(self.run), "model": None, "problem": str(error)}
