"""The parts of training that a preset describes, and errors for steps that a run has passed or never reaches."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from handloom.errors import InputError
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.models.presets import CLASSIFIER_PRESETS, SMOKE
from handloom.nn import MultiHeadAttention
from handloom.train.optim.fast.flat_adam import common_decay
from handloom.train.optim.optimizers import SGD, Adam, AdamW
from handloom.train.optim.schedules import Plateau
from handloom.train.runs.progress import Progress
from handloom.train.tasks.task import make_model, make_optimizer, make_record, make_schedule, make_validation, restore
from handloom.train.updates import UpdateOptions

CONFIG = Seq2SeqConfig(9, 9, 8, 2, 1, 1, 8)


def changed(**changes: Any) -> Any:
    return dataclasses.replace(SMOKE, **changes)


@pytest.mark.parametrize("wanted", [False, True])
def test_sums_in_a_fixed_order_are_asked_of_every_attention(wanted: bool) -> None:
    model = make_model(changed(deterministic=wanted), Seq2SeqTransformer, CONFIG, "cpu")
    found = [module.deterministic for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert found == [wanted] * 3


def test_a_model_that_cannot_be_built_says_why() -> None:
    with pytest.raises(InputError, match=r"can't be built: embed_dim 32 is not divisible.*--set"):
        make_model(SMOKE, Seq2SeqTransformer, changed(nhead=7).model_config(9, 0), "cpu")


def test_optimizers() -> None:
    model = Seq2SeqTransformer(CONFIG)
    optimizer = make_optimizer(changed(optimizer="adamw", betas=(0.8, 0.9)), model)
    assert isinstance(optimizer, AdamW)
    assert optimizer.betas == (0.8, 0.9)
    assert type(make_optimizer(SMOKE, model)) is Adam
    assert isinstance(make_optimizer(changed(optimizer="sgd"), model), SGD)


def test_a_weight_decay_of_zero_is_none() -> None:
    """A weight decay of 0 does not select AdamW's default of 0.01."""
    model = Seq2SeqTransformer(CONFIG)
    for decay, made in ((None, 0.01), (0.0, 0.0), (0.3, 0.3)):
        assert common_decay(make_optimizer(changed(optimizer="adamw", weight_decay=decay), model)) == made


def test_schedules() -> None:
    for name in ("constant", "linear", "cosine"):
        assert make_schedule(changed(schedule=name, lr=0.1), 1000)(SMOKE.warmup) == pytest.approx(0.1)
    assert make_schedule(changed(schedule="linear", lr=0.1), 100)(100) == 0
    assert isinstance(make_schedule(changed(schedule="plateau", lr=0.1), 100), Plateau)
    assert make_schedule(SMOKE, 100)(100) == pytest.approx(SMOKE.d_model**-0.5 * 0.1)
    with pytest.raises(InputError, match="add --lr"):
        make_schedule(changed(schedule="cosine"), 10)


def test_validations() -> None:
    found = make_validation(changed(validate_every=50, monitor="valid_accuracy", patience=4, average=3), [], 7, 40)
    assert (found.every, found.monitor, found.higher_is_better, found.patience, found.average) == (
        40, "valid_accuracy", True, 4, 3,
    )  # fmt: skip
    assert make_validation(changed(validate_every=10), [], 7, 40).every == 10
    assert make_validation(CLASSIFIER_PRESETS["smoke"], [], 7, 40).every == 7, "validate once per epoch"


def test_the_picture_says_what_only_training_has() -> None:
    smoothed = make_record(changed(label_smoothing=0.1), 0.2, "token")
    assert smoothed.label == "training (dropout 0.2, label smoothing 0.1)"
    assert make_record(changed(label_smoothing=0.0), 0.2, "token").label == "training (dropout 0.2)"


@pytest.mark.parametrize(
    ("resume", "steps", "stop_at", "message"),
    [
        (True, 20, None, "is already at step 30: give at least --steps 30"),
        (True, 40, 30, r"--stop-at 30: the run is at step 30 of 40\. Use 31 to 40\."),
        (True, 40, 41, "--stop-at 41: the run is at step 30 of 40"),
        (True, 30, 31, r"--stop-at 31: the run is at step 30 of 30\. Leave it out\."),
        (False, 40, 41, "--stop-at 41: the run is at step 0 of 40"),
    ],
)
def test_steps_that_a_run_has_behind_it_or_never_reaches(resume, steps, stop_at, message) -> None:
    """`restore` raises the error before it touches the run: this trainer has no methods for that."""
    trainer: Any = SimpleNamespace(saves=SimpleNamespace(steps=lambda: [10, 30]), steps=steps)
    with pytest.raises(InputError, match=message):
        restore(trainer, resume=resume, stop_at=stop_at, say=print)


@pytest.mark.parametrize(("processes", "said"), [(3, 1), (2, 2)])
def test_a_run_that_goes_on_with_another_number_of_processes_says_so(processes, said) -> None:
    trainer: Any = SimpleNamespace(
        saves=SimpleNamespace(steps=lambda: [10]), steps=20, load=list, train_batches=range(13),
        progress=Progress(0, step=10, epoch=2, batch=4), options=UpdateOptions(), group=SimpleNamespace(size=processes),
    )  # fmt: skip
    lines: list[str] = []
    restore(trainer, resume=True, stop_at=None, say=lines.append)
    assert lines == [
        "resumed after step 10",
        "an update used 3 batches so far, and uses 2 with this number of processes",
    ][:said]
