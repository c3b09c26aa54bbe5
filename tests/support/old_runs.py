"""Finished runs in whose folders the user has left files, and new runs that overwrite them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from handloom.train.runs.checkpoints import save_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.overwriting import FILES
from handloom.train.runs.saves import SavedStates

USER_FILES = (
    "notes.txt", "checkpoints/mine.safetensors", "checkpoints/.mine.tmp", "cells/one/notes.txt", "my/table.md"
)  # fmt: skip


def fill(folder: Path, number: int, files: Sequence[str]) -> None:
    """Write the files of a finished run, each with `number` in it."""
    SavedStates(folder / "checkpoints").save(number, {"w": np.full(3, number)}, {"a": number})
    for name in set(files) - {"config.json", "model.safetensors"}:
        (folder / name).write_text(f"{name} {number}")
    save_checkpoint(folder, {"w": np.full(3, number)}, {})


def make_run(folder: Path, number: int, cells: Sequence[str] = ("one", "two"), files: Sequence[str] = FILES) -> None:
    """A finished run with cells, in which the user has left files."""
    with RunFolder.create(folder, {"number": number}) as run:
        for name in cells:
            with RunFolder.create(run.cell_path(name), {"number": number}) as cell:
                fill(cell.path, number, files)
        fill(folder, number, files)
    for name in USER_FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"the user's {name}")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def of_the_run(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in USER_FILES}


def replace(folder: Path, *, fails: BaseException | type[BaseException] | None = None) -> None:
    """Start run 2 in the folder; it raises `fails` before it has a model, or ends."""
    with RunFolder.create(folder, {"number": 2}, overwrite=True) as run:
        run.log({"step": 0})
        SavedStates(run.saves_path).save(0, {"w": np.zeros(3)}, {})
        if fails:
            raise fails
        save_checkpoint(folder, {"w": np.full(3, 2)}, {})
        run.settle()
