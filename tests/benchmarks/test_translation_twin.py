"""The comparison of learning with PyTorch, from end to end at a small size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_both_learn_the_same(tmp_path) -> None:
    pytest.importorskip("torch", reason="the other side")
    pairs = [f"der {a} {b} ist {c} .\tthe {a} {b} is {c} ." for a in "uvwxyz" for b in "klmnop" for c in "abcdefgh"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    options = ["--data", str(tmp_path / "pairs.tsv"), "--preset", "smoke", "--steps", "30", "--warmup", "300"]
    command = [sys.executable, "-m", "benchmarks.translation_twin", *options, "--tests", "5", "--beam", "1"]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "found.json")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert row["PyTorch"]["losses_apart"] < 1e-5, "the same weights in both give the same loss"
    assert abs(row["handloom"]["valid_loss"] - row["PyTorch"]["valid_loss"]) < 1e-3, "no dropout: the same training"
