"""What a run's folder holds, and how a new run replaces an old one without losing it.

The files of the old run move to RUN/overwritten/N, which is then a run's folder itself, until the new run has a model;
they move back if it fails before. Only files that a run writes are touched, never one behind a symbolic link.

A process can be killed between any two moves. config.json is the last file to be moved away or removed and the first
to come back, so what is found later says what happened: a folder overwritten/N without it is on its way there or back;
if it has one, and the new run has saved and logged nothing, that run had not begun. Either way the old run is moved
back when the folder is next used (`recover`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import InputError
from ...files import is_link, read_json, sync_folder, temporary_name, write_text
from .checkpoints import MODEL_FILE, make_folder
from .locks import FolderInUseError, FolderLock
from .saves import SavedStates

FORMAT = "handloom-run"
CONFIG = "config.json"
SAVES, CELLS, OVERWRITTEN = "checkpoints", "cells", "overwritten"

#: The files that a run writes beside its saves and cells; config.json last, since it marks the folder.
FILES = (
    "metrics.jsonl",
    "timings.jsonl",
    "loss.png",
    "attention.png",
    "copied.png",
    "encoder_heads.png",
    "decoder_heads.png",
    "cross_heads.png",
    "head_shares.png",
    "accuracy.png",
    "confusion.png",
    "comparison.png",
    "processor_time.png",
    "cells.jsonl",
    "table.md",
    "results.json",
    "samples.txt",
    "tokenizer.json",
    MODEL_FILE,
    CONFIG,
)
_NOTE = "README.txt"
_NOTE_TEXT = """\
Each numbered folder here is a run that was in the folder above until --overwrite started another one there.
It is removed as soon as the new run has a model, and moved back if the new run fails before.
It is a run like others: --resume and --checkpoint take it. To keep it, move it somewhere else.
"""


def is_run(folder: Path) -> bool:
    """Whether a config.json of handloom's lies in the folder; not one behind a link."""
    try:
        return not is_link(folder / CONFIG) and read_json(folder / CONFIG).get("format") == FORMAT
    except InputError:
        return False


def written(run: Path) -> list[Path]:
    """What the run in this folder wrote, its cells included, each folder's config.json last; not what it replaces."""
    found = []
    for cell in _cells(run):
        old = set_aside_runs(cell)
        found += [path for aside in old for path in written(aside)] + [cell / OVERWRITTEN / _NOTE] * bool(old)
        found += written(cell)
    found += SavedStates(run / SAVES).files()
    names = (name for file in FILES for name in (temporary_name(file), file))
    return found + [path for path in map(run.joinpath, names) if path.is_symlink() or path.is_file()]


def check_names(run: Path) -> None:
    """Refuse a run that could only be replaced through a link, or in which a file and a folder have changed names.

    Raises:
        InputError: names it.
    """
    for path in (run, run / SAVES, run / CELLS, run / OVERWRITTEN):
        if is_link(path):
            raise InputError(
                f"{path} is a symbolic link to {os.path.realpath(path)}, and a run is never replaced through a link. "
                "Give the folder itself, or choose another one with --out."
            )
    for path in (run / SAVES, run / CELLS):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file, and a run makes a folder of that name. Move it somewhere else.")
    for path in map(run.joinpath, FILES):
        if path.is_dir():
            raise InputError(f"{path} is a folder, and a run writes a file of that name. Move it somewhere else.")


def set_aside(run: Path) -> Path:
    """Move what the run wrote to overwritten/N, and return that folder. The caller holds the lock of `run`.

    Raises:
        InputError: a process works on one of its cells, a file can't be moved, or something else has the name
            overwritten; the run is as it was.
    """
    _check_unused(_cells(run))
    parent = run / OVERWRITTEN
    if os.path.lexists(parent) and not _is_ours(parent) and not _is_empty(parent):
        raise InputError(f"{parent} is in the way: the old run would be kept there for a while. Rename it.")
    files = written(run)
    aside = parent / str(max([int(old.name) for old in _numbered(parent)], default=0) + 1)
    try:
        make_folder(parent)
        write_text(parent / _NOTE, _NOTE_TEXT)
        make_folder(aside)
        _move(files, run, aside)
    except BaseException:
        put_back(run, aside)
        raise
    return aside


def put_back(run: Path, aside: Path) -> None:
    """Move an old run from `aside`, a folder overwritten/N of `run`, back; what is there already is not touched."""
    files = [Path(folder, name) for folder, _, names in os.walk(aside) for name in names]
    if files:
        _move(sorted(files, key=lambda path: path != aside / CONFIG), aside, run)
    _remove_empty_tree(aside)
    _remove_parent(run)


def set_aside_runs(run: Path) -> list[Path]:
    """The folders overwritten/N, oldest first, whole or not."""
    return _numbered(run / OVERWRITTEN) if _is_ours(run / OVERWRITTEN) else []


def remove_set_aside(run: Path) -> None:
    """Remove the old runs: the new one has a model. The caller holds the lock.

    One that a process works on stays, and one in which the user has put files stays a run, if an empty one. Raises
    OSError.
    """
    for aside in set_aside_runs(run):
        if is_run(aside):
            with contextlib.suppress(FolderInUseError):
                _check_unused([aside, *_cells(aside)])
                *files, config = written(aside)
                _remove(files, aside)
                _remove_empty_tree(aside)
                if list(aside.iterdir()) == [config]:
                    config.unlink()
                    aside.rmdir()
    _remove_parent(run)


def was_interrupted(run: Path) -> bool:
    """Whether there is something to `recover`, unless the process that moves the old run is still alive."""
    old = set_aside_runs(run)
    return any(not is_run(aside) for aside in old) or (bool(old) and not _has_begun(run))


def recover(run: Path) -> None:
    """Move back what a killed process left half way, or before the new run had begun. The caller holds the lock.

    Raises OSError; InputError if a file can't be moved.
    """
    for aside in set_aside_runs(run):
        if not is_run(aside):
            put_back(run, aside)
    whole = set_aside_runs(run)
    if whole and not _has_begun(run):
        clear(run)
        put_back(run, whole[-1])


def clear(run: Path) -> None:
    """Remove what the run wrote, and nothing else: no file of the user's, nothing behind a link, not what it replaces.

    Raises OSError.
    """
    _remove(written(run), run)


def _has_begun(run: Path) -> bool:
    """Whether the run in this folder has left anything but its options and its tokenizer."""
    early = {CONFIG, "tokenizer.json", *map(temporary_name, FILES)}
    return any(path.name not in early for path in written(run))


def _cells(run: Path) -> list[Path]:
    parent = run / CELLS
    if is_link(parent) or not parent.is_dir():
        return []
    return [cell for cell in sorted(parent.iterdir()) if not is_link(cell) and is_run(cell)]


def _numbered(parent: Path) -> list[Path]:
    if is_link(parent) or not parent.is_dir():
        return []
    found = [path for path in parent.iterdir() if path.name.isdecimal() and not is_link(path) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def _is_ours(parent: Path) -> bool:
    try:
        return not is_link(parent) and (parent / _NOTE).read_text(encoding="utf-8") == _NOTE_TEXT
    except (OSError, UnicodeDecodeError):
        return False


def _is_empty(parent: Path) -> bool:
    """Whether it is a folder without files, but for a note that a killed process did not finish."""
    return parent.is_dir() and all(path.name == temporary_name(_NOTE) for path in parent.iterdir())


def _check_unused(folders: Iterable[Path]) -> None:
    """Raise FolderInUseError if a process has one of them locked."""
    for folder in folders:
        FolderLock(folder).release()


def _move(files: Sequence[Path], source: Path, target: Path) -> None:
    """Move files to the same relative paths below `target`, in this order, and remove the folders that this empties."""
    try:
        for path in files:
            new = target / path.relative_to(source)
            if not os.path.lexists(new):
                new.parent.mkdir(parents=True, exist_ok=True)
                path.rename(new)
        _remove_empty(files, source)
        sync_folder(target)
        sync_folder(source)
    except OSError as error:
        raise InputError(
            f"The files of the run {source} can't be moved to {target}: {error.strerror or error}. Choose another "
            "folder, or see to its permissions."
        ) from None


def _remove(files: Sequence[Path], run: Path) -> None:
    for path in files:
        path.unlink(missing_ok=True)
    _remove_empty(files, run)


def _remove_empty(files: Iterable[Path], run: Path) -> None:
    """Remove the folders below `run` that held these files and are empty now."""
    folders = {parent for path in files for parent in path.parents if run in parent.parents}
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_empty_tree(aside: Path) -> None:
    """Remove the empty folders of an old run, which a killed process may have left without its files, and its own."""
    for folder, _, _ in os.walk(aside, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _remove_parent(run: Path) -> None:
    """Remove the folder overwritten if it holds no run any more, and nothing of the user's."""
    parent = run / OVERWRITTEN
    if _is_ours(parent) and [path.name for path in parent.iterdir()] == [_NOTE]:
        (parent / _NOTE).unlink()
        parent.rmdir()
