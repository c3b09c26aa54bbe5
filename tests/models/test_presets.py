"""The presets `paper` have the reports' sizes and options; `tests/train/test_sizes.py` counts parameters."""

import dataclasses

import pytest

from handloom.models import LanguageModel, Seq2SeqTransformer, TransformerClassifier, presets

pytestmark = pytest.mark.slow

FULL_SIZE = {"d_model": 512, "nhead": 8, "dim_feedforward": 2048, "dropout": 0.1}
#: The layers of the news report: q, k and v have no biases, and the norm is (x - mean) / (deviation + eps).
NEWS = {
    **FULL_SIZE, "layers": 2, "norm": "layer_std", "bias": "no_qkv", "norm_first": False, "activation": "relu",
    "positions": "sinusoidal", "schedule": "constant", "lr": 1e-4, "optimizer": "adam", "label_smoothing": 0.0,
}  # fmt: skip
STATED = {
    "kth": (
        presets.LANGUAGE_MODEL_PRESETS["paper"],
        {
            "d_model": 368, "nhead": 8, "head_dim": 46, "layers": 5, "dim_feedforward": 4 * 368, "length": 128,
            "batch_size": 32, "lr": 1e-3, "vocab_size": 2000, "norm_first": True, "activation": "relu",
            "bias": "no_qkv", "positions": "sinusoidal", "tied": False, "recurrent_size": 100,
        },
    ),
    "classifier": (
        presets.CLASSIFIER_PRESETS["paper"],
        {**NEWS, "max_length": 32, "batch_size": 64, "epochs": 20, "patience": 3, "weighted": True},
    ),
    "headlines": (presets.SUMMARY_PRESETS["paper"], {**NEWS, "max_length": 64, "tokens_per_batch": 16 * 64}),
    "de-en": (
        presets.PAPER,
        {
            **FULL_SIZE, "layers": 6, "vocab_size": 50_000, "max_length": 64, "optimizer": "adamw",
            "betas": (0.9, 0.98), "eps": 1e-9, "schedule": "noam", "lr_factor": 0.5, "warmup": 4000, "steps": 36_952,
        },
    ),
    "coco": (
        presets.PARAPHRASE_PRESETS["paper"],
        {
            "layers": 3, "d_model": 256, "dim_feedforward": 1024, "nhead": 8, "vocab_size": 30_000,
            "betas": (0.9, 0.98), "tied": True,
        },
    ),
    "en-fr": (
        presets.EN_FR_PRESETS["paper"],
        {"layers": 6, "d_model": 256, "nhead": 8, "dropout": 0.1, "dim_feedforward": 2 * 256},
    ),
}  # fmt: skip


@pytest.mark.parametrize("report", STATED)
def test_what_the_reports_state(report: str) -> None:
    preset, stated = STATED[report]
    assert {name: getattr(preset, name) for name in stated} == stated


@pytest.mark.parametrize("data", ["embedded", "real"])
@pytest.mark.parametrize("name", presets.PRESET_NAMES)
def test_every_preset_builds_its_model(name: str, data: str) -> None:
    def small(preset):  # the same shape with few tokens, so that no table takes hundreds of megabytes
        return dataclasses.replace(preset, vocab_size=50)

    for choose in (presets.translation_preset, presets.summary_preset, presets.paraphrase_preset, presets.en_fr_preset):
        assert Seq2SeqTransformer(small(choose(name, data)).model_config(50, 0)).parameter_count() > 0
    TransformerClassifier(presets.classifier_preset(name, data).model_config(50, 3, 0))
    LanguageModel(presets.language_model_preset(name, data).transformer(50))
