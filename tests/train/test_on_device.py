"""A training run on a device writes the same log as on the CPU, and can be resumed."""

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.train.optim.optimizers import SGD
from handloom.train.optim.schedules import noam
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import TrainingStopped
from handloom.train.trainer import Trainer
from tests.support.decoding import without_attention_dropout
from tests.support.fake_cupy import array as fake_array
from tests.support.fake_cupy.array import synchronize
from tests.support.small_run import forbid_waiting, log, small_run, small_trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

SMALL = {"pairs": 24, "tokens": 40}  # small batches: the stand-in needs time for each thread of a kernel


def test_fp16_steps_of_a_run_never_wait_and_a_row_of_the_log_waits_once(
    tmp_path, fake_cupy, counted_masks, monkeypatch
) -> None:
    waits: list[str] = []
    monkeypatch.setattr(fake_array, "synchronize", lambda what: (waits.append(what), synchronize(what)))
    log_row = Trainer._log

    def counted_log(self: Trainer, *args) -> None:
        before = len(waits)
        log_row(self, *args)
        assert len(waits) - before == (self.model.output.weight.device != "cpu")

    forbid_waiting(monkeypatch)
    monkeypatch.setattr(Trainer, "_log", counted_log)
    found = {}
    for device in ("cpu", "cuda"):
        with RunFolder.create(tmp_path / device, {}) as run:
            trainer = small_trainer(
                run, device=device, steps=24, dropout=0.1, precision="fp16", accumulate=2, clip_norm=0.5,
                log_every=4, validate_every=24, name_overflows=True, ema=0.9, data=SMALL, schedule=noam(16, 60),
            )  # fmt: skip
            without_attention_dropout(trainer.model)
            trainer.scaler.scale, trainer.scaler.interval = 2.0**26, 8  # gradients soon overflow
            trainer.updates.write()
            with np.errstate(over="ignore", invalid="ignore"):
                trainer.fit()
        found[device] = [row for row in log(tmp_path / device) if "loss" in row]
        assert trainer.optimizer.steps == trainer.ema.updates == 24 - found[device][-1]["skipped"]
    assert len(found["cuda"]) == 6
    for own, want in zip(found["cuda"], found["cpu"], strict=True):
        assert own["loss"] == pytest.approx(want["loss"], rel=0.01)
    assert found["cuda"][-1]["loss"] < found["cuda"][0]["loss"] - 0.1
    assert found["cuda"][-1]["skipped"] > 0
    names = [name for name, _ in trainer.model.named_parameters()]
    assert found["cuda"][-1]["overflowed"] in names


def test_a_run_on_the_device_leaves_the_record_of_the_cpu(tmp_path, cuda) -> None:
    # Not Adam: the key's bias has zero gradients, and Adam would amplify their rounding errors to full steps.
    options = {"steps": 6, "dropout": 0.0, "data": SMALL, "optimizer": lambda model: SGD(model.parameters(), 0.5, 0.9)}
    for device in ("cpu", "cuda"):
        small_run(tmp_path / device, device=device, **options)
    for own, want in zip(log(tmp_path / "cuda"), log(tmp_path / "cpu"), strict=True):
        assert {**own, "tokens_per_second": 0} == pytest.approx({**want, "tokens_per_second": 0}, rel=2e-4)


def test_a_run_that_was_begun_on_a_device_goes_on_on_the_cpu(tmp_path, cuda) -> None:
    options = {"steps": 8, "dropout": 0.0, "validate_every": 4, "ema": 0.9, "precision": "fp16", "data": SMALL}
    with pytest.raises(TrainingStopped):
        small_run(tmp_path / "run", device="cuda", stop_at=4, **options)
    trainer = small_run(tmp_path / "run", device="cpu", resume=True, **options)
    assert trainer.optimizer.steps + int(trainer.scaler.skipped) == 8
    small_run(tmp_path / "whole", device="cpu", **options)
    for own, want in zip(log(tmp_path / "run"), log(tmp_path / "whole"), strict=True):
        for name in {"loss", "valid_loss"} & own.keys():
            assert own[name] == pytest.approx(want[name], rel=0.01)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_nan_gradient_ends_the_run_and_names_its_parameter(tmp_path, cuda, precision) -> None:
    with RunFolder.create(tmp_path / "run", {}) as run:
        options = {"steps": 8, "log_every": 8, "validate_every": 8, "name_overflows": True, "data": SMALL}
        trainer = small_trainer(run, device="cuda", precision=precision, **options)
        if trainer.scaler is not None:
            trainer.scaler.scale = 8.0  # it is 1 after three steps, so step 4 can't count as an overflow
            trainer.updates.write()
        trainer.model.output.bias.data[...] = np.nan
        with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=r"the loss is nan .*, first of output"):
            trainer.fit()


@pytest.mark.parametrize("on_device", [False, True])
def test_a_batch_without_targets_ends_the_run_with_a_word(tmp_path, cuda, on_device) -> None:
    """The number of targets is known at once, or remains on the device until the updates are read."""
    with RunFolder.create(tmp_path / "run", {}) as run:
        trainer = small_trainer(run, device="cuda", steps=2)
        loss = trainer.loss
        trainer.loss = lambda model, batch: (loss(model, batch)[0], cuda.asarray(0) if on_device else 0)
        with pytest.raises(InputError, match="has no targets"):
            trainer.fit()


def test_a_trainer_makes_its_device_the_current_one(tmp_path, fake_cupy, monkeypatch) -> None:
    used: list[int] = []
    monkeypatch.setattr(fake_cupy.cuda.Device, "use", lambda self: used.append(self.id))
    for device in ("cpu", "cuda"):
        with RunFolder.create(tmp_path / device, {}) as run:
            small_trainer(run, device=device)
    assert used == [0]
