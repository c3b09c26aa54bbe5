"""One process at a time writes into a folder; the lock of a process that died is released."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.train.runs import locks
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.locks import LOCK_FILE, FolderInUseError, FolderLock

ROOT = Path(__file__).resolve().parents[3]
# Takes the lock, forks a child that outlives it, and waits to be killed. The child waits for the end of its input.
HOLDER = """
import os, sys
from handloom.train.runs.locks import FolderLock
lock = FolderLock(sys.argv[1])
if os.fork():
    os.wait()
print("locked", flush=True)  # says the child, once it runs
sys.stdin.read()
"""


def holder_named(folder: Path) -> str:
    with pytest.raises(FolderInUseError) as caught:
        FolderLock(folder)
    return str(caught.value)


def test_the_second_process_is_refused_and_told_who_holds_the_lock(tmp_path) -> None:
    with FolderLock(tmp_path):
        assert f"{tmp_path} is in use by process {os.getpid()} on " in holder_named(tmp_path)
        assert os.listdir(tmp_path) == [LOCK_FILE]
    assert os.listdir(tmp_path) == []
    FolderLock(tmp_path).release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and SIGKILL")
def test_a_killed_process_holds_nothing_nor_do_its_children(tmp_path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert f"process {process.pid} on " in holder_named(tmp_path)
        process.kill()
        process.wait()
        FolderLock(tmp_path).release()  # while the child still waits
    assert os.listdir(tmp_path) == []


def test_a_lock_on_a_file_that_was_just_removed_is_none(tmp_path, monkeypatch) -> None:
    """The holder ends after this process opened its file: another one could lock a new file of that name."""
    first = FolderLock(tmp_path)
    take = locks._lock

    def after_the_holder_ended(descriptor: int, path: Path) -> None:
        first.release()
        take(descriptor, path)

    monkeypatch.setattr(locks, "_lock", after_the_holder_ended)
    with FolderLock(tmp_path):
        monkeypatch.undo()
        holder_named(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other locks")
def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", unknown)
    with pytest.warns(UserWarning, match=r"can't be locked here \(.*No locks available.*no other process"):
        FolderLock(tmp_path).release()
    assert os.listdir(tmp_path) == []


def test_a_link_is_not_written_through(tmp_path) -> None:
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / LOCK_FILE).symlink_to("precious")
    with pytest.raises(InputError, match="can't be locked for writing"):
        FolderLock(tmp_path)
    assert (tmp_path / "precious").read_text() == "keep me"


class TestRunFolders:
    def test_a_new_run_is_locked_until_its_block_ends(self, tmp_path) -> None:
        with RunFolder.create(tmp_path / "run", {}) as run:
            run.log({"step": 1})
            for start in (
                lambda: RunFolder.create(tmp_path / "run", {}),
                lambda: RunFolder.create(tmp_path / "run", {}, overwrite=True),
                lambda: RunFolder.resume(tmp_path / "run"),
            ):
                with pytest.raises(FolderInUseError, match=f"in use by process {os.getpid()}"):
                    start()
            assert RunFolder.open(tmp_path / "run").metrics() == [{"step": 1}], "reading is always possible"
        assert sorted(os.listdir(tmp_path / "run")) == ["config.json", "metrics.jsonl"]

    def test_so_is_one_that_goes_on(self, tmp_path) -> None:
        RunFolder.create(tmp_path / "run", {})
        with RunFolder.resume(tmp_path / "run"), pytest.raises(FolderInUseError):
            RunFolder.resume(tmp_path / "run")
        RunFolder.create(tmp_path / "run", {}, overwrite=True)

    def test_a_run_that_is_refused_changes_nothing_of_the_other(self, tmp_path) -> None:
        with RunFolder.create(tmp_path / "run", {"a": 1}):
            before = sorted(os.listdir(tmp_path / "run"))
            with pytest.raises(FolderInUseError):
                RunFolder.create(tmp_path / "run", {"b": 1}, overwrite=True)
            assert sorted(os.listdir(tmp_path / "run")) == before

    def test_what_is_no_run_is_not_locked(self, tmp_path) -> None:
        with FolderLock(tmp_path), pytest.raises(InputError, match=r"holds no config\.json"):
            RunFolder.resume(tmp_path)
