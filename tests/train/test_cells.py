"""Tables of runs: no cell is made twice, rows are in order, and tables are readable."""

import numpy as np
import pytest

from handloom import nn, train
from handloom.train import cells
from handloom.train.cells import compare, grid, markdown_table, run_cells
from handloom.train.runs.folder import RunFolder, read_metrics
from handloom.train.runs.progress import TrainingStopped
from handloom.train.runs.saves import SavedStates


def test_finished_cells_are_kept_and_one_without_a_save_starts_anew(tmp_path) -> None:
    made = []

    def make(own: RunFolder, options: int, resume: bool) -> dict:
        assert not resume
        made.append(options)
        own.write_samples(str(options))
        if options == 2 and made.count(2) == 1:
            raise KeyboardInterrupt
        return {"square": options**2}

    options = {"one": 1, "two": 2, "three": 3}
    with RunFolder.create(tmp_path / "run", {}) as run, pytest.raises(KeyboardInterrupt):
        run_cells(run, options, make)
    run = RunFolder.open(tmp_path / "run")
    rows = run_cells(run, options, make)
    assert made == [1, 2, 2, 3]
    assert [(row["cell"], row["square"]) for row in rows] == [("one", 1), ("two", 4), ("three", 9)]
    assert all(row["seconds"] >= 0 for row in rows)
    run.close()
    with RunFolder.create(tmp_path / "run", {}, overwrite=True) as run:
        assert not (run.path / "cells.jsonl").exists()
        assert not (run.path / "cells").exists()


@pytest.mark.parametrize("change", ["nothing", "steps", "code"])
def test_a_cell_that_was_made_otherwise_is_continued(tmp_path, monkeypatch, change: str) -> None:
    """A table with rows of 10 and of 40 updates would compare nothing."""
    made = []

    def make(own: RunFolder, options: int, resume: bool) -> dict:
        made.append(resume)
        SavedStates(own.saves_path).save(5, {"w": np.zeros(1, np.float32)}, {})
        return {"steps": run.config["options"]["steps"]}

    run = RunFolder.create(tmp_path / "run", {"options": {"steps": 10, "table": "a"}})
    run_cells(run, {"one": 1}, make)
    run.config["options"] |= {"table": "b", "steps": 40 if change == "steps" else 10}
    if change == "code":
        monkeypatch.setattr(cells, "code_digest", lambda: "other")
    for _ in range(2):
        (row,) = run_cells(run, {"one": 1}, make)
        assert row["steps"] == run.config["options"]["steps"]
    assert made == [False, True][: 1 if change == "nothing" else 2]
    run.close()


def test_a_row_that_a_crash_cut_short_is_made_again(tmp_path) -> None:
    options = {"one": 1, "two": 2, "three": 3}
    run = RunFolder.create(tmp_path / "run", {})
    for left in ('{"cell": "one", "square": 1}\n{"cell": "tw', '{"cell": "one", "squ' + "x" * 100):
        (run.path / "cells.jsonl").write_text(left)
        run_cells(run, options, lambda own, options, resume: {"square": options**2})
        rows = read_metrics(run.path / "cells.jsonl", "cell")
        assert [(row["cell"], row["square"]) for row in rows] == [("one", 1), ("two", 4), ("three", 9)]
    run.close()


def test_a_cell_that_was_stopped_is_resumed(tmp_path) -> None:
    resumed = []

    def make(own: RunFolder, options: int, resume: bool) -> dict:
        resumed.append(resume)
        if not resume:
            SavedStates(own.saves_path).save(5, {"w": np.zeros(1, np.float32)}, {})
            raise TrainingStopped("stopped. Continue with --resume run/cells/one", 5, 2)
        return {"square": options**2}

    run = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(TrainingStopped) as stop:
        run_cells(run, {"one": 3}, make)
    assert str(stop.value) == f"stopped at step 5 of one, all saved. Continue with resume=True, out='{run.path}'"
    assert stop.value.exit_code == 130
    (row,) = run_cells(run, {"one": 3}, make)
    assert resumed == [False, True]
    assert row == {"cell": "one", "square": 9, "seconds": None}, "the seconds of the first part are not known"


def test_a_table_in_markdown() -> None:
    rows = [{"cell": "a", "loss": 1.23456, "n": 12345}, {"cell": "bb", "loss": None, "n": 7}]
    assert markdown_table(rows, {"cell": "model", "n": "parameters:,", "loss": "loss:.2f"}) == (
        "| model | parameters | loss |\n"
        "| ----- | ---------: | ---: |\n"
        "| a     |     12,345 | 1.23 |\n"
        "| bb    |          7 |      |"
    )


def test_a_column_without_values_is_left_out_and_a_narrow_one_is_still_one() -> None:
    """In Markdown a column needs at least one dash."""
    lines = markdown_table([{"a": 1}, {"a": 2, "b": None}], {"a": "a:d", "b": "b:d"}).splitlines()
    assert lines[:2] == ["|  a |", "| -: |"]


def test_a_grid_has_all_combinations_and_a_change_is_made_alone() -> None:
    cells = grid({"lr": [0.1, 0.2], "seed": [0]}, {"bias": [False], "name": ["a/b"]})
    assert list(cells) == [
        "lr=0.1,seed=0", "lr=0.1,seed=0,bias=False", "lr=0.1,seed=0,name=a%2Fb",
        "lr=0.2,seed=0", "lr=0.2,seed=0,bias=False", "lr=0.2,seed=0,name=a%2Fb",
    ]  # fmt: skip
    assert cells["lr=0.2,seed=0,bias=False"] == {"lr": 0.2, "seed": 0, "bias": False}
    for wrong in ("adam", 3):
        with pytest.raises(TypeError, match=r"the values of optimizer are .* must be a list"):
            grid({"optimizer": wrong})


def test_trainings_are_compared_and_only_missing_ones_are_made(tmp_path, capsys) -> None:
    made, batches = [], [np.ones((4, 2), np.float32)]

    def fit(lr: float, out=None, resume=True) -> train.History:
        made.append((lr, out and out.name, resume))
        model = nn.Linear(2, 1)
        trainer = train.Trainer(model, lambda model, x: (model(x) ** 2).mean(), train.SGD(model.parameters(), lr))
        return trainer.fit(batches, steps=3, validation=batches)

    cells = grid({"lr": [0.1, 0.0]})
    rows = compare(fit, cells, tmp_path / "table")
    assert [row["cell"] for row in rows] == ["lr=0.1", "lr=0.0"]
    assert rows[0]["best"] < rows[0]["loss"]
    assert all(row["seconds"] >= 0 for row in rows)
    assert compare(fit, {**cells, "high": {"lr": 0.5}}, tmp_path / "table")[:2] == rows
    assert made == [(0.1, "lr=0.1", False), (0.0, "lr=0.0", False), (0.5, "high", False)]
    compare(fit, {"high": {"lr": 0.25}}, tmp_path / "table")
    assert made[3:] == [(0.25, "high", False)], "other options"
    assert compare(lambda x: {"square": x * x}, {"a": {"x": 3}, "b": {"x": 4}})[1]["square"] == 16
    assert "a: square 9" in capsys.readouterr().out
    assert compare(lambda: None, {"a": {}}) == []
    with pytest.raises(TypeError, match="make returned int, but it must return a dict, a History or a fitted"):
        compare(lambda: 3, {"a": {}})
