"""The tasks of the six examples with --device cuda: steps never wait for the device, and losses agree with the CPU.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.task import train_model
from tests.support.small_run import forbid_waiting

from .test_task import TEXTS, classification, language_modelling, translation

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]


def translator(run: RunFolder, changes: dict[str, Any], **options: Any) -> list[str]:
    return train_model(translation(**changes), run, **options).translate(TEXTS[:2], beam=2)


def classifier(run: RunFolder, changes: dict[str, Any], **options: Any) -> list[str]:
    task = classification(**changes)
    if options["device"] == "cuda":  # also train with a teacher
        with RunFolder.create(run.path / "teacher", {}) as own:
            teacher = train_model(classification(steps=1), own, **options)
        with RunFolder.create(run.path / "student", {}) as own:
            train_model(task.with_preset(steps=1), own, teacher=teacher, **options)
        manual_seed(0)
    return train_model(task, run, **options).predict(TEXTS[:3])


def copying(run: RunFolder, changes: dict[str, Any], **options: Any) -> list[str]:
    return translator(run, {**changes, "copy": True, "coverage_loss": 0.5}, **options)


def language_model(run: RunFolder, changes: dict[str, Any], kind: str = "", **options: Any) -> list[str]:
    task = language_modelling(**changes, recurrent_size=8)
    if kind:
        task.model = task.preset.recurrent(task.text.tokenizer.vocab_size, kind)
    return [train_model(task, run, **options).write("red", 6, temperature=0)]


def recurrent(run: RunFolder, changes: dict[str, Any], **options: Any) -> list[str]:
    return language_model(run, changes, "gru", **options)


TASKS = [translator, classifier, language_model, recurrent]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_a_task_on_the_device(task: Callable[..., list[str]], precision, cuda, tmp_path: Path, monkeypatch) -> None:
    forbid_waiting(monkeypatch)
    losses = {}
    for device in ("cpu", "cuda"):
        manual_seed(0)
        with RunFolder.create(tmp_path / device, {}) as run:
            changes = {"precision": precision, "steps": 4}
            texts = task(run, changes, seed=0, device=device, say=lambda text: None)
            losses[device] = [row["loss"] for row in run.metrics() if "loss" in row]
        assert all(isinstance(text, str) for text in texts)
    assert losses["cuda"]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-2 if precision == "fp16" else 1e-4)


@pytest.mark.parametrize("task", [*TASKS[1:], copying], ids=lambda task: task.__name__)
def test_a_task_with_graphs_is_that_without(task: Callable[..., list[str]], fake_cupy, tmp_path: Path) -> None:
    rows = []
    for graphs in (False, True):
        manual_seed(0)
        with RunFolder.create(tmp_path / str(graphs), {}) as run:
            changes = {"precision": "fp16", "graphs": graphs, "steps": 6}
            task(run, changes, seed=0, device="cuda", say=lambda text: None)
            rows.append([{**row, "tokens_per_second": 0} for row in run.metrics()])
    assert rows[0] == rows[1]
