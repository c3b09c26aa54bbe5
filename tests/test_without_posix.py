"""Test handloom without features that Windows lacks: fork, fcntl, resource, signals, /proc (support/no_posix.py).

This only simulates Windows, and finds only the features that handloom itself would miss there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from .support.examples import small_data

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "support/no_posix.py"


def run(folder: Path, *words: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), *map(str, words)],
        cwd=folder, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_translating_and_looking_at_the_machine(tmp_path) -> None:
    translate, check = ("translate", "--beam", 1, "Es regnet."), ("gradcheck", "--op", "softmax", "--samples", 2)
    said = run(tmp_path, *translate, "then", "doctor", "then", *check, "then", "course", "start", "learn")
    assert said.startswith("It's raining.\n")
    assert "all ok" in said


def test_training_stops_by_ctrl_c_and_goes_on(tmp_path) -> None:
    """The run includes BPE training. The tests of training check that a resumed run equals an uninterrupted run."""
    options = ["--data", small_data("translate_en_fr", tmp_path), "--preset", "smoke", "--set", "test_size=2"]
    options += ["--steps", 6, "--beam", 1]
    words = ("--interrupt", 3, "train", "translate_de_en", *options, "--out", "stopped")
    stopped = run(tmp_path, *words, code=130)
    assert "--resume stopped" in stopped
    run(tmp_path, "train", "translate_de_en", "--resume", "stopped")
    assert '{"step": 6,' in (tmp_path / "stopped/metrics.jsonl").read_text()
