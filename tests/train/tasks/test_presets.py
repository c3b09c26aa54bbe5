"""Models of the size of the presets `paper` can be trained; plain and quick implementations make equal steps."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import plain
from handloom.models import presets
from handloom.train.data.captions import caption_pairs, scenes
from handloom.train.data.news import articles
from handloom.train.data.running_text import TextData
from handloom.train.optim.optimizers import Adam
from handloom.train.tasks.classification import Classification
from handloom.train.tasks.language_modelling import LanguageModelling, learn_tokens, tokenize
from handloom.train.tasks.task import Task
from handloom.train.tasks.translation import Translation
from tests.support.small_run import log
from tests.train.tasks.test_task import trained

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

OF_PAIRS = (presets.paraphrase_preset, presets.en_fr_preset, presets.summary_preset, presets.translation_preset)


def translator(preset: Any, **changes: Any) -> Task[Any, Any]:
    pairs = caption_pairs(list(itertools.islice(scenes(0), 60)))
    return Translation(pairs[:-5], pairs[-5:], preset=dataclasses.replace(preset, steps=2, **changes))


def language_model(preset: Any, **changes: Any) -> Task[Any, Any]:
    text = "The cat sat on the mat, and the dog ran to the old house by the river. " * 40
    data = TextData(text, text[:400], text[:400], "text")
    tokens = tokenize(data, learn_tokens(data, "character", 0))
    return LanguageModelling(tokens, preset=dataclasses.replace(preset, steps=2, valid_tokens=100, **changes))


def classifier(preset: Any, **changes: Any) -> Task[Any, Any]:
    pairs = [(article.headline, article.category) for article in itertools.islice(articles(0), 130)]
    return Classification(pairs[:-5], pairs[-5:], preset=dataclasses.replace(preset, steps=2, **changes))


@pytest.mark.parametrize(
    ("make", "choose", "changes"),
    [
        (translator, presets.summary_preset, {"tokens_per_batch": 64}),
        # One of the six layers of 512 features is enough: each layer takes a second.
        (translator, presets.translation_preset, {"tokens_per_batch": 64, "layers": 1}),
        (language_model, presets.language_model_preset, {"batch_size": 2}),
        (classifier, presets.classifier_preset, {}),
    ],
)
def test_a_model_of_the_reports_size_can_be_trained_and_saved(make, choose, changes, tmp_path: Path) -> None:
    """Two updates log finite losses, and the saved weights equal the model's weights."""
    paper = choose("paper", "embedded")
    task = make(paper, **changes)
    made, _ = trained(task, tmp_path / "run")
    losses = [row["loss"] for row in log(tmp_path / "run") if "loss" in row]
    assert losses
    assert all(map(math.isfinite, losses))
    assert (made.model.config.d_model, made.model.config.nhead) == (paper.d_model, paper.nhead)
    own, saved = made.model.state_dict(), task.trained.load(tmp_path / "run").model.state_dict()
    np.testing.assert_equal(own, saved)


def steps(task: Task[Any, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Train, and return the float32 gradients of the first update and the logged losses."""
    gradients: list[np.ndarray] = []

    def step(self: Adam) -> None:
        if not gradients:
            gradients.extend(parameter.grad.copy() for parameter in self.parameters if parameter.grad is not None)
        original(self)

    original = Adam.step
    with monkeypatch.context() as patched:
        patched.setattr(Adam, "step", step)
        trained(task, folder)
    return gradients, [row["loss"] for row in log(folder) if "loss" in row]


@pytest.mark.parametrize(
    ("make", "choose"),
    [
        *((translator, choose) for choose in OF_PAIRS),
        (language_model, presets.language_model_preset),
        (classifier, presets.classifier_preset),
    ],
)
def test_a_training_step_with_plain_implementations_is_the_same(
    make: Callable[..., Task[Any, Any]], choose: Callable[..., Any], tmp_path: Path, monkeypatch: Any
) -> None:
    changes = {"dropout": 0.1, **({"tokens_per_batch": 200} if make is translator else {})}
    task = make(choose("smoke", "embedded"), **changes)
    quick, losses = steps(task, tmp_path / "quick", monkeypatch)
    with plain():
        own, plain_losses = steps(task, tmp_path / "plain", monkeypatch)
    assert losses
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-4)  # the second follows an update by Adam
    assert len(quick) == len(own) > 10
    largest = max(np.abs(g).max() for g in own)
    for a, b in zip(quick, own, strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(np.abs(b).max(), 0.01 * largest))
    assert any((a != b).any() for a, b in zip(quick, own, strict=True))  # so other implementations ran
