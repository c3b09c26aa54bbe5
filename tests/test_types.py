"""A type checker, and so an editor that jumps to a definition, resolves the package's methods."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]

# An expression, and pieces of the type that must be found for it (how the rest is written is mypy's own). A method of
# Tensor is one line that calls an op or the engine: the jump goes on from there, through `tensor._ops`.
TENSOR = "handloom.autograd.tensor.Tensor"
REVEALED = {
    "Tensor.backward": [f"def (self: {TENSOR}, gradient: ", "retain_graph: "],
    "tensor._engine.backward": [f"def (output: {TENSOR}, gradient: ", "retain_graph: ", "ready: "],
    "Tensor.sum": ["def (self: handloom.autograd.operators.Operators, axis: ", f"-> {TENSOR}"],
    "tensor._ops.sum": ["def (x: ", "axis: ", "keepdims: ", f"-> {TENSOR}"],
    "ops.softmax": ["def (x: ", "axis: ", f"-> {TENSOR}"],
    "x.sum()": [TENSOR],
    "x.reshape(1, 1)": [TENSOR],
    "x @ x": [TENSOR],
}


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_type_checker_finds_what_tensors_methods_call(tmp_path) -> None:
    (tmp_path / "handloom").symlink_to(ROOT, target_is_directory=True)
    lines = ["from handloom.autograd import Tensor, ops, tensor", "x = Tensor([1.0])"]
    (tmp_path / "probe.py").write_text("\n".join(lines + [f"reveal_type({text})" for text in REVEALED]))
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "probe.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    said = [line.split('"')[1] for line in run.stdout.splitlines() if "Revealed type" in line]
    for (text, pieces), type_of in zip(REVEALED.items(), said, strict=True):
        assert all(piece in type_of for piece in pieces), f"{text} is {type_of}"
