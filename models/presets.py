"""Presets of hyperparameters for each report's model: `smoke`, `laptop`, and `paper` with the report's values."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from ..kinds import one_of
from .hyperparameters import ClassifierPreset, LanguageModelPreset, TranslationPreset

PRESET_NAMES = ("smoke", "laptop", "paper")

#: A run of a few seconds, which shows that everything works but learns little.
SMOKE = TranslationPreset(
    vocab_size=600, d_model=32, nhead=2, layers=1, dim_feedforward=64, dropout=0.0,
    tokens_per_batch=1024, steps=30, warmup=20, validate_every=15,
)  # fmt: skip

#: The embedded grammar on a laptop: a run takes minutes.
LAPTOP_EMBEDDED = TranslationPreset(
    vocab_size=1200, d_model=128, nhead=4, layers=2, dim_feedforward=512, dropout=0.0, label_smoothing=0.05,
    tokens_per_batch=1024, steps=1500, schedule="linear", lr=3e-3, warmup=150, norm_first=True,
)  # fmt: skip

#: Hundreds of thousands of real sentence pairs, such as Tatoeba, on a laptop: a run takes twenty minutes.
LAPTOP = TranslationPreset(
    vocab_size=6000, d_model=256, nhead=4, layers=3, dim_feedforward=512, dropout=0.2,
    tokens_per_batch=1024, steps=4000, schedule="linear", lr=2e-3, warmup=600, norm_first=True, validate_every=250,
)  # fmt: skip

#: The 29,000 pairs of Multi30k in the same time. With half the width the model sees each pair twice as often.
LAPTOP_MULTI30K = TranslationPreset(
    vocab_size=6000, d_model=128, nhead=4, layers=3, dim_feedforward=512, dropout=0.15,
    tokens_per_batch=1024, steps=7500, schedule="linear", lr=3e-3, warmup=300, norm_first=True, validate_every=500,
)  # fmt: skip

#: The German-English report's base model: vocabulary 50,000, length 64, AdamW 0.9/0.98, eps 1e-9, half of Noam's rate
#: with a warm-up of 4,000, norms that divide by (deviation + eps), and 36,952 updates of 128 sentences.
PAPER = TranslationPreset(
    vocab_size=50_000, d_model=512, nhead=8, layers=6, dim_feedforward=2048, dropout=0.1, norm="layer_std",
    max_length=64, tokens_per_batch=128 * 64, pairs_per_batch=128, steps=36_952,
    optimizer="adamw", lr_factor=0.5, warmup=4000, validate_every=1000,
)  # fmt: skip

#: German into English.
TRANSLATION_PRESETS = {
    "smoke": SMOKE, "laptop embedded": LAPTOP_EMBEDDED, "laptop multi30k": LAPTOP_MULTI30K, "laptop": LAPTOP,
    "paper": PAPER,
}  # fmt: skip

#: Descriptions into headlines: the embedded articles, tens of thousands of HuffPost articles, and the report's model.
SUMMARY_PRESETS = {
    "smoke": dataclasses.replace(SMOKE, max_length=48, test_size=50),
    "laptop embedded": TranslationPreset(
        vocab_size=700, d_model=128, nhead=4, layers=2, dim_feedforward=256, dropout=0.05, label_smoothing=0.05,
        tokens_per_batch=1536, steps=600, warmup=200, lr_factor=2.0, norm_first=True,
    ),
    "laptop": TranslationPreset(
        vocab_size=8000, d_model=256, nhead=4, layers=2, dim_feedforward=512, dropout=0.2, positions="rotary",
        tokens_per_batch=1536, steps=4000, schedule="linear", lr=1.5e-3, warmup=500, norm_first=True,
        validate_every=250,
    ),
    # The news report's encoder-decoder: d 512, 8 heads, 2 + 2 layers, 64 tokens, Adam at 1e-4, 5 epochs of 50,000
    # articles in batches of 16, and words in lower case without punctuation.
    "paper": TranslationPreset(
        words=True, vocab_size=30_000, d_model=512, nhead=8, layers=2, dim_feedforward=2048, dropout=0.1,
        norm="layer_std", bias="no_qkv", max_length=64, label_smoothing=0.0, tokens_per_batch=16 * 64,
        pairs_per_batch=16, steps=15_625, schedule="constant", lr=1e-4, betas=(0.9, 0.999), eps=1e-8,
        validate_every=3125,
    ),
}  # fmt: skip

#: Captions into other captions: the embedded scenes, COCO on a laptop, and the report's model.
PARAPHRASE_PRESETS = {
    "smoke": dataclasses.replace(SMOKE, max_length=48, test_size=50),
    "laptop embedded": TranslationPreset(
        vocab_size=500, d_model=128, nhead=8, layers=2, dim_feedforward=256, dropout=0.1,
        tokens_per_batch=512, accumulate=2, steps=400, warmup=150, lr_factor=2.0, norm_first=True, validate_every=100,
    ),
    "laptop": TranslationPreset(
        vocab_size=5000, d_model=256, nhead=8, layers=3, dim_feedforward=1024, dropout=0.2,
        tokens_per_batch=1024, accumulate=2, steps=1500, schedule="linear", lr=1.5e-3, warmup=200, norm_first=True,
        validate_every=150,
    ),
    # The paraphrase report: N 3, d 256, d_ff 1024, 8 heads, BPE 30,000, Adam 0.9/0.98; about 74 pairs an update (64 in
    # the report), in four parts; 4.7 epochs of the 414,113 captions of COCO's training part. Its mixed precision,
    # --precision fp16, needs a GPU.
    "paper": TranslationPreset(
        vocab_size=30_000, d_model=256, nhead=8, layers=3, dim_feedforward=1024, dropout=0.1,
        tokens_per_batch=256, accumulate=4, steps=26_000, warmup=4000, max_length=64, validate_every=1000,
    ),
}  # fmt: skip

#: English into French: the embedded grammar, Multi30k or Tatoeba on a laptop, and the report's model.
EN_FR_PRESETS = {
    "smoke": dataclasses.replace(SMOKE, max_length=96, test_size=30),
    "laptop embedded": TranslationPreset(
        vocab_size=700, d_model=128, nhead=4, layers=2, dim_feedforward=256, dropout=0.05, label_smoothing=0.05,
        tokens_per_batch=1536, steps=400, schedule="linear", lr=3e-3, warmup=100, norm_first=True, validate_every=100,
    ),
    "laptop multi30k": LAPTOP_MULTI30K,
    "laptop": LAPTOP,
    # The English-French report: d 256, 6+6 layers, 8 heads, feed-forward twice as wide, dropout 0.1, 4 pairs a batch.
    "paper": TranslationPreset(
        vocab_size=16_000, d_model=256, nhead=8, layers=6, dim_feedforward=512, dropout=0.1, max_length=64,
        tokens_per_batch=4 * 64, pairs_per_batch=4, steps=100_000, warmup=4000, validate_every=1000,
    ),
}  # fmt: skip


LANGUAGE_MODEL_PRESETS = {
    "smoke": LanguageModelPreset(
        d_model=32, nhead=2, head_dim=16, layers=1, dim_feedforward=64, dropout=0.0, length=32, batch_size=8,
        steps=30, lr=3e-3, warmup=5, vocab_size=400, recurrent_size=32, recurrent_steps=15, validate_every=15,
        valid_tokens=2_000,
    ),
    # The embedded grammar on a laptop: a run takes minutes.
    "laptop embedded": LanguageModelPreset(
        d_model=128, nhead=4, head_dim=32, layers=3, dim_feedforward=512, dropout=0.0, length=64, batch_size=16,
        steps=800, lr=3e-3, warmup=50, positions="rotary", recurrent_size=128, recurrent_steps=800,
        validate_every=200, valid_tokens=20_000,
    ),
    # The sizes, the rate and the budget of nanoGPT's run of Shakespeare on a CPU, with rotary positions.
    "laptop": LanguageModelPreset(
        d_model=128, nhead=4, head_dim=32, layers=4, dim_feedforward=512, dropout=0.0, length=64, batch_size=12,
        steps=2000, lr=1e-3, warmup=100, recurrent_size=256, recurrent_steps=2000, positions="rotary",
    ),
    # The KTH report's model: context 128, 5 layers, 8 heads of 46, positions without parameters; batches of 32 at a
    # rate of 0.001, as in its Table 1. Its RNN reads one-hot characters.
    "paper": LanguageModelPreset(
        d_model=368, nhead=8, head_dim=46, layers=5, dim_feedforward=1472, dropout=0.2, length=128, batch_size=32,
        steps=5000, lr=1e-3, warmup=100, recurrent_size=100, recurrent_embedding=False, recurrent_steps=5000,
        activation="relu", bias="no_qkv", positions="sinusoidal",
    ),
}  # fmt: skip


def kth_cell(heads: int, head_dim: int) -> dict[str, int]:
    """Return the changes to the preset `paper` for one model of the KTH report's Table 1, which has one layer."""
    d_model = heads * head_dim
    return {"nhead": heads, "head_dim": head_dim, "d_model": d_model, "dim_feedforward": 4 * d_model, "layers": 1}


CLASSIFIER_PRESETS = {
    "smoke": ClassifierPreset(
        vocab_size=300, d_model=32, nhead=2, layers=1, dim_feedforward=64, dropout=0.0, batch_size=64, epochs=1,
        lr=2e-3,
    ),
    "laptop embedded": ClassifierPreset(
        vocab_size=1000, d_model=64, nhead=4, layers=2, dim_feedforward=128, dropout=0.1, batch_size=64, epochs=4,
        lr=1e-3, warmup=50,
    ),
    # Tens of thousands of HuffPost headlines. The learning rate falls to zero, so early stopping is not needed.
    "laptop": ClassifierPreset(
        vocab_size=12_000, d_model=128, nhead=8, layers=2, dim_feedforward=256, dropout=0.3, batch_size=64, epochs=10,
        schedule="linear", lr=1e-3, warmup=200, min_frequency=2, pooling="mean", token_dropout=0.3,
        label_smoothing=0.1, patience=None,
    ),
    # The news report's classifier: 2 layers, d 512, 8 heads, 32 tokens, no <bos>, Adam 1e-4, batch 64, 20 epochs, early
    # stopping after 3.
    "paper": ClassifierPreset(
        vocab_size=50_000, d_model=512, nhead=8, layers=2, dim_feedforward=2048, dropout=0.1, norm="layer_std",
        bias="no_qkv", max_length=32, bos=False, batch_size=64, epochs=20, lr=1e-4,
    ),
}  # fmt: skip


def _chosen(presets: dict[str, Any], name: str, data: str) -> Any:
    """Return the preset `smoke`, `laptop` or `paper`; `laptop` may depend on the data set."""
    known = [one for one in presets if " " not in one]
    return presets.get(f"{name} {data}", presets[one_of("the name of the preset", name, known)])


translation_preset: Callable[[str, str], TranslationPreset] = partial(_chosen, TRANSLATION_PRESETS)
summary_preset: Callable[[str, str], TranslationPreset] = partial(_chosen, SUMMARY_PRESETS)
paraphrase_preset: Callable[[str, str], TranslationPreset] = partial(_chosen, PARAPHRASE_PRESETS)
en_fr_preset: Callable[[str, str], TranslationPreset] = partial(_chosen, EN_FR_PRESETS)
language_model_preset: Callable[[str, str], LanguageModelPreset] = partial(_chosen, LANGUAGE_MODEL_PRESETS)
classifier_preset: Callable[[str, str], ClassifierPreset] = partial(_chosen, CLASSIFIER_PRESETS)
