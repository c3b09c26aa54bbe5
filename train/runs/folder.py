"""The folder of a training run: runs/NAME/{config.json, metrics.jsonl, loss.png, model.safetensors, ...}."""

import contextlib
import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

from ... import files
from ...errors import InputError, remedy
from ...kinds import checked
from .checkpoints import MODEL_FILE
from .progress import TrainingStopped
from .results import write_results
from .saves import SavedStates

FORMAT, VERSION = "handloom-run", 1
CONFIG, SAVES, CELLS = "config.json", "checkpoints", "cells"
# The files that remain if a process is killed at its very start.
_EARLY = {files.LOCK_FILE, files.temporary_name(CONFIG)}


@checked
class RunFolder:
    """A run's folder: `create` makes a new one, `resume` continues one, `open` reads one.

    `metrics.jsonl` holds only numbers that the seed determines, so two runs can be compared byte for byte;
    tokens per second and processor seconds go to `timings.jsonl`.

    Only one process at a time writes into a folder: `create` and `resume` lock it (`folder_lock`) until the run's
    `with` block or the process ends. Reading needs no lock.

    Attributes:
        path: the folder; `metrics_path`, `model_path` and so on are the files in it.
        config: the content of `config.json`.
        replaced: the new name of the older run's folder, which `create` renamed; None if there was none.
    """

    def __init__(self, path: Path, config: dict[str, Any]):
        self.path, self.config = path, config
        self.metrics_path, self.timings_path = path / "metrics.jsonl", path / "timings.jsonl"
        self.model_path, self.tokenizer_path, self.saves_path = path / MODEL_FILE, path / "tokenizer.json", path / SAVES
        self.replaced: Path | None = None
        self._created = False  # by this object, which may then remove it
        self._lock = contextlib.ExitStack()
        self._streams: dict[Path, BinaryIO] = {}

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> Self:
        """Make the folder and write `config.json`.

        Args:
            path: a folder that doesn't exist or is empty.
            config: options of the run, as JSON values.
            overwrite: rename the folder of an older run to RUN.old-1, or the next number that is free. It gets its name
                back if an error ends the `with` block of this run before anything was logged or saved.

        Raises InputError if the folder has files in it and `overwrite` is false; or it is a folder of something else,
        which is never renamed; or another process writes there; or it can't be written to.
        """
        path = Path(path)
        mark = {"format": FORMAT, "version": VERSION}
        run = cls(path, mark | dict(config) | mark)  # first in the file, and not to be overridden
        if overwrite and _is_run(path):
            run.replaced = _set_aside(path)
        if path.is_dir() and any(entry.name not in _EARLY for entry in path.iterdir()):
            if _is_run(path):
                raise InputError(
                    f"The run {path} exists already; nothing was overwritten. Continue it with resume=True, choose "
                    "another folder, or rename the old run."
                )
            raise InputError(
                f"The folder {path} is not empty and is not the folder of a handloom run, so nothing is written there. "
                "Choose a folder that doesn't exist yet."
            )
        files.make_folder(path)
        run._lock.enter_context(files.folder_lock(path))
        run._created = True
        try:
            run.write_config()
        except BaseException:
            run._end(failed=True)
            raise
        return run

    @classmethod
    def resume(cls, path: str | Path) -> Self:
        """Open the folder of an earlier run to write into it.

        Raises InputError as `open` does, or if another process writes there or the folder is read-only.
        """
        run = cls.open(path)  # a folder that is not a run is not locked
        run._lock.enter_context(files.folder_lock(path))
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the folder of an earlier run to read it.

        Raises InputError if it doesn't exist, or its `config.json` is missing, damaged, or from another program.
        """
        path = Path(path)
        if not (path / CONFIG).is_file():
            raise InputError(f"{path} is not a run: it holds no config.json. Give the folder of a run, like runs/NAME.")
        config = files.read_json(path / CONFIG)
        if (config.get("format"), config.get("version")) != (FORMAT, VERSION):
            raise InputError(f"{path} is not a run of this version of handloom: its config.json is of another program.")
        return cls(path, config)

    def write_config(self) -> None:
        """Write `config` to config.json, atomically."""
        files.write_json(self.path / CONFIG, self.config)

    @property
    def continuation(self) -> str:
        """The sentence of a message that says how to continue the run."""
        return f"Continue with resume=True, out={self.path.as_posix()!r}"

    def log(self, row: Mapping[str, Any], times: Mapping[str, Any] | None = None) -> None:
        """Append one row to `metrics.jsonl`, and `times` (with the same step) to `timings.jsonl`, without a buffer.

        NumPy scalars are converted. NaN and infinities are written as null, since JSON has no other value for them.
        Raises InputError if the disk is full or the file can't be written.
        """
        self._append(self.metrics_path, row)
        if times is not None:
            step = {"step": row["step"]} if "step" in row else {}
            self._append(self.timings_path, {**step, **times})

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of `metrics.jsonl` so far, or [] if nothing was logged."""
        return read_metrics(self.metrics_path, "step") if self.metrics_path.exists() else []

    def processor_seconds(self) -> tuple[list[int], list[float]]:
        """Return the steps in `timings.jsonl`, and the processor seconds of training up to each step."""
        rows = read_metrics(self.timings_path, "step") if self.timings_path.exists() else []
        rows = [row for row in rows if row.get("processor_seconds") is not None]
        return [row["step"] for row in rows], [row["processor_seconds"] for row in rows]

    def sync(self) -> None:
        """Wait until the logs are on disk. Raises InputError if the disk is full."""
        for path, stream in self._streams.items():
            with _writing(path):
                os.fsync(stream.fileno())

    def rewind(self, step: int, drop: Callable[[Mapping[str, Any]], bool] = lambda row: False) -> None:
        """Remove the rows after `step` from both logs, those of averaged weights, and those to `drop`.

        A resumed run writes them again. Raises InputError, and changes neither file, if their rows can't be read or
        written.
        """
        self.close()
        logs = {path: read_metrics(path, "step") for path in (self.metrics_path, self.timings_path) if path.exists()}
        for path, rows in logs.items():
            kept = [row for row in rows if row["step"] <= step and "averaged" not in row and not drop(row)]
            files.write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept))

    def picture(self, name: str) -> Path:
        """Return the path of a picture, such as "loss", "attention", "confusion" or "encoder_heads"."""
        return self.path / f"{name}.png"

    def cell_path(self, name: str) -> Path:
        """Return the run folder of a cell of this run's table."""
        return self.path / CELLS / name

    def write_samples(self, text: str) -> None:
        """Write `samples.txt`, atomically."""
        files.write_text(self.path / "samples.txt", text.rstrip("\n") + "\n")

    def write_table(self, text: str, **tables: Iterable[Mapping[str, Any]]) -> None:
        """Write `table.md`, and `results.json` with the rows of its tables (see `write_results`), both atomically."""
        files.write_text(self.path / "table.md", text.rstrip("\n") + "\n")
        plain = {
            name: [{key: jsonable(value) for key, value in row.items()} for row in rows]
            for name, rows in tables.items()
        }
        write_results(self.path / "results.json", self.config, plain)

    def close(self) -> None:
        """Close the open files. A later `log` opens them again."""
        while self._streams:
            self._streams.popitem()[1].close()

    @property
    def stays(self) -> bool:
        """Whether the run is kept after an error. A new run is kept if it has logged or saved a step."""
        return not self._created or self.metrics_path.exists() or any(SavedStates(self.saves_path).steps())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the files and release the lock. A new run that failed is removed unless it `stays`."""
        self.close()
        self._end(failed=kind is not None and not issubclass(kind, TrainingStopped) and not self.stays)

    def _end(self, *, failed: bool) -> None:
        """Release the lock; if this new run `failed`, remove its files and folder, and restore the older run's name."""
        self._lock.close()
        if failed:
            shutil.rmtree(self.saves_path, ignore_errors=True)
            with contextlib.suppress(OSError):  # such as: the folder contains a file that is not of the run
                for name in (*_EARLY, CONFIG, "tokenizer.json", "samples.txt"):
                    (self.path / name).unlink(missing_ok=True)
                self.path.rmdir()
                if self.replaced:
                    self.replaced.rename(self.path)

    def _append(self, path: Path, row: Mapping[str, Any]) -> None:
        line = json.dumps({key: jsonable(value) for key, value in row.items()}, ensure_ascii=False, allow_nan=False)
        with _writing(path):
            if path not in self._streams:  # without a buffer: closing would try again to write a row to a full disk
                self._streams[path] = open(path, "ab", buffering=0)  # noqa: SIM115 - close() does
            self._streams[path].write(f"{line}\n".encode())


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} could not be written: {error.strerror}. {remedy(error)}") from error


def read_metrics(path: str | Path, needs: Literal["step", "cell", ""] = "") -> list[dict[str, Any]]:
    """Read the rows of a `metrics.jsonl` or another log. A last line that a crash cut short is left out; all others
    must have the key that is needed: "step", a whole number, or "cell", a name.
    """
    rows = []
    text = files.read_bytes(path, most=sys.maxsize).decode("utf-8", "replace")  # a log of any length is read
    whole_lines = text.split("\n")[:-1]  # text after the last line feed is incomplete
    for number, line in enumerate(whole_lines, start=1):
        row = files.parse_json(line, f"{path}, line {number}", "Remove or repair the line.")
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: {line[:40]!r} is not a JSON object. Remove or repair the line.")
        if needs and type(row.get(needs)) is not {"step": int, "cell": str}[needs]:
            raise InputError(f"{path}, line {number}: {needs} is missing or invalid. Remove or repair the line.")
        rows.append(row)
    return rows


def jsonable(value: Any) -> Any:
    """Convert a number to a JSON value: a Python number; None for NaN and infinities."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_run(folder: Path) -> bool:
    """Return whether the folder contains a config.json of handloom."""
    try:
        return files.read_json(folder / CONFIG).get("format") == FORMAT
    except InputError:
        return False


def _set_aside(run: Path) -> Path:
    """Rename the run's folder to the first of RUN.old-1, RUN.old-2, ... that is free, and return the new path."""
    if run.name in ("", ".."):
        raise InputError(f"{run} is a relative name. Name the run's folder itself, or choose another one.")
    with files.folder_lock(run):
        pass
    names = (run.with_name(f"{run.name}.old-{number}") for number in itertools.count(1))
    old = next(path for path in names if not os.path.lexists(path))
    try:
        return run.rename(old)
    except OSError as error:
        raise InputError(f"The old run {run} can't be renamed: {error.strerror}. Choose another folder.") from None
