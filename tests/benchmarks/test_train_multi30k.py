"""The benchmarks on real batches and on long sequences, from end to end at a small size."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import side_by_side, train_multi30k_worker
from benchmarks.train_step_sizes import Size
from handloom.train.data.batches import TokenBatches

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SIZE = Size("seq2seq", 0, 0, 0, 40, 16, 32, 1, 2, 0.3, norm_first=True, tied=True, label_smoothing=0.1)


def ragged_batches(count: int) -> list:
    generator = np.random.default_rng(0)
    texts = [generator.integers(4, 40, length).tolist() for length in generator.integers(2, 12, 200)]
    batches = TokenBatches(texts, texts[::-1], tokens_per_batch=60, seed=0, pad_id=0, bos_id=1, eos_id=2)
    return [batches.batch(indices) for indices in batches.plan(0)[:count]]


def test_batches_are_the_same_after_saving(tmp_path) -> None:
    batches = ragged_batches(12)
    train_multi30k_worker.save_batches(tmp_path / "batches.npz", SIZE, batches)
    size, loaded = train_multi30k_worker.load_batches(str(tmp_path / "batches.npz"))
    assert size == SIZE
    assert len(loaded) == 12
    for batch, arrays in zip(batches, loaded, strict=True):
        for field in dataclasses.fields(batch):
            np.testing.assert_array_equal(arrays[field.name], getattr(batch, field.name))


def test_both_sides_do_the_same_work(tmp_path) -> None:
    """Padding masks, label smoothing without padding, tied tables, clipping: loss and clipped gradients agree."""
    pytest.importorskip("torch", reason="PyTorch is the other side")
    train_multi30k_worker.save_batches(tmp_path / "batches.npz", SIZE, ragged_batches(3))
    size, batches = train_multi30k_worker.load_batches(str(tmp_path / "batches.npz"))
    assert (batches[0]["source"] == 0).any()
    ours = train_multi30k_worker.RealHandloom(size, batches, str(tmp_path))
    np.savez(tmp_path / "ours.npz", **ours.gradients())
    for lean in (False, True):
        theirs = train_multi30k_worker.RealTorch(size, 1, lean, batches)
        theirs.load(ours.weights())
        np.savez(tmp_path / "theirs.npz", **theirs.gradients())
        found = side_by_side.compare_gradients(tmp_path / "ours.npz", tmp_path / "theirs.npz")
        assert found["loss"] < 1e-6
        assert found["gradient"] < 1e-5, found
        assert np.isfinite(theirs.step())
    assert np.isfinite([ours.step() for _ in range(4)]).all()


def test_the_profile_of_real_batches_runs(tmp_path) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("".join("de\ten\n" if i < 1 else f"Satz {i} hier\tsentence {i} here\n" for i in range(80)))
    arguments = ["--data", str(data), "--preset", "smoke", "--batches", "2", "--threads", "1", "--profile"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.train_multi30k", *arguments],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "CrossEntropy" in done.stdout


def test_long_sequences(tmp_path) -> None:
    file = tmp_path / "table.json"
    arguments = ["--lengths", "64", "128", "--tokens", "128", "--memory-lengths", "64"]
    arguments += ["--steps", "1", "--threads", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.long_sequences", *arguments, "--json", str(file)],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = json.loads(file.read_text())
    assert [(row["method"], row["length"]) for row in table["times"]] == [
        ("blocked", 64), ("blocked", 128), ("standard", 64), ("standard", 128),
    ]  # fmt: skip
    assert [row["growth"] for row in table["times"] if row["length"] == 64] == [1.0, 1.0]
    assert all(row["peak_mb"] > 0 for row in table["memory"])
