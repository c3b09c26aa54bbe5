"""The folder of a run: the files in the folder, and other files, which a run never touches."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from handloom import files
from handloom.arguments import in_options
from handloom.errors import InputError
from handloom.files import LOCK_FILE, FolderInUseError, folder_lock, temporary_name
from handloom.train.runs.checkpoints import save_checkpoint
from handloom.train.runs.folder import RunFolder, read_metrics

CONFIG = {"preset": "smoke", "seed": 1}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_create_and_open(tmp_path):
    run = RunFolder.create(tmp_path / "runs" / "a", CONFIG | {"format": "mine", "version": 7})
    assert json.loads((run.path / "config.json").read_text()) == run.config
    assert run.config == {"format": "handloom-run", "version": 1, **CONFIG}
    assert RunFolder.open(run.path).config == run.config
    assert RunFolder.open(run.path).metrics() == []


def test_the_command_that_continues_a_run_can_be_pasted(tmp_path):
    run = RunFolder.create(tmp_path / "my run's", {})
    words = shlex.split(in_options(run.continuation))
    assert words == ["Continue", "with", "--resume", str(run.path)]


def test_rows_are_on_disk_at_once_and_times_apart(tmp_path):
    with RunFolder.create(tmp_path / "a", CONFIG) as run:
        run.log({"step": 1, "loss": np.float32(0.1), "n": np.int64(3)}, {"seconds": 1.5})
        run.log({"step": 2, "loss": float("nan"), "valid_loss": float("inf")})
        rows = [{"step": 1, "loss": float(np.float32(0.1)), "n": 3}, {"step": 2, "loss": None, "valid_loss": None}]
        assert read_metrics(run.metrics_path) == rows  # before the file is closed
        assert read_metrics(run.timings_path) == [{"step": 1, "seconds": 1.5}]
        assert b"seconds" not in run.metrics_path.read_bytes()
        run.close()
        run.log({"step": 3})
    assert len(run.metrics()) == 3


def test_going_back_cuts_both_logs(tmp_path):
    with RunFolder.create(tmp_path / "a", CONFIG) as run:
        run.log({"step": 5}, {"seconds": 1.5})
        run.log({"step": 6, "valid_loss": 1e-05, "what": "Größe"})
        run.log({"step": 6, "valid_loss": 2, "averaged": 3})
        run.log({"step": 10}, {"seconds": 2.5})
        run.close()
        with open(run.timings_path, "a") as stream:
            stream.write('{"st')  # a crash cut this line short
        run.rewind(6)
        text = '{"step": 5}\n{"step": 6, "valid_loss": 1e-05, "what": "Größe"}\n'
        assert run.metrics_path.read_bytes() == text.encode()
        assert run.timings_path.read_text() == '{"step": 5, "seconds": 1.5}\n'
        run.timings_path.write_text('{"step": 1}\nrubbish\n')
        with pytest.raises(InputError, match=r"timings\.jsonl, line 2"):
            run.rewind(0)
        assert [row["step"] for row in run.metrics()] == [5, 6], "if one log is damaged, neither log is cut"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full of Linux")
def test_full_disk_while_logging(tmp_path):
    run = RunFolder.create(tmp_path / "a", CONFIG)
    run.metrics_path.symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"metrics\.jsonl could not be written: No space left on device"):
        run.log({"step": 1})
    run.close()


class TestExistingFolder:
    def test_a_run_is_not_overwritten(self, tmp_path):
        with RunFolder.create(tmp_path / "a", CONFIG) as run:
            run.log({"step": 1})
        before = tree(tmp_path)
        with pytest.raises(InputError, match=r"exists already; nothing was over.*resume=True.*rename the old run"):
            RunFolder.create(tmp_path / "a", {"other": True})
        assert tree(tmp_path) == before

    @pytest.mark.parametrize("overwrite", [False, True])
    @pytest.mark.parametrize(
        "content",
        [
            {"thesis.tex": "years of work"},
            {"model.safetensors": "weights of somebody"},
            {"config.json": '{"model_type": "bert"}', "model.safetensors": "weights of somebody"},
            {"config.json": "not JSON", "metrics.jsonl": "{}"},
            {"config.json": "[]"},
            {".hidden": ""},
            {"sub/config.json": '{"format": "handloom-run", "version": 1}'},
        ],
    )
    def test_any_other_folder_is_never_touched(self, tmp_path, content, overwrite):
        for name, text in content.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        before = tree(tmp_path)
        with pytest.raises(InputError, match="is not empty and is not the folder of a handloom run"):
            RunFolder.create(tmp_path, CONFIG, overwrite=overwrite)
        assert tree(tmp_path) == before

    def test_a_run_killed_at_its_very_start_is_no_obstacle(self, tmp_path):
        (tmp_path / temporary_name("config.json")).write_text("{")
        (tmp_path / LOCK_FILE).touch()
        RunFolder.create(tmp_path, CONFIG)
        assert os.listdir(tmp_path) == ["config.json"]

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "a").write_text("keep me")
        for path in (tmp_path / "a", tmp_path / "a" / "b"):
            with pytest.raises(InputError, match="can't be made: a file has this name"):
                RunFolder.create(path, CONFIG, overwrite=True)
        assert (tmp_path / "a").read_text() == "keep me"


class TestOverwrite:
    @pytest.fixture
    def old(self, tmp_path) -> Path:
        """Return the folder of a finished run, with a cell and a file of the user."""
        with RunFolder.create(tmp_path / "a", CONFIG) as run:
            run.log({"step": 1}, {"seconds": 1})
            save_checkpoint(run.path, {"w": np.ones(2)}, {})
            with RunFolder.create(run.cell_path("one"), {}) as cell:
                cell.log({"step": 1})
        (run.path / "my notes.txt").write_text("keep me")
        return run.path

    def test_the_old_run_gets_another_name_and_stays_as_it_was(self, old) -> None:
        before = tree(old)
        for number in (1, 2):
            with RunFolder.create(old, {"number": number}, overwrite=True) as new:
                assert new.metrics() == []
            assert new.replaced == old.with_name(f"a.old-{number}")
            assert tree(old.with_name("a.old-1")) == before
        assert RunFolder.open(old.with_name("a.old-2")).config["number"] == 1
        assert RunFolder.open(old).config["number"] == 2

    @pytest.mark.parametrize("error", [InputError, KeyboardInterrupt])
    def test_a_new_run_that_fails_at_its_start_gives_the_name_back(self, old, error) -> None:
        before = tree(old)
        run = RunFolder.create(old, {}, overwrite=True)
        run.saves_path.mkdir()  # as if the disk was full at the first save
        stopped(run, "tokenizer.json", error)
        with pytest.raises(TypeError):
            RunFolder.create(old, {"not JSON": object()}, overwrite=True)
        assert tree(old) == before
        assert os.listdir(old.parent) == ["a"]

    def test_what_can_t_be_renamed(self, old, monkeypatch) -> None:
        before = tree(old)
        with folder_lock(old), pytest.raises(FolderInUseError):
            RunFolder.create(old, {}, overwrite=True)
        monkeypatch.chdir(old)
        with pytest.raises(InputError, match="is a relative name"):
            RunFolder.create(".", {}, overwrite=True)
        assert tree(old) == before


class TestOpen:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, r"holds no config\.json"),
            ('{"format": "handloom-run", "ver', "not valid JSON"),
            ('{"model_type": "bert"}', "is not a run of this version"),
            ('{"format": "handloom-run", "version": 2}', "is not a run of this version"),
            ('{"format": "handloom-run", "version": 1, "notes": NaN}', "NaN is not a finite number"),
        ],
    )
    def test_what_is_no_run(self, tmp_path, content, message):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(InputError, match=message):
            RunFolder.open(tmp_path)


class TestReadMetrics:
    def test_a_last_line_cut_short_is_left_out(self, tmp_path):
        (tmp_path / "m").write_text('{"step": 1}\n{"step": 2}\n{"st')
        assert read_metrics(tmp_path / "m") == [{"step": 1}, {"step": 2}]

    @pytest.mark.parametrize("line", ['{"st', "[1]", ""])
    def test_a_damaged_line_is_named(self, tmp_path, line):
        (tmp_path / "m").write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
        with pytest.raises(InputError, match=r"m, line 2[: ]"):
            read_metrics(tmp_path / "m")

    @pytest.mark.parametrize(
        "line",
        ["{}", '{"step": "1"}', '{"step": 1.5}', '{"step": true}', '{"step": null}', "[" * 100_000],
    )  # fmt: skip
    def test_a_row_without_what_every_row_has_is_named(self, tmp_path, line):
        (tmp_path / "m").write_text(f'{{"step": 1, "loss": null, "what": "x"}}\n{line}\n')
        with pytest.raises(InputError, match=r"m, line 2[: ].*Remove or repair the line"):
            read_metrics(tmp_path / "m", "step")
        with pytest.raises(InputError, match=r"m, line 1: cell is missing or invalid"):
            read_metrics(tmp_path / "m", "cell")


def stopped(run, name, error=KeyboardInterrupt):
    (run.path / name).write_text("{}")
    with pytest.raises(error), run:
        raise error


class TestARunThatFailed:
    def test_before_its_first_row_is_taken_away(self, tmp_path):
        (tmp_path / "empty").mkdir()
        for name in ("new", "empty"):
            stopped(RunFolder.create(tmp_path / name, CONFIG), "tokenizer.json")
        assert not list(tmp_path.iterdir())
        stopped(RunFolder.create(tmp_path / "run", CONFIG), "notes.txt")
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"], "it is not a file of the run"

    def test_after_it_stays(self, tmp_path):
        stopped(RunFolder.create(tmp_path / "run", CONFIG), "metrics.jsonl")
        assert {path.name for path in (tmp_path / "run").iterdir()} == {"config.json", "metrics.jsonl"}
        (tmp_path / "run/metrics.jsonl").unlink()
        stopped(RunFolder.open(tmp_path / "run"), "tokenizer.json")
        assert (tmp_path / "run/config.json").exists()


def test_a_log_may_be_longer_than_other_files(tmp_path, monkeypatch) -> None:
    run = RunFolder.create(tmp_path / "run", {})
    for step in range(9):
        run.log({"step": step})
    monkeypatch.setattr(files.read_bytes, "__defaults__", (9,))
    assert [row["step"] for row in run.metrics()] == list(range(9))
    run.close()
