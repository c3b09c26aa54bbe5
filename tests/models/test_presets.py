"""The reports' models have the stated sizes."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from handloom.models import LanguageModel, Seq2SeqTransformer, TransformerClassifier
from handloom.models.presets import (
    CLASSIFIER_PRESETS,
    EN_FR_PRESETS,
    LANGUAGE_MODEL_PRESETS,
    PAPER,
    PARAPHRASE_PRESETS,
    PRESET_NAMES,
    classifier_preset,
    en_fr_preset,
    language_model_preset,
    paraphrase_preset,
    summary_preset,
    translation_preset,
)


@pytest.mark.parametrize(("vocab_size", "stated"), [(83, 8.2e6), (2000, 9.6e6)])
def test_kth_language_models(vocab_size: int, stated: float) -> None:
    """Characters and BPE 2,000; the report gives two digits."""
    model = LanguageModel(LANGUAGE_MODEL_PRESETS["paper"].transformer(vocab_size))
    assert model.parameter_count() == pytest.approx(stated, rel=0.01)


@pytest.mark.parametrize("vocab_size", [83, 2000])
def test_kth_models_with_other_heads(vocab_size: int) -> None:
    """Twelve cells: what counts is heads times head size, which each projection has as features."""
    preset = LANGUAGE_MODEL_PRESETS["paper"]
    d, layers = preset.d_model, preset.layers
    feed_forward = 2 * d * preset.dim_feedforward + preset.dim_feedforward + d
    around = vocab_size * (2 * d + 1) + preset.length * d + 2 * d
    for heads, size in itertools.product((1, 2, 4, 8), (11, 23, 46)):
        inner = heads * size
        attention = 3 * inner * (d + 1) + inner * d + d
        model = LanguageModel(preset.transformer(vocab_size, nhead=heads, head_dim=size))
        assert model.parameter_count() == around + layers * (attention + feed_forward + 4 * d)


def test_german_english_base_model() -> None:
    """70 million with one table of 50,000 tokens."""
    assert Seq2SeqTransformer(PAPER.model_config(50_000, 0)).parameter_count() == pytest.approx(70e6, rel=0.01)


def test_stated_sizes() -> None:
    coco, french, news = PARAPHRASE_PRESETS["paper"], EN_FR_PRESETS["paper"], CLASSIFIER_PRESETS["paper"]
    assert (coco.layers, coco.d_model, coco.dim_feedforward, coco.nhead, coco.vocab_size) == (3, 256, 1024, 8, 30_000)
    assert coco.betas == (0.9, 0.98)
    assert (french.layers, french.d_model, french.nhead, french.dropout) == (6, 256, 8, 0.1)
    assert french.dim_feedforward == 2 * french.d_model
    assert (news.layers, news.d_model, news.nhead, news.batch_size, news.lr, news.patience) == (2, 512, 8, 64, 1e-4, 3)


@pytest.mark.parametrize("data", ["embedded", "real"])
@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_builds_its_model(name: str, data: str) -> None:
    def small(preset):  # the same shape with few tokens, so that no table takes hundreds of megabytes
        return dataclasses.replace(preset, vocab_size=50)

    for choose in (translation_preset, summary_preset, paraphrase_preset, en_fr_preset):
        assert Seq2SeqTransformer(small(choose(name, data)).model_config(50, 0)).parameter_count() > 0
    TransformerClassifier(classifier_preset(name, data).model_config(50, 3, 0))
    LanguageModel(language_model_preset(name, data).transformer(50))
