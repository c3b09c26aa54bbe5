"""Only one process at a time writes into a folder, and a dead process holds no lock."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from handloom.errors import InputError
from handloom.files import LOCK_FILE, FolderInUseError, folder_lock
from handloom.train.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[3]
# The process takes the lock, forks a child that outlives it, and waits to be killed. The child waits for end of input.
HOLDER = """
import os, sys
from handloom.files import folder_lock
lock = folder_lock(sys.argv[1])
lock.__enter__()
if os.fork():
    os.wait()
print("locked", flush=True)  # says the child, once it runs
sys.stdin.read()
"""


def is_locked(folder: Path) -> bool:
    try:
        with folder_lock(folder):
            return False
    except FolderInUseError:
        return True


def test_the_second_is_refused_and_nothing_is_left(tmp_path) -> None:
    with folder_lock(tmp_path):
        with pytest.raises(FolderInUseError, match=f"{tmp_path} is in use by another process"), folder_lock(tmp_path):
            pass
        assert os.listdir(tmp_path) == [LOCK_FILE]
    assert os.listdir(tmp_path) == []
    assert not is_locked(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and SIGKILL")
def test_a_killed_process_holds_nothing_nor_do_its_children(tmp_path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert is_locked(tmp_path)
        process.kill()
        process.wait()
        assert not is_locked(tmp_path)  # the child is still waiting


@pytest.mark.skipif(os.name == "nt", reason="Windows has other locks")
def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    with pytest.warns(UserWarning, match=r"can't be locked here \(.*No locks available.*no other process"):
        assert not is_locked(tmp_path)


def test_a_link_is_not_written_through(tmp_path) -> None:
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / LOCK_FILE).symlink_to("precious")
    with pytest.raises(InputError, match="can't be locked for writing"):
        is_locked(tmp_path)
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_run_is_locked_until_its_block_ends(tmp_path) -> None:
    run = tmp_path / "run"
    for start in (lambda: RunFolder.create(run, {"a": 1}), lambda: RunFolder.resume(run)):
        with start() as own:
            own.log({"step": 1})
            before = sorted(os.listdir(run))
            for again in (lambda: RunFolder.create(run, {}, overwrite=True), lambda: RunFolder.resume(run)):
                with pytest.raises(FolderInUseError):
                    again()
            assert RunFolder.open(run).metrics()[0] == {"step": 1}, "reading is always possible"
            assert sorted(os.listdir(run)) == before
    assert sorted(os.listdir(run)) == ["config.json", "metrics.jsonl"]
    assert os.listdir(tmp_path) == ["run"]


def test_what_is_no_run_is_not_locked(tmp_path) -> None:
    with folder_lock(tmp_path), pytest.raises(InputError, match=r"holds no config\.json"):
        RunFolder.resume(tmp_path)
