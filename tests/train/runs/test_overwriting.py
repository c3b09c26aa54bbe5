"""A run that replaces another: nothing is lost before the new one has a model, and no link is followed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.train.runs import overwriting
from handloom.train.runs.checkpoints import save_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.locks import LOCK_FILE, FolderLock
from handloom.train.runs.overwriting import clear, written
from handloom.train.runs.saves import SavedStates
from handloom.train.runs.stopping import TrainingStopped
from tests.support.old_runs import USER_FILES, make_run, of_the_run, replace, tree

STOP = TrainingStopped("stopped", 3)


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
    """The run that was stopped counts as an old run too."""
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
    """From its options and its tokenizer alone it can't be resumed."""
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
    assert set(tree(old)) == {"config.json", "table.md", "results.json", *USER_FILES}


def test_a_replaced_run_in_use_stays(old) -> None:
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


def test_the_old_run_is_not_searched_for_where_there_is_none(tmp_path) -> None:
    assert overwriting.set_aside_runs(tmp_path) == []
    assert not overwriting.was_interrupted(tmp_path)
    overwriting.remove_set_aside(tmp_path)
