"""A whole training run on a device: the same record as on the CPU, and it goes on from its save."""

from __future__ import annotations

import json

import numpy as np
import pytest

from handloom.autograd.backend import DeviceError
from handloom.train.checkpoints import load_checkpoint
from handloom.train.optimizers import SGD
from handloom.train.stopping import TrainingStopped
from tests.support.small_run import small_run


def rows(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_on_the_device_leaves_the_record_of_the_cpu(tmp_path, fake_cupy) -> None:
    # Not Adam: it would blow the rounding errors of gradients that are zero (of the key's bias) up to full steps.
    options = {"steps": 6, "dropout": 0.0, "optimizer": lambda model: SGD(model.parameters(), 0.5, 0.9)}
    for device in ("cpu", "cuda"):
        small_run(tmp_path / device, device=device, **options)
    for own, want in zip(rows(tmp_path / "cuda"), rows(tmp_path / "cpu"), strict=True):
        assert own.keys() == want.keys()
        for name in own:
            if name != "tokens_per_second":
                assert own[name] == pytest.approx(want[name], rel=2e-4), name
    weights, wanted = (load_checkpoint(tmp_path / name).tensors for name in ("cuda", "cpu"))
    for name in wanted:
        np.testing.assert_allclose(weights[name], wanted[name], atol=1e-4)


def test_a_run_goes_on_from_its_save_on_the_device(tmp_path, fake_cupy) -> None:
    small_run(tmp_path / "whole", steps=6, device="cuda", validate_every=3)
    with pytest.raises(TrainingStopped):
        small_run(tmp_path / "stopped", steps=6, device="cuda", validate_every=3, stop_at=4)
    small_run(tmp_path / "stopped", steps=6, device="cuda", validate_every=3, resume=True)
    one, other = (load_checkpoint(tmp_path / name).tensors for name in ("whole", "stopped"))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_run_in_fp16_on_the_device_is_that_of_the_cpu_within_rounding(tmp_path, fake_cupy) -> None:
    for device in ("cpu", "cuda"):
        small_run(tmp_path / device, device=device, steps=3, dropout=0.0, precision="fp16")
    for own, want in zip(rows(tmp_path / "cuda"), rows(tmp_path / "cpu"), strict=True):
        assert own["step"] == want["step"]
        for name in {"loss", "valid_loss"} & own.keys():
            assert own[name] == pytest.approx(want[name], rel=0.01)


def test_without_a_gpu_the_error_says_so(tmp_path) -> None:
    with pytest.raises(DeviceError, match="device 'cuda'"):
        small_run(tmp_path / "run", device="cuda")
