"""The training benchmark measures equal work, in separate processes, and reports the conditions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import side_by_side, train_step_device, train_step_products
from benchmarks.train_step_device import HandloomOnDevice
from benchmarks.train_step_sizes import SIZES, size_of
from benchmarks.train_step_worker import HandloomSubject, TorchSubject

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.train_step", *arguments],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("config", ["tiny", "tiny-classifier", "tiny-language-model"])
def test_the_models_of_both_sides_do_the_same_work(config, tmp_path) -> None:
    pytest.importorskip("torch", reason="PyTorch is the other side")
    size = size_of(config)
    ours = HandloomSubject(size)
    weights = ours.weights()
    np.savez(tmp_path / "ours.npz", **ours.gradients())
    for lean in (False, True):
        theirs = TorchSubject(size, 1, lean)
        theirs.load(weights)
        np.savez(tmp_path / "theirs.npz", **theirs.gradients())
        found = side_by_side.compare_gradients(tmp_path / "ours.npz", tmp_path / "theirs.npz")
        assert found["loss"] < 1e-6
        assert found["gradient"] < 1e-5, found
        before = [p.detach().numpy().copy() for p in theirs.model.parameters()]
        theirs.model.train()
        theirs.step()  # with dropout, and an update of every parameter
        for old, new in zip(before, theirs.model.parameters(), strict=True):
            assert (old != new.detach().numpy()).any()


def test_different_work_is_refused(tmp_path) -> None:
    gradients = {"loss": np.float32(2.0), "w": np.arange(4.0), "b": np.ones(2)}
    np.savez(tmp_path / "a.npz", **gradients)
    np.savez(tmp_path / "b.npz", **(gradients | {"w": np.arange(4.0) * 1.01}))
    found = side_by_side.compare_gradients(tmp_path / "a.npz", tmp_path / "b.npz")
    assert found["parameter"] == "w"
    with pytest.raises(SystemExit, match="gradients of w"):
        side_by_side.require_equal(found)
    np.savez(tmp_path / "c.npz", **(gradients | {"loss": np.float32(2.1)}))
    with pytest.raises(SystemExit, match="losses differ by 4"):
        side_by_side.require_equal(side_by_side.compare_gradients(tmp_path / "a.npz", tmp_path / "c.npz"))
    np.savez(tmp_path / "d.npz", loss=np.float32(2.0), w=np.arange(4.0))
    with pytest.raises(SystemExit, match=r"different parameters: \['b'\]"):
        side_by_side.compare_gradients(tmp_path / "a.npz", tmp_path / "d.npz")


@pytest.mark.parametrize("config", SIZES)
def test_the_products_are_those_of_the_model(config) -> None:
    """Counted differently: a linear layer takes 2 rows x weights, attention 4 batch x queries x keys x d_model."""
    size = SIZES[config]
    source, target, d = size.batch * size.source, size.batch * size.target, size.d_model
    layer = 4 * d * d + 2 * d * size.dim_feedforward
    total = 2.0 * source * layer * size.layers + 4 * source * size.source * d * size.layers
    if size.kind == "seq2seq":
        cross = 2 * (2 * target + 2 * source) * d * d + 4 * target * size.source * d
        total += size.layers * (2 * target * layer + 4 * target * size.target * d + cross)
    outputs = {"seq2seq": target, "language model": source, "classifier": size.batch}[size.kind]
    total += 2 * outputs * d * (size.classes or size.vocabulary)
    assert train_step_products.flop(train_step_products.forward_products(size)) == total
    assert train_step_products.flop(train_step_products.step_products(size)) == 3 * total


def test_the_whole_benchmark_runs_and_writes_rows(tmp_path) -> None:
    pytest.importorskip("torch", reason="PyTorch is the other side")
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"config": "other", "ratio": 1.0}, {"config": "tiny", "ratio": -1.0}]))
    done = run("--config", "tiny", "--no-compile", "--steps", "4", "--threads", "1", "--json", str(file))
    assert done.returncode == 0, done.stderr
    kept, row = json.loads(file.read_text())
    assert (kept["config"], row["config"]) == ("other", "tiny")
    assert row["ruler"] in ("torch-layers", "torch-lean")
    assert {side: len(times) for side, times in row["all_ms"].items()} == dict.fromkeys(row["median_ms"], 4)
    median = {side: float(np.median(times)) for side, times in row["all_ms"].items()}
    assert row["ratio"] == pytest.approx(min(median["torch-layers"], median["torch-lean"]) / median["handloom"], 0.01)
    assert row["memory_ratio"] == pytest.approx(row["peak_mb"]["handloom"] / row["peak_mb"][row["ruler"]], 0.02)
    assert "with_environment" not in row
    assert all(side["gflops"] > 0 for side in row["libraries"].values())
    assert f"{row['ratio']:6.2f}" in done.stdout


def test_a_profile_needs_no_pytorch_and_adds_up() -> None:
    done = run("--config", "tiny-classifier", "--steps", "2", "--threads", "1", "--profile")
    assert done.returncode == 0, done.stderr
    table = [line.rsplit(None, 4) for line in done.stdout.split("page faults\n")[1].splitlines()]
    spent = {fields[0]: float(fields[2]) for fields in table}
    total = spent.pop("total")
    assert sum(spent.values()) == pytest.approx(total, abs=0.2)
    assert any(name.startswith("Linear") and name.endswith("backward") for name in spent)
    assert any(name.startswith("Adam") for name in spent)


def test_without_a_gpu_the_device_benchmark_says_so_and_its_file_too() -> None:
    done = run("--device", "cuda", "--config", "tiny")
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert "not measured: " in done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads((ROOT / "benchmarks/results/train_step_cuda.json").read_text(encoding="utf-8"))
    if isinstance(found, dict):
        assert found["state"] == "not yet measured"
        assert found["command"].startswith("python -m benchmarks.train_step --device cuda")


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("config", ["tiny", "tiny-classifier", "tiny-language-model"])
def test_the_device_side_steps_without_waiting(config, half, graphs, fake_cupy) -> None:
    import cupyx

    subject = HandloomOnDevice(train_step_device.size_of(config), half, graphs)
    losses = []
    for _ in range(3):
        with cupyx.allow_synchronize(False):
            subject.step()
        losses.append(subject.wait())
    assert np.isfinite(losses).all()
    report = subject.updates.flat.report()
    assert report["steps"] + report["skipped"] == 3
    assert 50 < subject.launches() < 400 if graphs else subject.launches() is None
    assert losses[0] == pytest.approx(np.log(subject.size.classes or subject.size.vocabulary), rel=0.4)


def test_variables_that_select_kernels_are_unset_and_reported(monkeypatch) -> None:
    for name in list(side_by_side.selecting_variables(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    assert side_by_side.selecting_variables(os.environ) == {"OPENBLAS_CORETYPE": "Haswell"}
    plain, kept = (side_by_side.worker_environment(2, keep_selecting=keep) for keep in (False, True))
    assert "OPENBLAS_CORETYPE" not in plain
    assert kept["OPENBLAS_CORETYPE"] == "Haswell"
    assert plain["OPENBLAS_NUM_THREADS"] == kept["OPENBLAS_NUM_THREADS"] == "2"
    assert plain["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--threads", "0"], ["--threads", "1000"], ["--config", "x"]])
def test_bad_arguments_are_named(arguments) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
