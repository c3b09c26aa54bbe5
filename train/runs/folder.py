"""The folder a training run leaves behind: runs/NAME/{config.json, metrics.jsonl, loss.png, model.safetensors, ...}."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TextIO

from ...errors import InputError, remedy
from .atomic_files import atomic_path, read_json, temporary_name, write_json
from .checkpoints import MODEL_FILE, make_folder
from .saves import SavedStates

FORMAT = "handloom-run"
VERSION = 1

# All that a run writes. Clearing a folder removes these names and no others; config.json last, since it marks the
# folder.
_FILES = (
    "metrics.jsonl",
    "timings.jsonl",
    "loss.png",
    "attention.png",
    "encoder_heads.png",
    "decoder_heads.png",
    "cross_heads.png",
    "accuracy.png",
    "confusion.png",
    "comparison.png",
    "cells.jsonl",
    "table.md",
    "samples.txt",
    "tokenizer.json",
    MODEL_FILE,
    "config.json",
)
# What is a number, or nothing, in every log.
_NUMBERS = {
    "step", "epoch", "loss", "accuracy", "valid_loss", "valid_accuracy", "learning_rate", "gradient_norm", "averaged",
    "tokens_per_second", "seconds", "best_step", "parameters",
}  # fmt: skip
_SAVES = "checkpoints"
_CELLS = "cells"


class RunFolder:
    """A run's folder. Make a new one with `RunFolder.create`, look into an old one with `RunFolder.open`.

    `metrics.jsonl` holds only numbers that the same seed gives again, so two runs can be compared byte for byte;
    seconds and tokens per second go to `timings.jsonl`.

    Attributes:
        path: the folder.
        config: what `config.json` holds.
    """

    def __init__(self, path: Path, config: dict[str, Any]):
        self.path = path
        self.config = config
        self._created = self._made_folder = False  # by this object, which may then take them back
        self._streams: dict[Path, TextIO] = {}

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> RunFolder:
        """Make the folder and write `config.json`.

        Args:
            path: a folder that doesn't exist or is empty.
            config: options of the run; anything JSON can hold.
            overwrite: clear an older run out of the folder first. Only what a run writes is removed.

        Raises:
            InputError: the folder has files in it and `overwrite` is false; or it is not the folder of a run, which
                is never cleared; or it can't be written to.
        """
        path = Path(path)
        new = not path.is_dir()
        if not new:
            _make_room(path, overwrite)
        make_folder(path)
        mark = {"format": FORMAT, "version": VERSION}
        full = mark | dict(config) | mark  # first in the file, and not to be overridden
        write_json(path / "config.json", full)
        run = cls(path, full)
        run._created, run._made_folder = True, new
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """The folder of an earlier run.

        Raises:
            InputError: it doesn't exist, or its `config.json` is missing, damaged, or not a run's.
        """
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"The run {path} is not an existing folder. Give the folder of a run, such as runs/NAME.")
        if not (path / "config.json").is_file():
            raise InputError(f"{path} is not a run: it holds no config.json. Give the folder of a run, like runs/NAME.")
        config = read_json(path / "config.json")
        if config.get("format") != FORMAT:
            raise InputError(f"{path} is not a handloom run: its config.json is something else's. Give a run's folder.")
        if config.get("version") != VERSION:
            raise InputError(
                f"The run {path} has format {config.get('version')}; this handloom reads format {VERSION}. Use the "
                "version of handloom that wrote it, or train again."
            )
        return cls(path, config)

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def timings_path(self) -> Path:
        return self.path / "timings.jsonl"

    @property
    def loss_picture(self) -> Path:
        return self.path / "loss.png"

    @property
    def attention_picture(self) -> Path:
        return self.path / "attention.png"

    @property
    def model_path(self) -> Path:
        return self.path / MODEL_FILE

    @property
    def tokenizer_path(self) -> Path:
        return self.path / "tokenizer.json"

    @property
    def saves_path(self) -> Path:
        return self.path / _SAVES

    @property
    def samples_path(self) -> Path:
        return self.path / "samples.txt"

    def log(self, row: Mapping[str, Any], times: Mapping[str, Any] | None = None) -> None:
        """Append one row to `metrics.jsonl`, and `times` (with the row's step) to `timings.jsonl`; both are flushed.

        NumPy scalars are welcome; a NaN or infinity is written as null, since JSON has no word for it.

        Raises:
            InputError: the disk is full or the file can't be written.
        """
        self._append(self.metrics_path, row)
        if times is not None:
            step = {"step": row["step"]} if "step" in row else {}
            self._append(self.timings_path, {**step, **times})

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of `metrics.jsonl` so far; [] if nothing was logged."""
        return read_metrics(self.metrics_path, "step") if self.metrics_path.exists() else []

    def sizes(self) -> dict[str, int]:
        """Bytes of the logs so far, by file name, synced to disk: what `rewind` goes back to.

        Raises:
            InputError: the disk is full.
        """
        for path, stream in self._streams.items():
            try:
                os.fsync(stream.fileno())
            except OSError as error:
                raise InputError(f"{path} could not be written: {error.strerror}. {remedy(error)}") from error
        logs = (self.metrics_path, self.timings_path)
        return {path.name: path.stat().st_size for path in logs if path.exists()}

    def rewind(self, sizes: Mapping[str, int]) -> None:
        """Cut the logs back to earlier `sizes`: a resumed run writes what came later once more.

        Warns of a log that is shorter than it was. Raises:
            InputError: a file can't be written to, or the rows of metrics.jsonl can't be read.
        """
        self.close()
        self.metrics()
        for path in (self.metrics_path, self.timings_path):
            try:
                size = path.stat().st_size if path.exists() else 0
                if size < sizes.get(path.name, 0):
                    warnings.warn(f"{path} is shorter than when the run was saved: rows are missing", stacklevel=2)
                if size > sizes.get(path.name, 0):
                    os.truncate(path, sizes.get(path.name, 0))
            except OSError as error:
                raise InputError(f"{path} could not be cut back: {error.strerror or error}.") from None

    @property
    def table_path(self) -> Path:
        return self.path / "table.md"

    def picture(self, name: str) -> Path:
        """Where one of the other pictures belongs: "accuracy", "confusion", "comparison" or "encoder_heads"."""
        if f"{name}.png" not in _FILES:
            raise ValueError(f"a run has no picture {name!r}")
        return self.path / f"{name}.png"

    def cell_path(self, name: str) -> Path:
        """The run folder of one cell of this run's table."""
        return self.path / _CELLS / name

    def cells(self) -> list[dict[str, Any]]:
        """The finished cells of this run's table, rows of `cells.jsonl`."""
        path = self.path / "cells.jsonl"
        return read_metrics(path, "cell") if path.exists() else []

    def write_samples(self, text: str) -> None:
        """Write `samples.txt`, atomically."""
        with atomic_path(self.samples_path) as temporary:
            temporary.write_text(text.rstrip("\n") + "\n", encoding="utf-8", newline="\n")

    def close(self) -> None:
        """Close the open files; a later `log` opens them again."""
        while self._streams:
            self._streams.popitem()[1].close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the files; a new run that failed before it logged or saved anything is taken away again."""
        self.close()
        saves = SavedStates(self.saves_path)
        logged = self.metrics_path.exists() or self.model_path.exists() or any(saves.steps())
        if kind and self._created and not logged:
            with contextlib.suppress(OSError):
                _clear(self.path)
                if self._made_folder:
                    self.path.rmdir()

    def _append(self, path: Path, row: Mapping[str, Any]) -> None:
        line = json.dumps({key: jsonable(value) for key, value in row.items()}, ensure_ascii=False, allow_nan=False)
        try:
            if path not in self._streams:
                self._streams[path] = open(path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115 - close() does
            self._streams[path].write(line + "\n")
            self._streams[path].flush()
        except OSError as error:
            if path in self._streams:
                with contextlib.suppress(OSError):  # closing tries to write the row again
                    self._streams.pop(path).close()
            raise InputError(f"{path} could not be written: {error.strerror}. {remedy(error)}") from error


def read_metrics(path: str | Path, needs: Literal["step", "cell", ""] = "") -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`, or another log. A last line that a crash cut short is left out.

    Args:
        needs: what every row must have: a "step", a whole number; or the name of a "cell".

    Raises:
        InputError: the file is missing or unreadable, or another line is not a JSON object with numbers where a log
            has them.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None
    rows = []
    whole_lines = text.split("\n")[:-1]  # what follows the last line feed was never finished
    for number, line in enumerate(whole_lines, start=1):
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deep")
            raise InputError(f"{path}, line {number}: not valid JSON ({reason}). Remove or mend the line.") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: {line[:40]!r} is not a JSON object. Remove or mend the line.")
        wrong = [key for key in _NUMBERS & row.keys() if type(row[key]) not in (int, float, type(None))]
        wrong += [needs] if needs and type(row.get(needs)) is not {"step": int, "cell": str}[needs] else []
        if wrong:
            raise InputError(f"{path}, line {number}: {min(wrong)} is not what a log has. Remove or mend the line.")
        rows.append(row)
    return rows


def jsonable(value: Any) -> Any:
    """A number as JSON has it: of Python's kinds, None for NaN and infinities."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _make_room(path: Path, overwrite: bool) -> None:
    unfinished = {temporary_name(name) for name in _FILES}  # left by a process that was killed while it wrote
    if not any(entry.name not in unfinished for entry in path.iterdir()):
        return
    try:
        is_run = read_json(path / "config.json").get("format") == FORMAT
    except InputError:
        is_run = False
    if not is_run:
        raise InputError(
            f"The folder {path} is not empty and is not the folder of a handloom run, so nothing is written there. "
            "Choose a folder that doesn't exist yet."
        )
    if not overwrite:
        raise InputError(
            f"The run {path} exists already; nothing was overwritten. Go on with it by --resume, choose another "
            "folder with --out, or say --overwrite to replace it."
        )
    try:
        _clear(path)
    except OSError as error:
        raise InputError(f"The old run {path} can't be cleared: {error.strerror or error}.") from None


def _clear(path: Path) -> None:
    """Remove what a run writes, and nothing else."""
    SavedStates(path / _SAVES).clear()
    for cell in (path / _CELLS).glob("*/config.json"):
        _clear(cell.parent)
        cell.parent.rmdir()
    if (path / _CELLS).is_dir() and not any((path / _CELLS).iterdir()):
        (path / _CELLS).rmdir()
    for name in _FILES:
        (path / name).unlink(missing_ok=True)
