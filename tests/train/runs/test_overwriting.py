"""A run that replaces another: nothing is lost before the new one has a model, and no link is followed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.train.runs import overwriting
from handloom.train.runs.checkpoints import save_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.locks import LOCK_FILE, FolderLock
from handloom.train.runs.overwriting import FILES, clear, written
from handloom.train.runs.saves import SavedStates
from handloom.train.runs.stopping import TrainingStopped

STOP = TrainingStopped("stopped", 3)
ROOT = Path(__file__).resolve().parents[3]
USER_FILES = (
    "notes.txt", "checkpoints/mine.safetensors", "checkpoints/.mine.tmp", "cells/one/notes.txt", "my/table.md"
)  # fmt: skip


def fill(folder: Path, number: int, files: Sequence[str]) -> None:
    """Write what a finished run writes, all of it saying `number`."""
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
    """Start run 2 in the folder; let it fail before it has a model, or end."""
    with RunFolder.create(folder, {"number": 2}, overwrite=True) as run:
        run.log({"step": 0})
        SavedStates(run.saves_path).save(0, {"w": np.zeros(3)}, {})
        if fails:
            raise fails
        save_checkpoint(folder, {"w": np.full(3, 2)}, {})
        run.settle()


@pytest.fixture
def old(tmp_path) -> Path:
    make_run(tmp_path / "run", 1)
    return tmp_path / "run"


def test_the_old_run_waits_until_the_new_one_has_a_model(old) -> None:
    before = tree(old)
    with RunFolder.create(old, {"number": 2}, overwrite=True) as run:
        assert run.replaces == old / "overwritten/1"
        assert tree(run.replaces) == of_the_run(before)
        kept = {"config.json", "overwritten/README.txt", LOCK_FILE, *USER_FILES}
        assert {name for name in tree(old) if "overwritten/1" not in name} == kept
        assert RunFolder.open(run.replaces).config["number"] == 1, "it is a run's folder"
        run.settle()
        assert run.replaces.exists(), "there is no model yet"
        save_checkpoint(old, {"w": np.zeros(1)}, {})
        run.settle()
        assert not (old / "overwritten").exists()
    assert set(tree(old)) == {"config.json", "model.safetensors", *USER_FILES}


@pytest.mark.parametrize("error", [InputError, FloatingPointError, KeyboardInterrupt])
def test_a_new_run_that_fails_leaves_everything_as_it_was(old, error) -> None:
    before = tree(old)
    with pytest.raises(error):
        replace(old, fails=error)
    assert tree(old) == before


def test_a_new_run_that_cannot_even_begin_leaves_everything_as_it_was(old) -> None:
    before = tree(old)
    with pytest.raises(TypeError):
        RunFolder.create(old, {"not JSON": object()}, overwrite=True)
    assert tree(old) == before


def test_a_new_run_that_was_stopped_keeps_both(old) -> None:
    before = tree(old)
    with pytest.raises(TrainingStopped):
        replace(old, fails=STOP)
    assert tree(old / "overwritten/1") == of_the_run(before)
    assert SavedStates(old / "checkpoints").steps() == [0]
    with RunFolder.resume(old) as run:
        save_checkpoint(old, {"w": np.zeros(1)}, {})
        run.settle()
    assert not (old / "overwritten").exists()


def test_one_after_the_other_without_a_model(old) -> None:
    """The run that was stopped is an old run as well."""
    before = tree(old)
    with pytest.raises(TrainingStopped):
        replace(old, fails=STOP)
    stopped = tree(old)
    with pytest.raises(InputError):
        replace(old, fails=InputError)
    assert tree(old) == stopped
    assert tree(old / "overwritten/1") == of_the_run(before)
    replace(old)
    assert RunFolder.open(old).config["number"] == 2
    assert not (old / "overwritten").exists()


def test_a_new_run_that_was_killed_before_it_had_begun(old) -> None:
    """Its options and its tokenizer are nothing that anyone could go on from."""
    before = tree(old)
    run = RunFolder.create(old, {"number": 2}, overwrite=True)
    run.tokenizer_path.write_text("{}")
    assert RunFolder.open(old).config["number"] == 2, "the process is alive"
    assert run._lock is not None
    run._lock.release()
    assert RunFolder.open(old).config["number"] == 1
    assert tree(old) == before


def test_a_run_that_ends_without_a_model_has_replaced_the_old_one_too(old) -> None:
    with RunFolder.create(old, {"number": 2}, overwrite=True) as run:
        run.write_table("a baseline")
    assert set(tree(old)) == {"config.json", "table.md", *USER_FILES}


def test_a_replaced_run_that_somebody_uses_stays(old) -> None:
    with RunFolder.create(old, {"number": 2}, overwrite=True) as run, FolderLock(old / "overwritten/1/cells/one"):
        save_checkpoint(old, {"w": np.zeros(1)}, {})
        run.settle()
        assert RunFolder.open(old / "overwritten/1").config["number"] == 1
    assert not (old / "overwritten").exists()


def test_a_run_with_a_cell_in_use_is_not_replaced(old) -> None:
    before = tree(old)
    with FolderLock(old / "cells/two"), pytest.raises(InputError, match=r"cells/two is in use by process"):
        replace(old)
    assert tree(old) == before


def test_files_of_the_user_among_those_set_aside_stay(old) -> None:
    with RunFolder.create(old, {"number": 2}, overwrite=True) as run:
        (old / "overwritten/1/notes.txt").write_text("mine")
        (old / "overwritten/mine.txt").write_text("mine")
        save_checkpoint(old, {"w": np.zeros(1)}, {})
        run.settle()
    assert (old / "overwritten/1/notes.txt").read_text() == "mine"
    assert (old / "overwritten/mine.txt").read_text() == "mine"
    replace(old)
    assert (old / "overwritten/1/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["overwritten", "overwritten/README.txt", "overwritten/1/config.json"])
def test_something_else_of_that_name_is_not_touched(old, content) -> None:
    (old / content).parent.mkdir(parents=True, exist_ok=True)
    (old / content).write_text('{"format": "handloom-run"}')
    before = tree(old)
    with pytest.raises(InputError, match="overwritten is in the way"):
        replace(old)
    assert tree(old) == before


def test_a_disk_that_is_full_at_the_start(old, monkeypatch) -> None:
    before = tree(old)

    def no_room(folder: Path) -> None:
        if folder.name == "1":
            raise InputError("full")

    monkeypatch.setattr(overwriting, "make_folder", lambda folder: no_room(folder) or folder.mkdir(exist_ok=True))
    with pytest.raises(InputError, match="full"):
        replace(old)
    assert tree(old) == before


def test_a_disk_that_fails_while_files_move(old, monkeypatch) -> None:
    before, calls = tree(old), []

    def rename(self: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 9:
            raise OSError(5, os.strerror(5))
        os.rename(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(InputError, match=r"can't be moved to .*overwritten/1: Input/output error"):
        replace(old)
    assert tree(old) == before


class TestLinks:
    @pytest.fixture
    def victims(self, tmp_path) -> Path:
        make_run(tmp_path / "victims/one", 7)
        SavedStates(tmp_path / "victims").save(7, {"w": np.zeros(1)}, {})
        return tmp_path / "victims"

    @pytest.mark.parametrize("name", ["cells", "checkpoints", "overwritten"])
    def test_a_linked_folder_in_the_run(self, old, victims, name) -> None:
        shutil.rmtree(old / name, ignore_errors=True)
        (old / name).symlink_to(victims)
        before = tree(victims), tree(old)
        with pytest.raises(InputError, match=rf"{name} is a symbolic link to {victims}"):
            replace(old)
        clear(old)
        assert tree(victims) == before[0]
        assert "model.safetensors" not in tree(old)

    def test_the_run_itself(self, old) -> None:
        before, link = tree(old), old.with_name("link")
        link.symlink_to("run")
        with pytest.raises(InputError, match=r"link is a symbolic link to .*run, and a run is never replaced through"):
            replace(link)
        assert tree(old) == before
        RunFolder.resume(link)

    def test_a_linked_cell_is_left_alone(self, old, victims) -> None:
        before = tree(victims)
        (old / "cells/linked").symlink_to(victims / "one")
        replace(old)
        assert tree(victims) == before
        assert (old / "cells/linked").is_symlink()

    def test_a_linked_file_loses_the_link_alone(self, old, tmp_path) -> None:
        (tmp_path / "precious").write_text("keep me")
        for name in ("samples.txt", "model.safetensors", "checkpoints/state-00000009.safetensors"):
            (old / name).unlink(missing_ok=True)
            (old / name).symlink_to(tmp_path / "precious")
        with pytest.raises(InputError):
            replace(old, fails=InputError)
        assert (old / "samples.txt").readlink() == tmp_path / "precious"
        replace(old)
        assert (tmp_path / "precious").read_text() == "keep me"
        assert not os.path.lexists(old / "samples.txt")

    def test_a_dangling_link(self, old) -> None:
        (old / "samples.txt").unlink()
        (old / "samples.txt").symlink_to("nowhere")
        replace(old)
        assert not os.path.lexists(old / "samples.txt")

    def test_saves_are_not_written_through_a_link(self, old, victims) -> None:
        before = tree(victims)
        shutil.rmtree(old / "checkpoints")
        (old / "checkpoints").symlink_to(victims)
        with pytest.raises(InputError, match="checkpoints is a symbolic link"):
            SavedStates(old / "checkpoints").save(9, {"w": np.zeros(1)}, {})
        SavedStates(old / "checkpoints").clear()
        assert tree(victims) == before

    def test_cells_are_not_made_through_a_link(self, old, victims) -> None:
        shutil.rmtree(old / "cells")
        (old / "cells").symlink_to(victims)
        with pytest.raises(InputError, match="cells is a symbolic link"):
            RunFolder.open(old).cell_path("one")

    def test_a_log_is_not_cut_through_a_link(self, old, tmp_path) -> None:
        (tmp_path / "precious").write_text("keep me")
        (old / "metrics.jsonl").unlink()
        (old / "metrics.jsonl").symlink_to(tmp_path / "precious")
        with RunFolder.resume(old) as run, pytest.raises(InputError, match=r"metrics.jsonl is a symbolic link"):
            run.rewind({}, step=0)
        assert (tmp_path / "precious").read_text() == "keep me"


def test_a_folder_with_the_name_of_a_file_and_the_other_way_round(old) -> None:
    shutil.rmtree(old / "cells")
    (old / "cells").touch()
    before = tree(old)
    with pytest.raises(InputError, match="cells is a file, and a run makes a folder of that name"):
        replace(old)
    (old / "table.md").unlink()
    (old / "table.md").mkdir()
    (old / "cells").unlink()
    with pytest.raises(InputError, match=r"table\.md is a folder, and a run writes a file of that name"):
        replace(old)
    assert tree(old) == {name: data for name, data in before.items() if name not in ("cells", "table.md")}


def test_only_cells_that_are_runs_are_touched(old) -> None:
    for name, config in {"bert": '{"model_type": "bert"}', "broken": "{"}.items():
        (old / "cells" / name).mkdir()
        (old / "cells" / name / "config.json").write_text(config)
        (old / "cells" / name / "model.safetensors").write_text("mine")
    before = {name: data for name, data in tree(old).items() if name.startswith(("cells/b", *USER_FILES))}
    replace(old)
    assert before.items() <= tree(old).items()


def test_what_a_run_writes_ends_with_its_mark(old) -> None:
    names = [str(path.relative_to(old)) for path in written(old)]
    assert set(names) == of_the_run(tree(old)).keys()
    assert names[-1] == "config.json"
    assert [name for name in names if "cells/one" in name][-1] == "cells/one/config.json"


# -- killed at every moment --------------------------------------------------------------------------------------------

NOTE = "overwritten/README.txt"
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


def killed_at(number: int, folder: Path, **options: object) -> bool:
    """Replace the run in a process that is killed before its nth change of the folder; False if there are fewer."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    count = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count
        if event in CHANGES and str(arguments[0]).startswith(str(folder)):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        replace(folder, **options)
    finally:
        os._exit(0)


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without what the next process removes: locks, unfinished files and the note about runs that are not there."""
    names = [name for name in files if not Path(name).name.startswith(".") or name in USER_FILES]
    return {name: files[name] for name in names if (name != NOTE or "overwritten/1" in str(names))}


def kill_at_every_moment(folder: Path, fails: bool) -> dict[str, int]:
    """Whatever the moment, the old run is whole, or the new one has its model; and one can go on from there."""
    os.fsync = lambda descriptor: None  # slow, and without use to a process that is killed
    make_run(folder / "original", 1, ["one"], ["table.md", "metrics.jsonl"])
    before, found, number = tree(folder / "original"), {"old": 0, "both": 0, "new": 0}, 1
    while True:
        run = shutil.copytree(folder / "original", folder / str(number))
        if not killed_at(number, run, fails=InputError if fails else None):
            return found
        replaced = RunFolder.open(run).config["number"] == 2
        left = tree(run)
        assert {name: left.get(name) for name in USER_FILES} == {name: before[name] for name in USER_FILES}, number
        if not replaced:
            found["old"] += 1
            assert of_the_run(before).items() <= left.items(), number
        elif (run / "overwritten/1/model.safetensors").exists() and not (run / "model.safetensors").exists():
            found["both"] += 1
            assert of_the_run(before).items() <= tree(run / "overwritten/1").items(), number
        else:
            found["new"] += 1
            assert not fails
            assert left.keys() >= {"model.safetensors", "config.json", "metrics.jsonl"}, number
        try:  # a further attempt that fails changes nothing either
            replace(run, fails=InputError)
        except InputError:
            assert lasting(tree(run)) == lasting(left), number
        replace(run)
        assert not [name for name in lasting(tree(run)) if "overwritten" in name], number
        assert RunFolder.open(run).config["number"] == 2
        shutil.rmtree(run)
        number += 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and SIGKILL")
@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_every_moment(tmp_path, fails) -> None:
    code = (
        "import json; from pathlib import Path; from tests.train.runs.test_overwriting import kill_at_every_moment\n"
        f"print(json.dumps(kill_at_every_moment(Path({str(tmp_path)!r}), {fails})))"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["old"] > 10, "while its files move"
    assert found["both"] > 10
    assert (found["new"] > 10) != fails


def test_the_old_run_is_not_searched_for_where_there_is_none(tmp_path) -> None:
    assert overwriting.set_aside_runs(tmp_path) == []
    assert not overwriting.was_interrupted(tmp_path)
    overwriting.remove_set_aside(tmp_path)
