"""The tasks of the six examples with --device cuda: steps never wait for the device, and losses agree with the CPU.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.small_run import forbid_waiting, log
from tests.train.tasks.test_task import TEXTS, classification, language_modelling, trained, translation

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]


def translator(folder: Path, changes: dict[str, Any], device: str) -> list[str]:
    return trained(translation(**changes), folder, device=device)[0].translate(TEXTS[:2], beam=2)


def classifier(folder: Path, changes: dict[str, Any], device: str) -> list[str]:
    task = classification(**changes)
    if device == "cuda":  # also train with a teacher
        teacher, _ = trained(classification(steps=1), folder.with_name(f"teacher {folder.name}"), device=device)
        student = folder.with_name(f"student {folder.name}")
        trained(task.with_preset(steps=1), student, teacher=teacher, device=device)
    return trained(task, folder, device=device)[0].predict(TEXTS[:3])


def copying(folder: Path, changes: dict[str, Any], device: str) -> list[str]:
    return translator(folder, {**changes, "copy": True, "coverage_loss": 0.5}, device)


def language_model(folder: Path, changes: dict[str, Any], device: str, kind: str = "") -> list[str]:
    task = language_modelling(**changes, recurrent_size=8)
    if kind:
        task.model = task.preset.recurrent(task.text.tokenizer.vocab_size, kind)
    return [trained(task, folder, device=device)[0].write("red", 6, temperature=0)]


def recurrent(folder: Path, changes: dict[str, Any], device: str) -> list[str]:
    return language_model(folder, changes, device, "gru")


TASKS = [translator, classifier, language_model, recurrent]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_a_task_on_the_device(task: Callable[..., list[str]], precision, cuda, tmp_path: Path, monkeypatch) -> None:
    forbid_waiting(monkeypatch)
    losses = {}
    for device in ("cpu", "cuda"):
        texts = task(tmp_path / device, {"precision": precision, "steps": 4}, device)
        losses[device] = [row["loss"] for row in log(tmp_path / device) if "loss" in row]
        assert all(isinstance(text, str) for text in texts)
    assert losses["cuda"]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-2 if precision == "fp16" else 1e-4)


@pytest.mark.parametrize("task", [*TASKS[1:], copying], ids=lambda task: task.__name__)
def test_a_task_with_graphs_is_that_without(task: Callable[..., list[str]], fake_cupy, tmp_path: Path) -> None:
    rows = []
    for graphs in (False, True):
        folder = tmp_path / str(graphs)
        task(folder, {"precision": "fp16", "graphs": graphs, "steps": 6}, "cuda")
        rows.append([{**row, "tokens_per_second": 0} for row in log(folder)])
    assert rows[0] == rows[1]
