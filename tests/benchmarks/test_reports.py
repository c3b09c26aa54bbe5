"""The list of experiments, and the commands that make them; what texts and decoding options are compared by."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data_overlap import overlap, size_row
from benchmarks.decoding import repetition
from benchmarks.reports import RESULTS, command_line, experiments
from handloom.train.runs.saves import SavedStates


def test_every_results_file_is_listed_with_a_command() -> None:
    rows = experiments()
    assert {row["cell"].split()[0] for row in rows} == {path.stem for path in RESULTS.glob("*.json")}
    assert all(row["command"].startswith(("python examples/", "python -m ")) for row in rows)
    costs = [row["minutes"] for row in rows if row["minutes"] is not None]
    assert costs == sorted(costs)


def test_a_stopped_training_goes_on(tmp_path: Path) -> None:
    begun = command_line("python examples/a.py --set x=1", tmp_path)
    assert begun == [sys.executable, "examples/a.py", "--set", "x=1", "--out", str(tmp_path), "--overwrite"]
    SavedStates(tmp_path / "checkpoints").save(3, {"w": np.ones(1)}, {})
    assert command_line("python examples/a.py --set x=1", tmp_path)[2:] == ["--resume", str(tmp_path)]
    assert command_line("python -m benchmarks.a", tmp_path) == [sys.executable, "-m", "benchmarks.a"]


def test_repetition() -> None:
    assert repetition(["a b c", "a b"]) == 0
    assert repetition(["a b a b a b"]) == pytest.approx(3 / 5)


def test_texts_are_compared_by_their_letters() -> None:
    assert overlap(["Go on!", "Los, Äh 2", "Stop."], ["go ON", "losäh", "Stop it."]) == 2
    row = size_row(["A b.", "c"], ["a B", "d"], ["e", "f", "C", "g"])
    assert (row["valid_overlap"], row["test_overlap"], row["words"]) == (0.5, 0.25, 1.5)
