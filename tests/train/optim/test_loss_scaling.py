"""fp16 training on the CPU: the scale adapts, skipped steps change nothing, the weights stay float32."""

import contextlib
import json

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, ops, plain
from handloom.autograd.engine import backward
from handloom.train.optim.loss_scaling import HalfPrecision, LossScaler, first_overflow
from handloom.train.optim.optimizers import SGD, Adam
from handloom.train.optim.schedules import noam
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import TrainingStopped
from tests.support.small_run import log, small_run, small_trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]


def test_the_scale_halves_and_grows() -> None:
    scaler = LossScaler(initial=8.0, interval=3, least=2.0)
    scales = []
    for finite in [False, True, True, True, True, False, True, False, False, False]:
        scaler.update(finite)
        scales.append(float(scaler.scale))
    assert scales == [4, 4, 4, 8, 8, 4, 4, 2, 2, 2]
    assert int(scaler.skipped) == 5
    other = LossScaler()
    other.load_state_dict(json.loads(json.dumps(scaler.state_dict())))
    assert other.state_dict() == scaler.state_dict()


def test_passes_are_in_half_precision_and_gradients_add_up_in_single() -> None:
    layer = nn.Linear(3, 2)
    half = HalfPrecision(layer)
    weights = layer.weight.data
    half.cast()
    for _ in range(2):
        with half.passes():
            y = layer(Tensor(np.ones((4, 3), np.float16)))
            assert y.dtype == layer.weight.dtype == np.float16
            y.backward(np.full((4, 2), 0.3, np.float16))
            assert layer.weight.grad.dtype == np.float16
        assert layer.weight.data is weights
        assert layer.weight.grad.dtype == np.float32
    np.testing.assert_allclose(layer.weight.grad, np.full((2, 3), 2 * 4 * 0.3), rtol=2e-3)


def test_the_layer_that_overflowed_first_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    for parameter in model.parameters():
        parameter.grad = np.zeros_like(parameter.data)
    assert first_overflow(model.named_parameters()) is None
    for number in (0, 1):
        model[number].weight.grad[0, 0] = np.inf
    assert first_overflow(model.named_parameters()) == "1.weight"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_in_half_precision_learns_like_one_in_single(tmp_path, accumulate) -> None:
    losses = []
    for precision in ("fp32", "fp16"):
        # The gradient of a key's bias consists of rounding errors. With a smaller eps, Adam makes full-size steps from
        # it. At higher learning rates, rounding errors grow until the two runs differ.
        trainer = small_run(
            tmp_path / precision, precision=precision, dropout=0.0, steps=32, accumulate=accumulate,
            optimizer=lambda model: Adam(model.parameters(), eps=1e-4), schedule=noam(16, 100),
        )  # fmt: skip
        rows = log(tmp_path / precision)
        losses.append([row["valid_loss"] for row in rows if "valid_loss" in row])
        assert {parameter.dtype for parameter in trainer.model.parameters()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(losses[0], losses[1], rtol=3e-4)
    assert rows[0]["loss_scale"] >= 1024


@pytest.mark.parametrize("kind", ["cpu", "plain", "cross_entropy"])
def test_the_scale_may_exceed_what_float16_holds(kind: str) -> None:
    """With a scale of 2^20 and 25,600 tokens, no gradient overflows or vanishes in the backward pass."""
    rng, tokens, scale = np.random.default_rng(0), 25_600, 2.0**20
    x = Tensor(rng.normal(scale=0.02, size=(tokens, 6)).astype(np.float16), requires_grad=True)
    weight = Tensor(rng.normal(size=(9, 6)).astype(np.float16), requires_grad=True)
    targets = rng.integers(9, size=tokens)

    def gradients(x: Tensor, weight: Tensor, scale: float) -> list[np.ndarray]:
        if kind == "cross_entropy":
            loss = ops.cross_entropy(ops.linear(x, weight), targets)
        else:
            with plain() if kind == "plain" else contextlib.nullcontext():
                loss = ops.linear_cross_entropy(x, weight, None, targets)
        x.grad = weight.grad = None
        backward(loss, scale)
        return [x.grad, weight.grad]

    found = gradients(x, weight, scale)
    wide = [Tensor(t.data.astype(np.float32), requires_grad=True) for t in (x, weight)]
    for half, single in zip(found, gradients(*wide, 1.0), strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half.astype(np.float32) / scale, single, rtol=5e-3, atol=5e-3 * np.abs(single).max())


def test_a_resumed_run_knows_how_far_the_scale_has_fallen(tmp_path) -> None:
    def go(name: str, stop_at: int | None = None) -> int:
        resume = (tmp_path / name).exists()
        with RunFolder.open(tmp_path / name) if resume else RunFolder.create(tmp_path / name, {}) as run:
            trainer = small_trainer(run, precision="fp16", validate_every=12)
            trainer.scaler.scale, trainer.scaler.interval = 2.0**28, 7
            trainer.fit(resume=resume, stop_at=stop_at)
        return int(trainer.scaler.skipped)

    with np.errstate(over="ignore", invalid="ignore"):
        assert go("straight") >= 3
        for stop_at in (3, 9):
            with pytest.raises(TrainingStopped):
                go("run", stop_at)
        go("run")
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (tmp_path / "straight/metrics.jsonl").read_bytes()


def test_a_model_that_overflows_at_any_scale_says_where(tmp_path) -> None:
    with RunFolder.create(tmp_path / "run", {}) as run:
        trainer = small_trainer(run, precision="fp16", optimizer=lambda model: SGD(model.parameters()))
        trainer.model.output.bias.data[:] = 1e38
        with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=r"first of output\.bias"):
            trainer.fit()
        assert float(trainer.scaler.scale) == 1.0
