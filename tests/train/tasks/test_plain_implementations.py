"""The six reports' models make the same training steps by the ops' quick implementations and by the plain ones."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import manual_seed, plain
from handloom.models.presets import (
    classifier_preset,
    en_fr_preset,
    language_model_preset,
    paraphrase_preset,
    summary_preset,
    translation_preset,
)
from handloom.train.data.captions import caption_pairs, scenes
from handloom.train.data.news import articles
from handloom.train.data.running_text import TextData
from handloom.train.optim.optimizers import Adam
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.classification import Classification
from handloom.train.tasks.language_modelling import LanguageModelling, learn_tokens, tokenize
from handloom.train.tasks.task import Task, train_model
from handloom.train.tasks.translation import Translation


def translator(choose: Callable[..., Any]) -> Callable[[], Task[Any, Any]]:
    def make() -> Task[Any, Any]:
        pairs = caption_pairs(list(itertools.islice(scenes(0), 60)))
        preset = dataclasses.replace(choose("smoke", "embedded"), tokens_per_batch=200, dropout=0.1, steps=2)
        return Translation(pairs[:-5], pairs[-5:], preset=preset)

    return make


def language_model() -> Task[Any, Any]:
    preset = dataclasses.replace(language_model_preset("smoke", "embedded"), dropout=0.1, valid_tokens=100, steps=2)
    text = "The cat sat on the mat, and the dog ran to the old house by the river. " * 40
    data = TextData(text, text[:400], text[:400], "text", "")
    return LanguageModelling(tokenize(data, learn_tokens(data, "character", 0)), preset=preset)


def classifier() -> Task[Any, Any]:
    preset = dataclasses.replace(classifier_preset("smoke", "embedded"), dropout=0.1, steps=2)
    pairs = [(article.headline, article.category) for article in itertools.islice(articles(0), 130)]
    return Classification(pairs[:-5], pairs[-5:], preset=preset)


MODELS: dict[str, Callable[[], Task[Any, Any]]] = {
    "paraphrase": translator(paraphrase_preset),
    "en-fr": translator(en_fr_preset),
    "summary": translator(summary_preset),
    "de-en": translator(translation_preset),
    "language model": language_model,
    "classifier": classifier,
}


def steps(make: Callable[[], Task[Any, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The gradients of the first update in float32, and the logged losses."""
    gradients: list[np.ndarray] = []

    def step(self: Adam) -> None:
        if not gradients:
            gradients.extend(parameter.grad.copy() for parameter in self.parameters if parameter.grad is not None)
        original(self)

    original = Adam.step
    with monkeypatch.context() as patched:
        patched.setattr(Adam, "step", step)
        manual_seed(0)
        with RunFolder.create(folder, {}) as run:
            train_model(make(), run, seed=0, say=lambda text: None)
            return gradients, [row["loss"] for row in run.metrics() if "loss" in row]


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_with_plain_implementations_is_the_same(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    quick, losses = steps(MODELS[name], tmp_path / "quick", monkeypatch)
    with plain():
        own, plain_losses = steps(MODELS[name], tmp_path / "plain", monkeypatch)
    assert losses
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-4)  # the second after an update by Adam
    assert len(quick) == len(own) > 10
    largest = max(np.abs(g).max() for g in own)
    for a, b in zip(quick, own, strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(np.abs(b).max(), 0.01 * largest))
    assert any((a != b).any() for a, b in zip(quick, own, strict=True))  # other forms have served, then
