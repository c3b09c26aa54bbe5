"""Named sets of hyperparameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from .baselines import RecurrentConfig
from .classifier import ClassifierConfig
from .language_model import LanguageModelConfig
from .seq2seq import Seq2SeqConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """What the runs of all reports have in common: the Transformer's sizes and options, optimiser and schedule."""

    vocab_size: int
    d_model: int
    nhead: int
    layers: int  # of the encoder, and as many of a decoder beside it
    dim_feedforward: int
    dropout: float
    norm_first: bool = False
    activation: str = "relu"  # one of `nn.feed_forward.ACTIVATIONS`
    positions: str = "sinusoidal"  # one of `nn.POSITIONS`
    pattern: str = "full"  # of self-attention: "local:16" or "strided:16", see `nn.sparse`
    label_smoothing: float = 0.0
    schedule: str = "noam"  # or "constant", "linear", "cosine", with the peak `lr`
    lr: float = 0.0
    lr_factor: float = 1.0  # of Noam's schedule
    warmup: int = 0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0  # of matrices, decoupled
    clip_norm: float | None = 1.0

    def _shared(self, *names: str) -> dict[str, Any]:
        """What a model's configuration takes by the same names as this preset has it."""
        always = ("d_model", "nhead", "dim_feedforward", "dropout", "norm_first", "activation", "positions", "pattern")
        return {name: getattr(self, name) for name in (*always, *names)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationPreset(Preset):
    """What a run of an encoder-decoder is made of: vocabulary, model, batches, optimiser (Adam) and its schedule."""

    tokens_per_batch: int
    steps: int
    tied: bool = True  # one table for source, target and output layer
    max_length: int = 128
    label_smoothing: float = 0.1
    validate_every: int = 200
    accumulate: int = 1  # batches an update
    test_size: int | None = None  # texts that the examples evaluate on; all if None

    def model_config(self, vocab_size: int, pad_id: int) -> Seq2SeqConfig:
        """The model for a vocabulary of `vocab_size` tokens (it may be smaller than what was asked for)."""
        return Seq2SeqConfig(
            source_vocab_size=vocab_size,
            target_vocab_size=vocab_size,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            pad_id=pad_id,
            share_embeddings=self.tied,
            tie_output=self.tied,
            **self._shared("max_length"),
        )


#: A few seconds: shows that everything works, learns little.
SMOKE = TranslationPreset(
    vocab_size=600, d_model=32, nhead=2, layers=1, dim_feedforward=64, dropout=0.0,
    tokens_per_batch=1024, steps=30, warmup=20, validate_every=15,
)  # fmt: skip

#: The embedded grammar on a laptop: minutes.
LAPTOP_EMBEDDED = TranslationPreset(
    vocab_size=1200, d_model=128, nhead=4, layers=2, dim_feedforward=512, dropout=0.0, label_smoothing=0.05,
    tokens_per_batch=1024, steps=1500, schedule="linear", lr=3e-3, warmup=150, norm_first=True,
)  # fmt: skip

#: Real sentence pairs by the ten thousands, such as Multi30k, on a laptop: some twenty minutes.
LAPTOP = TranslationPreset(
    vocab_size=6000, d_model=256, nhead=4, layers=3, dim_feedforward=512, dropout=0.2,
    tokens_per_batch=1024, steps=4000, schedule="linear", lr=2e-3, warmup=600, norm_first=True, validate_every=250,
)  # fmt: skip

#: The German-English report's base model: vocabulary 50,000, length 64, warm-up 4,000, Adam 0.9/0.98, eps 1e-9.
PAPER = TranslationPreset(
    vocab_size=50_000, d_model=512, nhead=8, layers=6, dim_feedforward=2048, dropout=0.1,
    tokens_per_batch=8192, steps=100_000, warmup=4000, max_length=64, validate_every=1000,
)  # fmt: skip


def translation_preset(name: str, data: str) -> TranslationPreset:
    """The preset `smoke`, `laptop` or `paper`; the laptop's size depends on the data (`embedded` or real)."""
    if name == "laptop":
        return LAPTOP_EMBEDDED if data == "embedded" else LAPTOP
    return {"smoke": SMOKE, "paper": PAPER}[name]


#: Descriptions into headlines: the embedded articles, HuffPost's by the ten thousands, and the report's model.
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
    # The news report's encoder-decoder: d 512, 8 heads, batch 64.
    "paper": TranslationPreset(
        vocab_size=30_000, d_model=512, nhead=8, layers=2, dim_feedforward=2048, dropout=0.1,
        tokens_per_batch=4096, steps=20_000, warmup=4000, validate_every=1000,
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
    # The paraphrase report: N 3, d 256, d_ff 1024, 8 heads, BPE 30,000, Adam 0.9/0.98; about 64 pairs an update, in
    # four parts; 4 epochs of COCO's 414,113 training captions.
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
    "laptop": LAPTOP,
    # The English-French report: d 256, 6+6 layers, 8 heads, feed-forward twice as wide, dropout 0.1.
    "paper": TranslationPreset(
        vocab_size=16_000, d_model=256, nhead=8, layers=6, dim_feedforward=512, dropout=0.1,
        tokens_per_batch=2048, steps=100_000, warmup=4000, validate_every=1000,
    ),
}  # fmt: skip


def _sized(presets: dict[str, Any], name: str, data: str) -> Any:
    """The preset of this name; `laptop` has another size for the embedded data."""
    return presets["laptop embedded" if (name, data) == ("laptop", "embedded") else name]


def summary_preset(name: str, data: str) -> TranslationPreset:
    """As `translation_preset`, for headlines."""
    return _sized(SUMMARY_PRESETS, name, data)


def paraphrase_preset(name: str, data: str) -> TranslationPreset:
    """As `translation_preset`, for paraphrases."""
    return _sized(PARAPHRASE_PRESETS, name, data)


def en_fr_preset(name: str, data: str) -> TranslationPreset:
    """As `translation_preset`, for English into French."""
    return _sized(EN_FR_PRESETS, name, data)


PRESET_NAMES = ("smoke", "laptop", "paper")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelPreset(Preset):
    """What a run of a language model is made of: model, windows of text, AdamW with a warm-up and half a cosine."""

    vocab_size: int = 2000  # of BPE; characters are as many as the text has
    head_dim: int
    length: int  # of the context, in tokens
    batch_size: int  # windows
    steps: int
    norm_first: bool = True
    activation: str = "gelu"
    positions: str = "learned"
    tied: bool = False  # one table for the embedding and the output layer
    schedule: str = "cosine"
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8
    weight_decay: float = 0.1
    recurrent_size: int = 256
    recurrent_steps: int = 500
    recurrent_lr: float = 2e-3
    validate_every: int = 250
    valid_tokens: int = 40_000  # of the validation text, for the curve; the figures at the end are of all of it

    def transformer(self, vocab_size: int, **changes: Any) -> LanguageModelConfig:
        """The decoder-only model for a vocabulary of `vocab_size` tokens, with `changes` to its sizes."""
        sizes = {**self._shared("layers", "head_dim"), "max_length": self.length, "tie_output": self.tied}
        return LanguageModelConfig(vocab_size, **{**sizes, **changes})

    def recurrent(self, vocab_size: int, kind: str) -> RecurrentConfig:
        """The baseline of this kind ("rnn", "lstm" or "gru")."""
        return RecurrentConfig(vocab_size, kind, self.recurrent_size, dropout=self.dropout)

    def for_baselines(self) -> LanguageModelPreset:
        """The same run for a recurrent model."""
        return dataclasses.replace(self, steps=self.recurrent_steps, lr=self.recurrent_lr)


LANGUAGE_MODEL_PRESETS = {
    "smoke": LanguageModelPreset(
        d_model=32, nhead=2, head_dim=16, layers=1, dim_feedforward=64, dropout=0.0, length=32, batch_size=8,
        steps=30, lr=3e-3, warmup=5, vocab_size=400, recurrent_size=32, recurrent_steps=15, validate_every=15,
        valid_tokens=2_000,
    ),
    # The embedded grammar on a laptop: minutes.
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
    # The KTH report's model: context 128, 5 layers, 8 heads of 46.
    "paper": LanguageModelPreset(
        d_model=368, nhead=8, head_dim=46, layers=5, dim_feedforward=1472, dropout=0.2, length=128, batch_size=64,
        steps=5000, lr=3e-4, warmup=100, recurrent_size=368, recurrent_steps=5000,
    ),
}  # fmt: skip


def language_model_preset(name: str, data: str) -> LanguageModelPreset:
    """The preset `smoke`, `laptop` or `paper`; the laptop's size depends on the data (`embedded` or real)."""
    return _sized(LANGUAGE_MODEL_PRESETS, name, data)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierPreset(Preset):
    """What a run of a classifier is made of: word vocabulary, model, batches, Adam with a constant rate."""

    batch_size: int
    epochs: int
    max_length: int = 64  # tokens; of a longer text the beginning counts
    min_frequency: int = 1  # of a word in the vocabulary
    schedule: str = "constant"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    patience: int | None = 3  # epochs without a better accuracy before training ends
    weighted: bool = True  # classes by the inverse of their frequency

    def model_config(self, vocab_size: int, classes: int, pad_id: int) -> ClassifierConfig:
        """The model for so many words and classes."""
        return ClassifierConfig(vocab_size, classes, pad_id=pad_id, **self._shared("layers", "max_length"))


CLASSIFIER_PRESETS = {
    "smoke": ClassifierPreset(
        vocab_size=300, d_model=32, nhead=2, layers=1, dim_feedforward=64, dropout=0.0, batch_size=64, epochs=1,
        lr=2e-3,
    ),
    "laptop embedded": ClassifierPreset(
        vocab_size=1000, d_model=64, nhead=4, layers=2, dim_feedforward=128, dropout=0.1, batch_size=64, epochs=4,
        lr=1e-3, warmup=50,
    ),
    # HuffPost headlines by the ten thousands.
    "laptop": ClassifierPreset(
        vocab_size=12_000, d_model=128, nhead=8, layers=2, dim_feedforward=256, dropout=0.3, batch_size=64, epochs=15,
        lr=5e-4, warmup=200, min_frequency=2,
    ),
    # The news report's classifier: 2 layers, d 512, 8 heads, Adam 1e-4, batch 64, early stopping after 3 epochs.
    "paper": ClassifierPreset(
        vocab_size=50_000, d_model=512, nhead=8, layers=2, dim_feedforward=2048, dropout=0.1, batch_size=64,
        epochs=20, lr=1e-4,
    ),
}  # fmt: skip


def classifier_preset(name: str, data: str) -> ClassifierPreset:
    """The preset `smoke`, `laptop` or `paper`; the laptop's size depends on the data (`embedded` or real)."""
    return _sized(CLASSIFIER_PRESETS, name, data)
