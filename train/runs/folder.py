"""The folder of a training run: runs/NAME/{config.json, metrics.jsonl, loss.png, model.safetensors, ...}."""

import contextlib
import itertools
import json
import math
import os
import re
import shlex
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TextIO

from ... import files
from ...errors import InputError, remedy
from .checkpoints import MODEL_FILE
from .progress import TrainingStopped
from .results import write_results
from .saves import SavedStates

FORMAT, VERSION = "handloom-run", 1
CONFIG, SAVES, CELLS = "config.json", "checkpoints", "cells"
#: The files that a run writes, except its saves and cells.
FILES = (
    CONFIG, MODEL_FILE, "tokenizer.json", "metrics.jsonl", "timings.jsonl", "cells.jsonl", "table.md", "results.json",
    "samples.txt", "loss.png", "attention.png", "copied.png", "encoder_heads.png", "decoder_heads.png",
    "cross_heads.png", "head_shares.png", "accuracy.png", "confusion.png", "comparison.png", "processor_time.png",
)  # fmt: skip
# The files that remain if a process is killed at its very start.
_EARLY = {files.LOCK_FILE, *map(files.temporary_name, FILES)}
_TIMINGS_STEP = re.compile(rb'^\{"step": (\d+)', re.MULTILINE)


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
        self._created = self._made_folder = False  # by this object, which may then undo them
        self._lock = contextlib.ExitStack()
        self._streams: dict[Path, TextIO] = {}

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> Self:
        """Make the folder and write `config.json`.

        Args:
            path: a folder that doesn't exist or is empty.
            config: options of the run, as JSON values.
            overwrite: rename the folder of an older run to RUN.old-1, or the next number that is free. It gets its name
                back if an error ends the `with` block of this run before anything was logged or saved.

        Raises InputError if the folder has files in it and `overwrite` is false; or it is a folder of something else,
        which is never renamed; or it is a symbolic link; or another process writes there; or it can't be written to.
        """
        path = Path(path)
        mark = {"format": FORMAT, "version": VERSION}
        run = cls(path, mark | dict(config) | mark)  # first in the file, and not to be overridden
        if overwrite and _is_run(path):
            run.replaced = _set_aside(path)
        run._made_folder = not path.is_dir()
        files.make_folder(path)
        try:
            if not _is_run(path) and _is_filled(path):  # such a folder is not even locked
                raise InputError(
                    f"The folder {path} is not empty and is not the folder of a handloom run, so nothing is written "
                    "there. Choose a folder that doesn't exist yet."
                )
            run._lock.enter_context(files.folder_lock(path))
            if _is_filled(path):
                raise InputError(
                    f"The run {path} exists already; nothing was overwritten. Continue it with --resume, choose "
                    "another folder with --out, or use --overwrite to rename the old run."
                )
            run._created = True
            run.write_config()
        except BaseException:
            run._end(failed=True)
            raise
        return run

    @classmethod
    def resume(cls, path: str | Path) -> Self:
        """Open the folder of an earlier run to write into it.

        Raises InputError as `open` does, or if another process writes there, the folder is read-only, or a file of the
        run is a symbolic link.
        """
        run = cls.open(path)  # a folder that is not a run is not locked
        for file in (Path(path, name) for name in FILES):
            if files.is_link(file):
                raise InputError(f"{file} is a symbolic link, which runs do not follow. Replace it with a file.")
        run._lock.enter_context(files.folder_lock(path))
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the folder of an earlier run to read it.

        Raises InputError if it doesn't exist, or its `config.json` is missing, damaged, or from another program.
        """
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"The run {path} is not an existing folder. Give the folder of a run, such as runs/NAME.")
        if not (path / CONFIG).is_file():
            raise InputError(f"{path} is not a run: it holds no config.json. Give the folder of a run, like runs/NAME.")
        config = files.read_json(path / CONFIG)
        if config.get("format") != FORMAT:
            raise InputError(f"{path} is not a handloom run: its config.json comes from another program. Give a run.")
        if config.get("version") != VERSION:
            raise InputError(
                f"The run {path} has format {config.get('version')}; this handloom reads format {VERSION}. Use the "
                "version of handloom that wrote it, or train again."
            )
        if not isinstance(config.get("options", {}), dict):
            raise InputError(f"The options in {path / CONFIG} are not a JSON object. Restore a copy.")
        return cls(path, config)

    def write_config(self) -> None:
        """Write `config` to config.json, atomically."""
        files.write_json(self.path / CONFIG, self.config)

    @property
    def continuation(self) -> str:
        """The sentence of a message that says how to continue the run; the path is quoted for a shell."""
        return f"Continue with --resume {shlex.quote(self.path.as_posix())}"

    def log(self, row: Mapping[str, Any], times: Mapping[str, Any] | None = None) -> None:
        """Append one row to `metrics.jsonl`, and `times` (with the same step) to `timings.jsonl`; both are flushed.

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

    def sizes(self) -> dict[str, int]:
        """Return the size of metrics.jsonl so far in bytes, by file name.
        Both logs are synced to disk. `rewind` restores these sizes.

        Raises InputError if the disk is full.
        """
        for path, stream in self._streams.items():
            try:
                os.fsync(stream.fileno())
            except OSError as error:
                raise InputError(f"{path} could not be written: {error.strerror}. {remedy(error)}") from error
        return {path.name: path.stat().st_size for path in (self.metrics_path,) if path.exists()}

    def rewind(self, sizes: Mapping[str, int], step: int) -> None:
        """Truncate metrics.jsonl to an earlier size, and timings.jsonl to its rows up to `step`.

        A resumed run writes the later rows again. Timings are cut by the step, because their size differs from run to
        run, and saves must be equal.

        Issues a warning if a log is shorter than it was. Raises InputError if a file can't be written to, or its rows
        can't be read. Neither file is changed then.
        """
        self.close()
        self.metrics(), self.processor_seconds()
        size = sizes.get(self.metrics_path.name, 0)
        whole, timings = _whole_rows(self.metrics_path), _whole_rows(self.timings_path)
        if size > len(whole):
            warnings.warn(f"{self.metrics_path} is shorter than when the run was saved: rows are missing", stacklevel=2)
        _cut(self.metrics_path, min(size, len(whole)))
        later = (row.start() for row in _TIMINGS_STEP.finditer(timings) if int(row[1]) > step)
        _cut(self.timings_path, next(later, len(timings)))

    def picture(self, name: str) -> Path:
        """Return the path of a picture, such as "loss", "attention", "confusion" or "encoder_heads"."""
        if f"{name}.png" not in FILES:
            raise ValueError(f"a run has no picture {name!r}")
        return self.path / f"{name}.png"

    def cell_path(self, name: str) -> Path:
        """Return the run folder of a cell of this run's table. Raises InputError if `cells` is a symbolic link."""
        if files.is_link(self.path / CELLS):
            raise InputError(f"{self.path / CELLS} is a symbolic link, which tables do not follow: remove it.")
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
        """Whether the run is kept after an error. A new run is kept if it has logged or saved a step, or has cells."""
        if not self._created or self.model_path.exists() or self.metrics_path.exists():
            return True
        return any((self.path / CELLS).glob("*")) or any(SavedStates(self.saves_path).steps())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the files and release the lock. A new run that failed is removed unless it `stays`."""
        self.close()
        self._end(failed=kind is not None and not issubclass(kind, TrainingStopped) and not self.stays)

    def _end(self, *, failed: bool) -> None:
        """Release the lock; if this run `failed`, delete its files and restore the older run's name."""
        try:
            if failed and self._created:
                for name in (*FILES, *_EARLY):
                    (self.path / name).unlink(missing_ok=True)
                SavedStates(self.saves_path).clear()
        except OSError as error:
            old = f" The old run is in {self.replaced}." if self.replaced else ""
            warnings.warn(f"The files of the failed run {self.path} could not be removed: {error}.{old}", stacklevel=3)
        self._lock.close()
        if failed and self._made_folder:
            with contextlib.suppress(OSError):  # the folder contains something else
                self.path.rmdir()
                if self.replaced:
                    self.replaced.rename(self.path)

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
    """Read the rows of a `metrics.jsonl` or another log. A last line that a crash cut short is left out.

    Args:
        needs: the key that every row must have: "step", a whole number, or "cell", a name.

    Raises InputError if the file is missing or unreadable, or another line is not a JSON object with the key.
    """
    rows = []
    text = files.read_bytes(path).decode("utf-8", "replace")
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


def _whole_rows(path: Path) -> bytes:
    """Return the content of a log without an incomplete last row, which a crash or a copy during a run leaves."""
    data = files.read_bytes(path) if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def _cut(path: Path, size: int) -> None:
    try:
        if path.exists() and path.stat().st_size > size:
            os.truncate(path, size)
    except OSError as error:
        raise InputError(f"{path} could not be cut back: {error.strerror or error}.") from None


def _is_run(folder: Path) -> bool:
    """Return whether the folder contains a config.json of handloom that is not a link."""
    try:
        return not files.is_link(folder / CONFIG) and files.read_json(folder / CONFIG).get("format") == FORMAT
    except InputError:
        return False


def _is_filled(folder: Path) -> bool:
    return any(entry.name not in _EARLY for entry in folder.iterdir())


def _set_aside(run: Path) -> Path:
    """Rename the run's folder to the first of RUN.old-1, RUN.old-2, ... that is free, and return the new path.

    Raises InputError if it can't be renamed, or another process writes into the run or one of its cells.
    """
    if files.is_link(run) or run.name in ("", ".."):
        raise InputError(f"{run} is a link or a relative name. Name the run's folder itself, or choose another --out.")
    names = (run.with_name(f"{run.name}.old-{number}") for number in itertools.count(1))
    old = next(path for path in names if not os.path.lexists(path))
    with contextlib.ExitStack() as locks:
        for folder in (run, *(lock.parent for lock in run.glob(f"{CELLS}/*/{files.LOCK_FILE}"))):
            locks.enter_context(files.folder_lock(folder))
        if os.name == "nt":  # where a folder with an open file can't be renamed
            locks.close()
        try:
            run.rename(old)
        except OSError as error:
            raise InputError(f"The old run {run} can't be renamed: {error.strerror}. Choose another --out.") from None
    (old / files.LOCK_FILE).unlink(missing_ok=True)
    return old
