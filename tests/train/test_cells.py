"""Tables of runs: none twice, in order, and readable."""

from __future__ import annotations

import pytest

from handloom.errors import InputError
from handloom.train.cells import markdown_table, run_cells
from handloom.train.run_folder import RunFolder


def test_finished_cells_are_kept_and_an_unfinished_one_starts_anew(tmp_path) -> None:
    made = []

    def make(own: RunFolder, options: int) -> dict:
        made.append(options)
        own.write_samples(str(options))
        if options == 2 and made.count(2) == 1:
            raise KeyboardInterrupt
        return {"square": options**2}

    cells = {"one": 1, "two": 2, "three": 3}
    with RunFolder.create(tmp_path / "run", {}) as run, pytest.raises(KeyboardInterrupt):
        run_cells(run, cells, make, say=lambda text: None)
    run = RunFolder.open(tmp_path / "run")
    rows = run_cells(run, cells, make, say=lambda text: None)
    assert made == [1, 2, 2, 3]
    assert [(row["cell"], row["square"]) for row in rows] == [("one", 1), ("two", 4), ("three", 9)]
    assert all(row["seconds"] >= 0 for row in rows)
    run.close()
    with RunFolder.create(tmp_path / "run", {}, overwrite=True) as run:
        assert run.cells() == []
        assert not (run.path / "cells").exists()


def test_a_file_of_the_user_in_a_cell_is_not_removed(tmp_path) -> None:
    with RunFolder.create(tmp_path / "run", {}) as run:
        run_cells(run, {"one": 1}, lambda own, options: {}, say=lambda text: None)
    (tmp_path / "run/cells/one/notes.txt").write_text("mine")
    with pytest.raises(InputError, match="can't be cleared"):
        RunFolder.create(tmp_path / "run", {}, overwrite=True)
    assert (tmp_path / "run/cells/one/notes.txt").read_text() == "mine"


def test_a_table_in_markdown() -> None:
    rows = [{"cell": "a", "loss": 1.23456, "n": 12345}, {"cell": "bb", "loss": None, "n": 7}]
    assert markdown_table(rows, {"cell": "model", "n": "parameters:,", "loss": "loss:.2f"}) == (
        "| model | parameters | loss |\n"
        "| ----- | ---------: | ---: |\n"
        "| a     |     12,345 | 1.23 |\n"
        "| bb    |          7 |      |"
    )
