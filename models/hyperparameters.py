"""What a training run is made of, one dataclass a task: the sizes of the model, and how it is trained.

A field's annotation says which values it takes, its `setting` what it is for and whether the command line has a flag
for it. `--set`, the flags, their help and their errors are generated from the fields (`train.cli.training`).
"""

# ruff: noqa: RUF009 - `setting` makes a dataclass field

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from ..nn.normalization import NORMS
from ..nn.transformer import BIASES
from .baselines import RecurrentConfig
from .classifier import POOLINGS, ClassifierConfig
from .fields import (
    Activation,
    Choices,
    Count,
    Depth,
    Flag,
    Length,
    NotNegative,
    Pattern,
    Positions,
    Rate,
    Share,
    Size,
    Whole,
    check_fields,
    setting,
)
from .language_model import LanguageModelConfig
from .seq2seq import Seq2SeqConfig

#: Of the learning rate over the steps, see `train.optim.schedules`.
SCHEDULES = ("noam", "constant", "linear", "cosine", "plateau")
#: What every task measures in validation.
METRICS = ("valid_loss", "valid_accuracy")

Schedule = Annotated[str, Choices(SCHEDULES)]
Metric = Annotated[str, Choices(METRICS)]
Betas = tuple[Share, Share]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """What the runs of all tasks have in common: the Transformer's sizes and options, and how it is trained.

    Raises ValueError for a value that its field does not allow, see `fields`.
    """

    vocab_size: Count = setting(help="tokens of the vocabulary, at most")
    d_model: Size = setting(help="features of a token")
    nhead: Size = setting(help="attention heads")
    layers: Depth = setting(help="layers of the encoder, and as many of a decoder beside it")
    dim_feedforward: Size = setting(help="features within the feed-forward network")
    dropout: Share = setting(help="share of features that are set to zero in training")
    norm_first: bool = setting(False, help="normalise the input of each sublayer, not its output")
    activation: Activation = setting("relu", help="of the feed-forward network")
    norm: Annotated[str, Choices(NORMS)] = setting("layer", help="layer_std divides by the deviation + eps")
    bias: Annotated[str, Choices(tuple(BIASES))] = setting("all", help="which linear layers of a layer have biases")
    positions: Positions = setting("sinusoidal", help="how tokens know their positions")
    pattern: Pattern = setting("full", help="which positions self-attention sees")
    label_smoothing: Share = setting(0.0, help="share of the target's probability spread over all tokens")

    steps: Count | None = setting(None, help="updates to make", flag=Flag(preset=True, resumes=True))
    optimizer: Literal["adam", "adamw", "sgd"] = setting(
        "adam", help="sgd has a momentum of 0.9, adamw a default weight decay of 0.01", flag=Flag(preset=True)
    )
    schedule: Schedule = setting("noam", help="of the learning rate", flag=Flag(preset=True))
    lr: Rate | None = setting(None, help="peak learning rate of the schedules other than noam", flag=Flag(preset=True))
    lr_factor: Rate = setting(1.0, help="of noam's learning rate")
    warmup: Whole = setting(0, help="steps in which the learning rate rises to its peak")
    betas: Betas = setting((0.9, 0.98), help="decays of Adam's two moments")
    eps: Rate = setting(1e-9, help="added to the root of Adam's second moment")
    weight_decay: NotNegative | None = setting(
        None, help="of matrices, decoupled; without one the optimizer has its own", flag=Flag(preset=True)
    )
    clip_norm: Rate | None = setting(1.0, help="bound on the gradient's norm")
    accumulate: Count = setting(1, help="batches an update", flag=Flag("K", times=True))
    precision: Literal["fp32", "fp16"] = setting(
        "fp32", help="of the passes; fp16 keeps float32 weights and scales the loss", flag=Flag()
    )
    name_overflows: bool = setting(
        False, help="with fp16: log the parameter whose gradient overflowed first", flag=Flag()
    )
    ema: Share | None = setting(
        None, help="validate and keep an exponential average of the weights with this decay", flag=Flag("DECAY")
    )
    average: Whole = setting(1, help="at the end, try the mean of the weights at this many last validations, too")
    patience: Count | None = setting(
        None, help="stop after N validations without a better one", flag=Flag("N", preset=True)
    )
    monitor: Metric = setting("valid_loss", help="metric that decides which weights are best", flag=Flag(preset=True))
    curriculum: Whole = setting(0, help="first epochs in which easy batches come before hard ones", flag=Flag("EPOCHS"))
    pad_to: Count = setting(1, help="pad batches to multiples of N tokens, for --graphs", flag=Flag("N"))
    prefetch: Whole = setting(0, help="make N batches ahead in a thread", flag=Flag("N"))
    checkpoint_activations: bool = setting(
        False, help="take fewer bytes: compute activations again in the backward pass", flag=Flag()
    )
    graphs: bool = setting(False, help="on a device: launch each pass and update as one CUDA graph", flag=Flag())
    deterministic: bool = setting(
        False, help="on a device: sums in a fixed order, the same bits each time", flag=Flag()
    )

    validate_every: Count | None = setting(None, help="steps between two validations; none is once an epoch")
    log_every: Count = setting(20, help="steps a row of the log", flag=Flag("N"))
    gradient_norms: bool = setting(False, help="log the norm of each layer's gradient", flag=Flag())
    keep: Count = setting(2, help="how many saves to keep", flag=Flag("N"))

    def __post_init__(self) -> None:
        check_fields(self)

    def _shared(self, *names: str) -> dict[str, Any]:
        """What a model's configuration takes by the same names as this preset has it."""
        sizes = ("d_model", "nhead", "dim_feedforward", "dropout")
        kinds = ("norm_first", "activation", "norm", "bias", "positions", "pattern")
        return {name: getattr(self, name) for name in (*sizes, *kinds, *names)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationPreset(Preset):
    """A run of an encoder-decoder."""

    tokens_per_batch: Count = setting(help="source or target tokens of a batch, padding included")
    steps: Count = dataclasses.field()
    tied: bool = setting(True, help="one table for source, target and output layer")
    copy: bool = setting(False, help="tokens may be copied from the source: a pointer-generator")
    title_case: bool = setting(False, help="sources are read in Title Case, as headlines are written")
    coverage_loss: NotNegative = setting(0.0, help="weight of the loss for copying twice from the same place")
    max_length: Length = setting(128, help="tokens of a text; longer ones are left out")
    label_smoothing: Share = 0.1
    validate_every: Count = 200
    average: Whole = 5
    test_size: Count | None = setting(None, help="texts that the example evaluates on, none for all")

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
            copy=self.copy,
            title_case=self.title_case,
            **self._shared("max_length"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelPreset(Preset):
    """A run of a language model, by default with AdamW's decay, a warm-up and half a cosine."""

    vocab_size: Count = 2000  # of BPE; characters are as many as the text has
    head_dim: Size = setting(help="features of a head")
    length: Length = setting(help="tokens of the context")
    batch_size: Count = setting(help="windows of a batch")
    steps: Count = dataclasses.field()
    norm_first: bool = True
    activation: Activation = "gelu"
    positions: Positions = "learned"
    tied: bool = setting(False, help="one table for the embedding and the output layer")
    schedule: Schedule = "cosine"
    betas: Betas = (0.9, 0.99)
    eps: Rate = 1e-8
    weight_decay: NotNegative | None = 0.1
    recurrent_size: Size = setting(256, help="features of the recurrent baselines")
    recurrent_embedding: bool = setting(True, help="the recurrent baselines read vectors, not one-hot tokens")
    recurrent_steps: Count = setting(500, help="updates of the recurrent baselines")
    recurrent_lr: Rate = setting(2e-3, help="peak learning rate of the recurrent baselines")
    validate_every: Count = 250
    valid_tokens: Count = setting(
        40_000, help="of the validation text, for the curve; the figures at the end are of all of it"
    )

    def transformer(self, vocab_size: int, **changes: Any) -> LanguageModelConfig:
        """The decoder-only model for a vocabulary of `vocab_size` tokens, with `changes` to its sizes."""
        sizes = {**self._shared("layers", "head_dim"), "max_length": self.length, "tie_output": self.tied}
        return LanguageModelConfig(vocab_size, **{**sizes, **changes})

    def recurrent(self, vocab_size: int, kind: str) -> RecurrentConfig:
        """The baseline of this kind ("rnn", "lstm" or "gru")."""
        return RecurrentConfig(
            vocab_size, kind, self.recurrent_size, dropout=self.dropout, embedding=self.recurrent_embedding
        )

    def for_baselines(self) -> LanguageModelPreset:
        """The same run for a recurrent model."""
        return dataclasses.replace(self, steps=self.recurrent_steps, lr=self.recurrent_lr)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierPreset(Preset):
    """A run of a classifier, by default with Adam at a constant rate; one validation an epoch."""

    batch_size: Count = setting(help="texts of a batch")
    epochs: Count = setting(help="as many updates as batches in so many epochs, unless steps are given")
    max_length: Length = setting(64, help="tokens of a text; of a longer one the beginning counts")
    min_frequency: Count = setting(1, help="of a word in the vocabulary")
    pooling: Annotated[str, Choices(POOLINGS)] = setting("first", help="what the class is read off, of all tokens")
    token_dropout: Share = setting(0.0, help="share of the tokens whose embedding is zero in training")
    schedule: Schedule = "constant"
    betas: Betas = (0.9, 0.999)
    eps: Rate = 1e-8
    monitor: Metric = "valid_accuracy"
    patience: Count | None = 3
    weighted: bool = setting(True, help="weight classes by the inverse of their frequency, at most 10")

    def model_config(self, vocab_size: int, classes: int, pad_id: int) -> ClassifierConfig:
        """The model for so many words and classes."""
        return ClassifierConfig(
            vocab_size, classes, pad_id=pad_id, **self._shared("layers", "max_length", "pooling", "token_dropout")
        )
