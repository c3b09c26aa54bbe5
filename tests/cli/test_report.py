"""Comparing runs, and their options, in a table and a picture."""

import numpy as np
import pytest

from handloom.cli.report import compared, summary
from handloom.errors import InputError
from handloom.train.runs.checkpoints import save_checkpoint
from handloom.train.runs.folder import RunFolder
from tests.support.examples import Example


def make_run(path, seed: int, losses: list[float]) -> None:
    with RunFolder.create(path, {"options": {"seed": seed, "preset": "smoke", "sentences": []}}) as run:
        for number, loss in enumerate(losses, 1):
            step = 10 * number
            run.log({"step": step, "loss": loss + 1, "learning_rate": 0.1}, {"tokens_per_second": 10.0 * step})
            run.log({"step": step, "valid_loss": loss, "valid_accuracy": 1 - loss / 10})


def test_a_table_and_a_picture(tmp_path) -> None:
    make_run(tmp_path / "a", 0, [3.0, 2.0, 2.5])
    make_run(tmp_path / "b", 1, [3.0, 1.0])
    out = Example("handloom.cli.report", tmp_path).succeeds("a", "b", "--table", "t.md")
    table = (tmp_path / "t.md").read_text()
    assert table in out
    assert table.splitlines()[0].split(" | ") == [
        "| run", "seed", "updates", "training loss", "validation loss", "accuracy", "at step", "tokens/s |"
    ]  # fmt: skip
    cells = [cell.strip() for cell in table.splitlines()[2].strip("|").split("|")]
    assert cells == ["a", "0", "30", "3.5000", "2.0000", "0.8000", "20", "200"]
    assert (tmp_path / "comparison.png").stat().st_size > 5000


def test_averaged_weights_and_runs_of_different_scripts(tmp_path) -> None:
    for name, options in (("a", {"seed": 0, "reverse": True}), ("b", {"seed": 1, "table": "none"})):
        with RunFolder.create(tmp_path / name, {"options": {"preset": "smoke", **options}}) as run:
            run.log({"step": 10, "valid_loss": 2.0})
            run.log({"step": 10, "valid_loss": 1.5, "averaged": 3})
    table, lines = compared([tmp_path / "a", tmp_path / "b"])
    assert table.splitlines()[0].split(" | ")[:3] == ["| run", "seed", "updates"]
    assert "1.5000" in table
    assert lines["a"] == ([10], [2.0])
    assert lines["a, averaged weights"] == ([10], [1.5]), "the picture contains the best loss of the table"


@pytest.mark.parametrize(("step", "averaged", "loss"), [(10, 0, 2.0), (20, 0, 1.8), (20, 2, 1.9)])
def test_the_row_is_that_of_the_saved_model(tmp_path, step: int, averaged: int, loss: float) -> None:
    """A classifier is saved by its accuracy, whose best value is often at another step than that of the loss."""
    with RunFolder.create(tmp_path / "a", {}) as run:
        rows = [(10, 0, 2.0), (15, 0, 1.0), (20, 0, 1.8), (20, 2, 1.9)]
        for at, count, value in rows:
            own = {"averaged": count} if count else {}
            run.log({"step": at, "valid_loss": value, "valid_accuracy": value / 10, **own})
        save_checkpoint(run.path, {"w": np.zeros(2)}, {"step": step, "averaged": averaged})
    found = summary(run)
    assert (found["valid_loss"], found["valid_accuracy"], found["best_step"]) == (loss, loss / 10, step)


def test_runs_of_different_data_or_code_say_so(tmp_path) -> None:
    for name, data, steps in (("a", "1" * 64, 10), ("b", "2" * 64, 20)):
        config = {"options": {"steps": steps}, "data_sha256": data, "code": "c" * 64}
        with RunFolder.create(tmp_path / name, config) as run:
            run.log({"step": steps, "valid_loss": 2.0})
    header, _, row, _ = compared([tmp_path / "a", tmp_path / "b"])[0].splitlines()
    assert header.split(" | ")[1:4] == ["data_sha256", "steps", "updates"]
    assert "11111111" in row


def test_runs_of_one_name_and_runs_without_rows(tmp_path, capsys) -> None:
    make_run(tmp_path / "x/run", 0, [3.0])
    make_run(tmp_path / "y/run", 0, [2.0])
    table, lines = compared([tmp_path / "x/run", tmp_path / "y/run"])
    assert set(lines) == {str(tmp_path / "x/run"), str(tmp_path / "y/run")}
    assert "seed" not in table, "only options that differ have a column"
    RunFolder.create(tmp_path / "z", {})
    with pytest.raises(InputError, match="No run has logged anything yet"):
        compared([tmp_path / "z"])
    assert set(compared([tmp_path / "x/run", tmp_path / "z"])[1]) == {"run"}
    assert f"note: {tmp_path / 'z'} has logged nothing yet" in capsys.readouterr().err
