"""Each report's own configuration can be trained and saved: two updates at its size, on few tokens at a time."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.models.presets import (
    classifier_preset,
    language_model_preset,
    summary_preset,
    translation_preset,
)
from handloom.train.data.captions import caption_pairs, scenes
from handloom.train.data.news import articles
from handloom.train.data.running_text import TextData
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.classification import Classification, Classifier
from handloom.train.tasks.language_modelling import LanguageModelling, Writer, learn_tokens, tokenize
from handloom.train.tasks.task import train_model
from handloom.train.tasks.translation import Translation, Translator

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

STEPS = 2


@pytest.fixture
def run(tmp_path):
    manual_seed(0)
    with RunFolder.create(tmp_path / "run", {}) as folder:
        yield folder


def check(run: RunFolder, model: Any, loaded: Any) -> None:
    """Losses were logged, and the weights that were saved are the model's."""
    losses = [row["loss"] for row in run.metrics() if "loss" in row]
    assert losses
    assert all(map(math.isfinite, losses))
    own, saved = model.state_dict(), loaded.state_dict()
    assert own.keys() == saved.keys()
    assert all(np.array_equal(own[name], saved[name]) for name in own)


@pytest.mark.parametrize("choose", [summary_preset, translation_preset])
def test_encoder_decoders(choose, run: RunFolder) -> None:
    paper = choose("paper", "embedded")
    preset = dataclasses.replace(paper, tokens_per_batch=64, steps=STEPS)
    if choose is translation_preset:  # six layers of 512 features: a second for each of the six is enough
        preset = dataclasses.replace(preset, layers=1)
    pairs = caption_pairs(list(itertools.islice(scenes(0), 40)))
    made = train_model(Translation(pairs[:-5], pairs[-5:], preset=preset), run, seed=0, say=lambda text: None)
    config = made.model.config
    assert (config.d_model, config.nhead, config.dim_feedforward) == (paper.d_model, paper.nhead, paper.dim_feedforward)
    check(run, made.model, Translator.load(run.path).model)


def test_the_language_model(run: RunFolder) -> None:
    paper = language_model_preset("paper", "embedded")
    preset = dataclasses.replace(paper, batch_size=2, valid_tokens=300, steps=STEPS)
    text = "The cat sat on the mat, and the dog ran to the old house by the river. " * 40
    data = TextData(text, text[:400], text[:400], "text", "")
    tokens = tokenize(data, learn_tokens(data, "character", 0))
    config = preset.transformer(tokens.tokenizer.vocab_size)
    assert (config.layers, config.nhead, config.head_dim, config.max_length) == (5, 8, 46, 128)
    made = train_model(LanguageModelling(tokens, preset=preset), run, seed=0, say=lambda text: None)
    check(run, made.model, Writer.load(run.path).model)


def test_the_classifier(run: RunFolder) -> None:
    preset = dataclasses.replace(classifier_preset("paper", "embedded"), steps=STEPS)
    pairs = [(article.headline, article.category) for article in itertools.islice(articles(0), 130)]
    made = train_model(Classification(pairs[:-5], pairs[-5:], preset=preset), run, seed=0, say=lambda text: None)
    assert (preset.batch_size, made.model.config.d_model, made.model.config.layers) == (64, 512, 2)
    check(run, made.model, Classifier.load(run.path).model)
