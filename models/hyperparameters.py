"""Hyperparameters of a training run, one dataclass per task: the model's sizes and the training options.

A field's annotation says which values it may have. Its `setting` contains the help text and the flag, if there is one.
`--set`, the flags, their help and their errors are generated from the fields (`train.cli.training`).
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field

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
    Fraction,
    Length,
    NotNegative,
    Pattern,
    Positions,
    Rate,
    Size,
    Whole,
    check_fields,
    setting,
)
from .language_model import LanguageModelConfig
from .seq2seq import Seq2SeqConfig

#: Learning-rate schedules, see `train.optim.schedules`.
SCHEDULES = ("noam", "constant", "linear", "cosine", "plateau")
#: Validation metrics of every task.
METRICS = ("valid_loss", "valid_accuracy")

Schedule = Annotated[str, Choices(SCHEDULES)]
Metric = Annotated[str, Choices(METRICS)]
Betas = tuple[Fraction, Fraction]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """The hyperparameters that all tasks share: the Transformer's sizes and options, and training options.

    Raises ValueError for a value that its field does not allow, see `fields`.
    """

    vocab_size: Count = setting(help="maximum vocabulary size, in tokens")
    d_model: Size = setting(help="model width: number of features per token")
    nhead: Size = setting(help="number of attention heads per layer")
    layers: Depth = setting(help="number of layers; of an encoder-decoder, in the encoder and in the decoder")
    dim_feedforward: Size = setting(help="number of hidden features of the feed-forward network")
    dropout: Fraction = setting(help="dropout probability")
    norm_first: bool = setting(False, help="pre-norm: normalise the input of each sublayer instead of its output")
    activation: Activation = setting("relu", help="activation function of the feed-forward network")
    norm: Annotated[str, Choices(NORMS)] = setting(
        "layer", help="kind of normalisation; layer_std divides by (standard deviation + eps)"
    )
    bias: Annotated[str, Choices(tuple(BIASES))] = setting(
        "all", help="which projections of a Transformer layer have biases"
    )
    positions: Positions = setting("sinusoidal", help="position encoding")
    pattern: Pattern = setting("full", help="self-attention pattern: full, or sparse with a window or stride of SIZE")
    label_smoothing: Fraction = setting(
        0.0, help="label smoothing: part of the target probability that is spread evenly over the vocabulary"
    )

    steps: Count | None = setting(None, help="number of parameter updates", flag=Flag(preset=True, resumes=True))
    optimizer: Literal["adam", "adamw", "sgd"] = setting(
        "adam",
        help="optimizer; sgd uses a momentum of 0.9; adamw uses a weight decay of 0.01 by default",
        flag=Flag(preset=True),
    )
    schedule: Schedule = setting("noam", help="learning-rate schedule", flag=Flag(preset=True))
    lr: Rate | None = setting(None, help="peak learning rate of all schedules except noam", flag=Flag(preset=True))
    lr_factor: Rate = setting(1.0, help="factor that multiplies the learning rate of the noam schedule")
    warmup: Whole = setting(0, help="warm-up: number of steps in which the learning rate rises to its peak")
    betas: Betas = setting((0.9, 0.98), help="decay rates of Adam's two moments")
    eps: Rate = setting(1e-9, help="term added to Adam's denominator for numerical stability")
    weight_decay: NotNegative | None = setting(
        None,
        help="decoupled weight decay, applied to matrices only; with none, the default of the optimizer",
        flag=Flag(preset=True),
    )
    clip_norm: Rate | None = setting(
        1.0, help="maximum gradient norm: larger gradients are scaled down to this norm; with none, no clipping"
    )
    accumulate: Count = setting(
        1, help="number of batches whose gradients are accumulated per update", flag=Flag("K", times=True)
    )
    precision: Literal["fp32", "fp16"] = setting(
        "fp32",
        help="precision of the forward and backward passes; fp16 keeps float32 weights and uses loss scaling",
        flag=Flag(),
    )
    name_overflows: bool = setting(
        False, help="with --precision fp16: log the first parameter whose gradient overflows", flag=Flag()
    )
    ema: Fraction | None = setting(
        None,
        help="validate and save an exponential moving average of the weights with this decay, such as 0.999",
        flag=Flag("DECAY"),
    )
    average: Whole = setting(
        1,
        help="at the end, average the weights of this many last validations, and keep the average only if it validates "
        "better",
    )
    patience: Count | None = setting(
        None, help="early stopping: stop after N validations without improvement", flag=Flag("N", preset=True)
    )
    monitor: Metric = setting(
        "valid_loss", help="validation metric that selects the best weights", flag=Flag(preset=True)
    )
    curriculum: Whole = setting(
        0, help="train on easy batches before hard ones in the first EPOCHS epochs", flag=Flag("EPOCHS")
    )
    pad_to: Count = setting(
        1, help="pad batches to a multiple of N tokens, so that --graphs sees few shapes", flag=Flag("N")
    )
    prefetch: Whole = setting(0, help="prepare N batches ahead in a background thread", flag=Flag("N"))
    checkpoint_activations: bool = setting(
        False, help="save memory: do not store activations, but recompute them in the backward pass", flag=Flag()
    )
    graphs: bool = setting(False, help="on a GPU: launch each pass and each update as one CUDA graph", flag=Flag())
    deterministic: bool = setting(
        False, help="on a GPU: compute sums in a fixed order, so that repeated runs are bit-identical", flag=Flag()
    )

    validate_every: Count | None = setting(None, help="number of steps between validations; with none, once per epoch")
    log_every: Count = setting(20, help="number of steps between rows of the log", flag=Flag("N"))
    gradient_norms: bool = setting(False, help="log the gradient norm of each layer", flag=Flag())
    keep: Count = setting(2, help="number of latest checkpoints to keep", flag=Flag("N"))

    def __post_init__(self) -> None:
        check_fields(self)

    def _shared(self, *names: str) -> dict[str, Any]:
        """Return the fields that this preset and the model's configuration share."""
        sizes = ("d_model", "nhead", "dim_feedforward", "dropout")
        kinds = ("norm_first", "activation", "norm", "bias", "positions", "pattern")
        return {name: getattr(self, name) for name in (*sizes, *kinds, *names)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationPreset(Preset):
    """The hyperparameters of a run that trains an encoder-decoder."""

    tokens_per_batch: Count = setting(help="maximum number of source or target tokens per batch, including padding")
    pairs_per_batch: Count | None = setting(
        None, help="maximum number of pairs per batch; with none, only tokens are limited"
    )
    steps: Count = dataclasses.field()
    decoder_layers: Depth | None = setting(None, help="number of layers of the decoder; with none, as many as layers")
    bpe_dropout: Fraction = setting(
        0.0, help="BPE-dropout: probability of leaving out a merge when training texts are encoded, in every epoch"
    )
    tied: bool = setting(True, help="share one weight among source embedding, target embedding and output layer")
    copy: bool = setting(False, help="pointer-generator: the decoder can copy tokens from the source")
    title_case: bool = setting(False, help="convert sources to Title Case, the case of headlines")
    words: bool = setting(False, help="tokens are words, in lower case and without punctuation, instead of subwords")
    coverage_loss: NotNegative = setting(
        0.0, help="weight of the coverage loss, which penalises copying a token twice; needs copy"
    )
    max_length: Length = setting(128, help="maximum length of a text in tokens; longer texts are skipped")
    label_smoothing: Fraction = 0.1
    validate_every: Count = 200
    average: Whole = 5
    test_size: Count | None = setting(None, help="number of test texts to evaluate; with none, all of them")

    def model_config(self, vocab_size: int, pad_id: int) -> Seq2SeqConfig:
        """Return the model's configuration for `vocab_size` tokens, which may be fewer than the preset's."""
        return Seq2SeqConfig(
            source_vocab_size=vocab_size,
            target_vocab_size=vocab_size,
            encoder_layers=self.layers,
            decoder_layers=self.decoder_layers or self.layers,
            pad_id=pad_id,
            share_embeddings=self.tied,
            tie_output=self.tied,
            copy=self.copy,
            title_case=self.title_case,
            **self._shared("max_length"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelPreset(Preset):
    """The hyperparameters of a language model's run.
    By default it uses AdamW's weight decay, a warm-up and half a cosine.
    """

    vocab_size: Count = 2000  # for BPE; with characters it follows from the text
    head_dim: Size = setting(help="number of features per attention head")
    length: Length = setting(help="context length in tokens")
    batch_size: Count = setting(help="number of text windows per batch")
    steps: Count = dataclasses.field()
    norm_first: bool = True
    activation: Activation = "gelu"
    positions: Positions = "learned"
    tied: bool = setting(False, help="share one weight between the embedding and the output layer")
    schedule: Schedule = "cosine"
    betas: Betas = (0.9, 0.99)
    eps: Rate = 1e-8
    weight_decay: NotNegative | None = 0.1
    recurrent_size: Size = setting(256, help="hidden size of the recurrent baselines")
    recurrent_embedding: bool = setting(
        True, help="use embeddings instead of one-hot vectors in the recurrent baselines"
    )
    recurrent_steps: Count = setting(500, help="number of updates of the recurrent baselines")
    recurrent_lr: Rate = setting(2e-3, help="peak learning rate of the recurrent baselines")
    validate_every: Count = 250
    valid_tokens: Count = setting(
        40_000,
        help="number of validation tokens during training; the final evaluation uses the whole validation text",
    )

    def transformer(self, vocab_size: int, **changes: Any) -> LanguageModelConfig:
        """Return the decoder-only model's configuration for `vocab_size` tokens, with `changes` to its sizes."""
        sizes = {**self._shared("layers", "head_dim"), "max_length": self.length, "tie_output": self.tied}
        return LanguageModelConfig(vocab_size, **{**sizes, **changes})

    def recurrent(self, vocab_size: int, kind: str) -> RecurrentConfig:
        """Return the configuration of the recurrent baseline of this kind ("rnn", "lstm" or "gru")."""
        return RecurrentConfig(
            vocab_size, kind, self.recurrent_size, dropout=self.dropout, embedding=self.recurrent_embedding
        )

    def for_baselines(self) -> LanguageModelPreset:
        """Return the hyperparameters of the same run for a recurrent model."""
        return dataclasses.replace(self, steps=self.recurrent_steps, lr=self.recurrent_lr)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierPreset(Preset):
    """The hyperparameters of a classifier's run.
    By default it uses Adam at a constant rate and one validation an epoch.
    """

    batch_size: Count = setting(help="number of texts per batch")
    epochs: Count = setting(help="number of passes over the training data, unless steps are given")
    max_length: Length = setting(64, help="maximum length of a text in tokens; longer texts are truncated")
    bos: bool = setting(True, help="begin each text with the token <bos>; otherwise the first token is the first word")
    min_frequency: Count = setting(1, help="minimum number of occurrences of a word in the vocabulary")
    pooling: Annotated[str, Choices(POOLINGS)] = setting(
        "first", help="pooling: use the features of the first token, or their mean or maximum over all tokens"
    )
    token_dropout: Fraction = setting(0.0, help="probability of setting a token's whole embedding to zero in training")
    schedule: Schedule = "constant"
    betas: Betas = (0.9, 0.999)
    eps: Rate = 1e-8
    monitor: Metric = "valid_accuracy"
    patience: Count | None = 3
    weighted: bool = setting(True, help="weight each class in the loss by its inverse frequency, at most 10")

    def model_config(self, vocab_size: int, classes: int, pad_id: int) -> ClassifierConfig:
        """Return the model's configuration for this number of words and classes."""
        own = self._shared("layers", "max_length", "pooling", "token_dropout", "bos")
        return ClassifierConfig(vocab_size, classes, pad_id=pad_id, **own)
