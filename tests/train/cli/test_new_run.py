"""The folder of a new run if the command line gives none."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from handloom.train.cli import command_line
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.locks import FolderInUseError


def test_two_that_find_the_same_name_free(tmp_path, monkeypatch) -> None:
    """Another process makes the folder after this one has found the name free."""
    monkeypatch.chdir(tmp_path)
    names = iter([Path("runs/a"), Path("runs/a-2")])
    monkeypatch.setattr(command_line, "free_run_folder", lambda name: next(names))
    with RunFolder.create("runs/a", {}):
        own = command_line._new_run(argparse.Namespace(out=None, overwrite=False), "a", {})
        assert own.path == Path("runs/a-2")
        with pytest.raises(FolderInUseError):
            command_line._new_run(argparse.Namespace(out=Path("runs/a"), overwrite=False), "a", {})
