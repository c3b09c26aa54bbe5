"""The list of experiments, the commands that repeat them, and measures to compare texts and decoding options."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coherence import coherence
from benchmarks.decoding import significance
from benchmarks.reports import RESULTS, command_line, experiments, folder_of
from handloom.train.runs.saves import SavedStates


def test_every_results_file_is_listed_with_a_command() -> None:
    rows = experiments()
    assert {row["cell"].split()[0] for row in rows} == {path.stem for path in RESULTS.glob("*.json")}
    assert all(row["command"].startswith(("python examples/", "python -m ")) for row in rows)
    for number, row in enumerate(rows):
        for folder in re.findall(r"runs/\S+", row["command"].replace(f"--out {folder_of(row)}", "")):
            assert Path(folder) in map(folder_of, rows[:number]), f"{row['cell']} needs {folder}, which comes later"


EXAMPLES = [row for row in experiments() if row["command"].startswith("python examples/")]


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["cell"])
def test_no_option_of_a_command_is_refused(row, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", command_line(row["command"], tmp_path / "new")[1:])
    runpy.run_path(sys.argv[0])["parse_arguments"]()


def test_a_stopped_training_goes_on(tmp_path: Path) -> None:
    begun = command_line("python examples/a.py --set x=1", tmp_path)
    assert begun == [sys.executable, "examples/a.py", "--set", "x=1", "--out", str(tmp_path), "--overwrite"]
    assert command_line("python examples/a.py", tmp_path / "new")[2:] == ["--out", str(tmp_path / "new")]
    SavedStates(tmp_path / "checkpoints").save(3, {"w": np.ones(1)}, {})
    assert command_line("python examples/a.py --set x=1", tmp_path)[2:] == ["--resume", str(tmp_path)]
    results = ["--json", str(tmp_path / "results.json")]
    assert command_line("python -m benchmarks.a", tmp_path) == [sys.executable, "-m", "benchmarks.a", *results]
    assert command_line("python -m handloom.a --out x", tmp_path)[1:] == ["-m", "handloom.a", "--out", "x"]


def test_coherence_counts_words_and_pairs() -> None:
    words = ["the", "cat", "sat", "on", "the", "mat"]
    found = coherence(["The cat sat qqq; the cat s"], words)  # the last word may be cut off
    assert found == pytest.approx({"real": 5 / 6, "known": 3 / 5, "distinct": 4 / 6, "repetition": 1 / 5})


def test_significance_is_in_relation_to_the_first_system() -> None:
    references = [f"the {i} cats sat on the mat number {i}" for i in range(60)]
    worse = [text.replace("mat", "rug") for text in references]
    other = [references[0], worse[1].replace("cats", "dogs"), *worse[2:]]
    found = significance({"worse": worse, "other": other, "right": references}, references)
    assert found["worse"]["p"] is None
    assert found["other"]["p"] > 0.05
    assert found["right"]["p"] < 0.01
    assert found["right"]["interval"] == pytest.approx(0, abs=1e-3)
