"""Exact resume: a run that is stopped and resumed in a new process is bit-equal to an uninterrupted run."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom import files
from handloom.errors import InputError
from handloom.train import callbacks
from handloom.train.callbacks import Callback
from handloom.train.optim.optimizers import SGD, Adam
from handloom.train.optim.schedules import Plateau, cosine, noam
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import StopSignals, TrainingStopped
from handloom.train.runs.saves import SavedStates, mean
from handloom.train.trainer import Trainer
from handloom.train.updates import MicroBatch
from tests.support.examples import Example
from tests.support.small_run import STEPS, log, small_run, small_trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/support/small_run.py"


def in_a_new_process(folder: Path, *arguments: object) -> None:
    Example(str(SCRIPT), ROOT).succeeds(folder, *arguments)


def assert_equal_runs(one: Path, other: Path) -> None:
    """Check that the logs are byte-equal, and that weights, moments and counters of the last saves are equal."""
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    first, second = SavedStates(one / "checkpoints").load(), SavedStates(other / "checkpoints").load()
    assert first.step == second.step
    np.testing.assert_equal(first.weights, second.weights)
    np.testing.assert_equal(first.state["optimizer"]["moments"], second.state["optimizer"]["moments"])
    assert first.state["progress"] == second.state["progress"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    """Return the folder of an uninterrupted run of 24 updates."""
    folder = tmp_path_factory.mktemp("resume") / "straight"
    small_run(folder)
    return folder


def test_other_optimisers_schedules_averages_and_early_stopping_resume_too(tmp_path) -> None:
    """The learning rate falls and the patience runs out during the run, so a resume must restore both."""

    def options() -> dict:
        return {
            "optimizer": lambda model: SGD(model.parameters(), momentum=0.9),
            "schedule": Plateau(0.05, factor=0.1, patience=1, threshold=0.02),
            "ema": 0.9,
            "validate_every": 3,
            "monitor": "negative",
            "higher_is_better": True,
            "metrics": lambda model: {"negative": -float(np.abs(model.output.bias.data).sum())},
            "patience": 4,
            "steps": 60,
        }

    trainer = small_run(tmp_path / "straight", **options())
    assert 9 < trainer.progress.step < 60, "the patience should run out"
    assert trainer.schedule.falls > 1
    for k in (4, 9):
        with pytest.raises(TrainingStopped):
            small_run(tmp_path / "run", resume=k > 4, stop_at=k, **options())
    small_run(tmp_path / "run", resume=True, **options())
    assert_equal_runs(tmp_path / "straight", tmp_path / "run")


def test_stopping_again_and_again_changes_nothing(straight, tmp_path) -> None:
    """The run stops inside an epoch, between two rows of the log, between two validations, and at a validation. A new
    process trains to the end."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    for k in (1, 4, 7, 8, 13, 16, 23):
        with pytest.raises(TrainingStopped, match=f"after step {k} of {STEPS}.*resume=True"):
            small_run(tmp_path / "run", resume=k > 1, stop_at=k)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    in_a_new_process(tmp_path / "run", "--resume")
    assert_equal_runs(straight, tmp_path / "run")


def test_dropout_and_the_order_of_batches_matter_in_these_runs(straight, tmp_path) -> None:
    """Otherwise equal runs would prove nothing."""
    small_run(tmp_path / "still", dropout=0.0)
    small_run(tmp_path / "single", accumulate=1)
    logs = {(folder / "metrics.jsonl").read_bytes() for folder in (straight, tmp_path / "still", tmp_path / "single")}
    assert len(logs) == 3


def test_a_finished_run_resumes_to_the_same_end(straight, tmp_path) -> None:
    small_run(tmp_path / "run")
    trainer = small_run(tmp_path / "run", resume=True)
    assert_equal_runs(straight, tmp_path / "run")
    rows = log(straight)
    assert rows[-1]["averaged"] == 2
    assert trainer.progress.best == min(row["valid_loss"] for row in rows if "valid_loss" in row)


def test_a_run_can_be_made_longer(tmp_path) -> None:
    small_run(tmp_path / "long", steps=32)
    small_run(tmp_path / "short", steps=24)
    before = RunFolder.open(tmp_path / "short").processor_seconds()
    small_run(tmp_path / "short", resume=True, steps=32)
    assert_equal_runs(tmp_path / "long", tmp_path / "short")
    steps, seconds = RunFolder.open(tmp_path / "short").processor_seconds()
    assert seconds[: len(before[1])] == before[1]
    assert sorted(seconds) == seconds, "the processor time continues from its earlier value"
    assert steps[-1] == 32


def test_a_save_of_something_else_is_refused(straight, tmp_path) -> None:
    def refusal(data: Any = None, **options) -> str:
        changed = small_trainer(RunFolder.open(straight), data=data)
        for name, value in options.items():
            setattr(changed, name, value(changed))
        with pytest.raises(InputError) as caught:
            changed.fit(resume=True)
        return str(caught.value)

    before = (straight / "metrics.jsonl").read_bytes()
    assert "another optimiser" in refusal(optimizer=lambda t: SGD(t.model.parameters(), momentum=0.9))
    assert "number or shape" in refusal(optimizer=lambda t: Adam(list(t.model.parameters())[1:]))
    assert "was started differently, or by another version of handloom: model, task of the model differ" in refusal(
        config=lambda t: {**t.config, "model": {**t.config["model"], "nhead": 4}, "task": "another"}
    )
    assert "data are not those" in refusal(data={"pairs": 150})
    assert (straight / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("resume", "steps", "stop_at", "message"),
    [
        (True, 20, None, "is already at step 24: give at least steps=24"),
        (True, 40, 24, r"stop_at=24: the run is at step 24 of 40\. Use 25 to 40\."),
        (True, 40, 41, "stop_at=41: the run is at step 24 of 40"),
        (True, 24, 25, r"stop_at=25: the run is at step 24 of 24\. Leave it out\."),
        (False, 40, 41, "stop_at=41: the run is at step 0 of 40"),
    ],
)
def test_steps_that_a_run_has_behind_it_or_never_reaches(straight, tmp_path, resume, steps, stop_at, message) -> None:
    before = (straight / "metrics.jsonl").read_bytes()
    with pytest.raises(InputError, match=message):
        small_run(straight if resume else tmp_path / "run", resume=resume, steps=steps, stop_at=stop_at)
    assert (straight / "metrics.jsonl").read_bytes() == before


def test_a_run_that_goes_on_with_another_number_of_batches_an_update_says_so(tmp_path) -> None:
    lines: list[str] = []

    class Lines(Callback):
        def on_message(self, trainer: Trainer, text: str) -> None:
            lines.append(text)

    small_run(tmp_path / "run", steps=10, accumulate=3)
    small_run(tmp_path / "run", steps=12, accumulate=2, resume=True, callbacks=[Lines()])
    assert lines == [
        "resumed after step 10",
        "the result of the first 10 steps is kept as model-10.safetensors",
        "an update used 3 batches so far, and uses 2 with this number of processes",
    ]


def test_a_schedule_that_depends_on_the_steps_makes_a_longer_run_another_one_which_is_said(tmp_path, capsys) -> None:
    small_run(tmp_path / "run", steps=12, schedule=cosine(0.01, 2, 12))
    small_run(tmp_path / "run", steps=14, schedule=cosine(0.01, 2, 14), resume=True)
    told = "the learning rate of step 12 was 0.001 and would now be 0.0016: a run of 14 steps in a piece differs"
    assert told in capsys.readouterr().out


def test_the_random_numbers_of_a_batch_follow_from_its_position(tmp_path) -> None:
    """They depend only on (seed, epoch, batch, generator), in any order of the batches, and differ between batches."""
    with RunFolder.create(tmp_path / "run", {}) as run:
        trainer: Trainer = small_trainer(run)
    draws = {}
    for position in itertools.product(range(3), range(4)):
        MicroBatch(*position, None).seed(trainer.generators, trainer.progress.seed)
        draws[position] = trainer.generators[0].numpy.random()
    assert len(set(draws.values())) == 12
    MicroBatch(1, 2, None).seed(trainer.generators, trainer.progress.seed)
    assert trainer.generators[0].numpy.random() == draws[1, 2]


def at_call(n: int, number: int, function: Callable) -> Callable:
    """Return the function with its nth call sending the signal `number` to this process."""
    calls = itertools.count(1)

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == n:
            signal.raise_signal(number)
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("update", signal.SIGINT),
        ("update", signal.SIGTERM),
        ("save", signal.SIGINT),
        ("validation", signal.SIGINT),
        ("picture", signal.SIGINT),
        ("averaging", signal.SIGINT),
        ("averaging", signal.SIGTERM),
    ],
)
def test_a_signal_at_any_moment_changes_nothing(straight, tmp_path, monkeypatch, moment, number) -> None:
    options: dict[str, Any] = {}
    if moment == "update":
        options["schedule"] = at_call(11, number, noam(16, 10))
    elif moment == "save":
        monkeypatch.setattr(files.os, "replace", at_call(7, number, os.replace))
    elif moment == "picture":
        monkeypatch.setattr(callbacks, "plot_losses", at_call(1, number, callbacks.plot_losses))
    else:  # called after steps 8, 16 and 24, and for the mean of the last weights
        options["metrics"] = at_call(2 if moment == "validation" else 4, number, lambda model: {})
    with pytest.raises(TrainingStopped, match=r"all saved\. Continue with resume=True") as stop:
        small_run(tmp_path / "run", **options)
    assert stop.value.exit_code == 128 + number
    assert (stop.value.step == STEPS) == (moment == "averaging")
    monkeypatch.undo()
    small_run(tmp_path / "run", resume=True)
    assert_equal_runs(straight, tmp_path / "run")


def test_a_signal_after_the_last_look_is_not_forgotten() -> None:
    def nobody_looks() -> None:
        with StopSignals():
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        nobody_looks()


def test_saves_that_name_a_shared_array_once_and_twice_have_a_mean() -> None:
    once, twice = {"a": np.float32([2.0])}, {"a": np.float32([4.0]), "shared": np.float32([4.0])}
    for states in ([once, twice], [twice, once]):
        assert mean(states) == {"a": np.float32([3.0])}
