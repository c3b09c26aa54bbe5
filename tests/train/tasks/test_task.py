"""The common behaviour of all tasks, tested for each of the three tasks."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.errors import InputError
from handloom.models.presets import CLASSIFIER_PRESETS, LANGUAGE_MODEL_PRESETS, SMOKE
from handloom.train.data.running_text import TextData
from handloom.train.distributed import ProcessGroup
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import TrainingStopped
from handloom.train.tasks import task as task_module
from handloom.train.tasks.classification import Classification
from handloom.train.tasks.language_modelling import LanguageModelling, learn_tokens, tokenize
from handloom.train.tasks.task import Task, choose_tokenizer, train_model
from handloom.train.tasks.translation import Translation

pytestmark = pytest.mark.usefixtures("quick_pictures")

WORDS = ["red", "green", "dog", "cat", "sleeps", "runs"]
TEXTS = [" ".join(WORDS[i % k] for i in range(k, 2 * k)) for k in (2, 3, 4, 5, 6)] * 6


def translation(**changes: Any) -> Task[Any, Any]:
    pairs = [(text, text) for text in TEXTS]
    preset = dataclasses.replace(SMOKE, tokens_per_batch=64, vocab_size=290, **{"steps": 2, **changes})
    return Translation(pairs, pairs[:5], preset=preset, name="turning")


def classification(**changes: Any) -> Task[Any, Any]:
    pairs = [(text, "short" if len(text) < 20 else "long") for text in TEXTS]
    preset = dataclasses.replace(CLASSIFIER_PRESETS["smoke"], batch_size=8, **{"steps": 2, **changes})
    return Classification(pairs, pairs[:5], preset=preset, name="lengths")


def language_modelling(**changes: Any) -> Task[Any, Any]:
    data = TextData(*([" ".join(TEXTS)] * 3), "text")
    text = tokenize(data, learn_tokens(data, "character", 0))
    preset = dataclasses.replace(LANGUAGE_MODEL_PRESETS["smoke"], length=12, batch_size=4, **{"steps": 2, **changes})
    return LanguageModelling(text, preset=preset, name="text")


MAKERS = (translation, classification, language_modelling)
TASKS = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def trained(task: Task[Any, Any], folder: Path, **options: Any) -> tuple[Any, list[str]]:
    """Train, and return the result of the task and the lines passed to `say`."""
    manual_seed(0)
    said: list[str] = []
    with RunFolder.create(folder, {}) as run:
        return train_model(task, run, seed=0, say=said.append, **options), said


@TASKS
def test_epochs_are_said_for_all_batches_of_an_update(make: Callable[..., Task[Any, Any]], tmp_path: Path) -> None:
    _, said = trained(make(accumulate=2), tmp_path / "two")
    assert "2 steps, " in said[0]
    assert make is not classification or ", 1.0 epochs" in said[0], "each update uses two of the four batches"
    assert said[-1].startswith("best validation loss " if make is not classification else "best valid_accuracy: ")


@TASKS
def test_a_teacher_goes_to_the_gpu_of_its_process_and_its_tokenizer_is_used(
    make: Callable[..., Task[Any, Any]], tmp_path: Path, monkeypatch
) -> None:
    """If mpirun has started several processes on a machine, "cuda" is a different GPU for each process."""
    task = make()
    teacher, _ = trained(task, tmp_path / "teacher")
    local_device = Mock(return_value="cpu")
    monkeypatch.setattr(task_module, "local_device", local_device)
    monkeypatch.setattr(type(task), "make_tokenizer", lambda self: pytest.fail("a tokenizer was trained"))
    student, _ = trained(task, tmp_path / "student", device="cuda", teacher=teacher)
    assert student.tokenizer is teacher.tokenizer
    assert local_device.call_args_list == [call("cuda"), call("cuda")], "the device of the model and of the teacher"


@pytest.mark.parametrize(("steps", "most", "expected"), [(500, 2, 2), (500, None, 3), (1, 2, 1)])
def test_the_steps_of_a_preset_are_reduced_to_a_number_of_epochs(tmp_path, monkeypatch, steps, most, expected) -> None:
    """Only if the caller says so."""
    task = translation(steps=steps).with_preset(tokens_per_batch=4096)
    manual_seed(0)
    said: list[str] = []
    with RunFolder.create(tmp_path / "run", {}) as run:
        if most is None:
            with pytest.raises(TrainingStopped):
                train_model(task, run, seed=0, say=said.append, stop_at=3)
        else:
            monkeypatch.setattr(task_module, "MOST_EPOCHS", most)
            train_model(task, run, seed=0, say=said.append, bounded=True)
        assert max((row["step"] for row in run.metrics()), default=3) == expected
    assert any("2 steps instead of 500: 2 epochs of these data" in line for line in said) == (most == 2 < steps)
    assert any("30 pairs are far too few" in line for line in said) == (most is not None)


def test_a_run_that_was_killed_before_its_tokenizer_is_started_again(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(InputError, match=r"run ended before its first save, so there is nothing to resume\. Start it"):
        choose_tokenizer(run, True, None, lambda: None)
    run.close()


@TASKS
def test_the_first_process_alone_writes_the_tokenizer(
    make: Callable[..., Task[Any, Any]], tmp_path: Path, monkeypatch
) -> None:
    class Second(ProcessGroup):
        """Rank 1 of two ranks. The first value from rank 0 is `learnt`."""

        rank, size = 1, 2

        def __init__(self) -> None:
            self.asked = 0

        def from_first(self, make: Callable[[], Any]) -> Any:
            self.asked += 1
            if self.asked == 1:
                return learnt
            raise InterruptedError  # the test ends here, before the trainer is made

    task = make()
    learnt = task.make_tokenizer()
    run = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(InterruptedError):
        train_model(task, run, seed=0, group=Second(), say=lambda text: None)
    assert not run.tokenizer_path.exists()


@TASKS
def test_what_a_run_leaves_is_loaded_by_what_it_was_trained_for(
    make: Callable[..., Task[Any, Any]], tmp_path: Path
) -> None:
    task = make()
    made, _ = trained(task, tmp_path / "run")
    loaded = task.trained.load(tmp_path / "run", [task.name])
    assert type(loaded) is type(made)
    assert not loaded.model.training
    np.testing.assert_equal(loaded.model.state_dict(), made.model.state_dict())
