"""The training benchmark measures equal work, in separate processes, and reports the conditions."""

import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import train_step
from benchmarks.train_step_models import TINY, Size, arguments
from benchmarks.train_step_subjects import Handloom, create
from handloom.train.data.batches import TokenBatches

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
REAL = Size("seq2seq", 0, 0, 0, 40, 16, 32, 1, 2, 0.3, norm_first=True, tied=True, label_smoothing=0.1)


def ragged_batches() -> list[dict[str, np.ndarray]]:
    """Return batches with padding."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(4, 40, length).tolist() for length in generator.integers(2, 12, 200)]
    batches = TokenBatches(texts, texts[::-1], tokens_per_batch=60, seed=0, pad_id=0, bos_id=1, eos_id=2)
    return [arguments(batches.batch(indices)) for indices in batches.plan(0)[:12]]


@pytest.mark.parametrize("config", ["tiny", "tiny-classifier", "tiny-language-model", "real batches"])
def test_both_sides_do_the_same_work(config) -> None:
    pytest.importorskip("torch", reason="PyTorch is the other side")
    size, batches = (REAL, ragged_batches()) if config == "real batches" else (TINY[config], None)
    exact = dataclasses.replace(size, dropout=0.0)
    ours = create("handloom", "cpu", exact, batches).gradients(0)
    for side in ("torch-layers", "torch-lean", "torch-bfloat16"):
        found = train_step.compare_gradients(ours, create(side, "cpu", exact, batches).gradients(0))
        assert found["loss"] < 1e-6
        assert found["gradient"] < 1e-5, found
        theirs = create(side, "cpu", size, batches)
        before = [p.detach().numpy().copy() for p in theirs.model.parameters()]
        theirs.step()  # with dropout, and an update of every parameter
        for old, new in zip(before, theirs.model.parameters(), strict=True):
            assert (old != new.detach().numpy()).any()
        assert np.isfinite(theirs.wait())
    ours = create("handloom", "cpu", size, batches)
    assert np.isfinite([ours.warm(1) for _ in range(4)]).all()


def test_different_work_is_refused() -> None:
    gradients = {"loss": np.float32(2.0), "w": np.arange(4.0), "b": np.ones(2)}
    others = gradients, gradients | {"w": np.arange(4.0) * 1.01}, gradients | {"loss": np.float32(2.1)}
    same, gradient, loss = (train_step.compare_gradients(gradients, other) for other in others)
    assert [train_step.agree(found) for found in (same, gradient, loss)] == [True, False, False]
    assert (gradient["parameter"], loss["loss"]) == ("w", pytest.approx(0.1 / 2.1))
    with pytest.raises(SystemExit, match=r"different parameters: \['b'\]"):
        train_step.compare_gradients(gradients, {"loss": np.float32(2.0), "w": np.arange(4.0)})


def test_the_whole_benchmark_runs_and_writes_rows(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("torch", reason="PyTorch is the other side")
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"rows": [{"config": "other", "ratio": 1.0}, {"config": "tiny", "ratio": -1.0}]}))
    monkeypatch.setattr(train_step, "REFERENCES", ("torch-lean",))  # starting PyTorch takes most of the time
    options = ["--also", "bfloat16", "--steps", "4", "--threads", "1", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", ["train_step", "--config", "tiny", *options])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    train_step.main()
    kept, row = json.loads(file.read_text())["rows"]
    assert (kept["config"], row["config"], row["ruler"]) == ("other", "tiny", "torch-lean")
    assert {side: len(times) for side, times in row["all_ms"].items()} == {
        "handloom": 4, "torch-lean": 4, "handloom-bfloat16": 4, "torch-bfloat16": 4,
    }  # fmt: skip
    median = {side: float(np.median(times)) for side, times in row["all_ms"].items()}
    assert row["command"].endswith("--threads 1")  # without the path of --json
    assert row["ratio"] == pytest.approx(median["torch-lean"] / median["handloom"], 0.01)
    assert row["memory_ratio"] == pytest.approx(row["peak_mb"]["handloom"] / row["peak_mb"]["torch-lean"], 0.02)
    assert all(side["gflops"] > 0 for side in row["libraries"].values())
    assert f"{row['ratio']:.2f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "precision", "graphs"),
    [("tiny", "fp16", True), ("tiny-classifier", "fp32", False), ("tiny-language-model", "fp16", False)],
)
def test_the_device_side_steps_without_waiting(config, precision, graphs, fake_cupy) -> None:
    import cupyx

    subject = Handloom(TINY[config], None, "cuda", precision=precision, graphs=graphs)
    losses = []
    for _ in range(3):
        with cupyx.allow_synchronize(False):
            subject.step()
        losses.append(subject.wait())
    assert np.isfinite(losses).all()
    report = subject.updates.flat.read()
    assert report["steps"] + report["skipped"] == 3
    assert 50 < subject.launches() < 400 if graphs else subject.launches() is None
    assert losses[0] == pytest.approx(np.log(subject.size.classes or subject.size.vocabulary), rel=0.4)
