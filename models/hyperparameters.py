"""Hyperparameters of a training run (model sizes and training options): `Settings` of any, and one dataclass per task.

A field's annotation describes the allowed values. Its `setting` contains the help text and, for some fields, a Flag.
`cli.training` generates `--set`, the command-line options, help texts and error messages from the fields.
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field

import dataclasses
from typing import Annotated, Any, Literal, Self

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
class Settings:
    """The settings of a `Trainer`, which the presets of all tasks contain, too. Raises ValueError for an invalid value.

    `monitor` is the number of a validation that selects the best weights.
    """

    clip_norm: Rate | None = setting(
        1.0, help="maximum norm of the gradient, to which larger gradients are scaled down; none means no clipping"
    )
    accumulate: Count = setting(
        1, help="number of batches whose gradients are accumulated per update", flag=Flag("K", times=True)
    )
    precision: Literal["fp32", "fp16", "bf16"] = setting(
        "fp32",
        help="precision of the forward and backward passes: fp16 computes in float16 with a scaled loss, for GPUs; "
        "bf16 rounds the operands of matrix products to bfloat16, for CPUs; the weights stay in float32",
        flag=Flag(),
    )
    name_overflows: bool = setting(
        False, help="with --precision fp16, log the name of the first parameter whose gradient overflows", flag=Flag()
    )
    ema: Fraction | None = setting(
        None,
        help="validate and save an exponential moving average of the weights; DECAY is its decay rate, such as 0.999",
        flag=Flag("DECAY"),
    )
    average: Whole = setting(
        1,
        help="number of last validations whose weights are averaged at the end; the average is kept only if it "
        "validates better",
    )
    graphs: bool = setting(False, help="on a GPU, run each pass and each update as a CUDA graph", flag=Flag())
    validate_every: Count | None = setting(None, help="number of steps between validations; none means once per epoch")
    log_every: Count = setting(20, help="number of steps between two rows of the training log", flag=Flag("N"))
    gradient_norms: bool = setting(False, help="log the gradient norm of each layer", flag=Flag())
    keep: Count = setting(2, help="number of most recent checkpoints to keep", flag=Flag("N"))
    monitor: str = "valid_loss"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset(Settings):
    """The hyperparameters that all tasks share: the Transformer's sizes and options, and the training options."""

    vocab_size: Count = setting(help="maximum vocabulary size, in tokens")
    d_model: Size = setting(help="model width: number of features per token")
    nhead: Size = setting(help="number of attention heads per layer")
    layers: Depth = setting(help="number of layers; in an encoder-decoder, number in the encoder and in the decoder")
    dim_feedforward: Size = setting(help="hidden size of the feed-forward networks")
    dropout: Fraction = setting(help="dropout probability")
    norm_first: bool = setting(False, help="use pre-norm: normalise the input of each sublayer instead of the output")
    activation: Activation = setting("relu", help="activation function of the feed-forward network")
    norm: Annotated[str, Choices(NORMS)] = setting(
        "layer",
        help="type of normalisation; layer_std is layer normalisation that divides by (standard deviation + eps)",
    )
    bias: Annotated[str, Choices(tuple(BIASES))] = setting("all", help="which projections of a layer have biases")
    positions: Positions = setting("sinusoidal", help="position encoding")
    pattern: Pattern = setting(
        "full", help="self-attention pattern: full, or sparse with a local window or a stride of SIZE tokens"
    )
    label_smoothing: Fraction = setting(
        0.0, help="label smoothing: share of the target probability that is distributed uniformly over the vocabulary"
    )

    steps: Count | None = setting(None, help="number of parameter updates", flag=Flag(preset=True, resumes=True))
    optimizer: Literal["adam", "adamw", "sgd"] = setting(
        "adam",
        help="optimizer; sgd has a momentum of 0.9, and adamw has a default weight decay of 0.01",
        flag=Flag(preset=True),
    )
    schedule: Schedule = setting("noam", help="learning-rate schedule", flag=Flag(preset=True))
    lr: Rate | None = setting(None, help="peak learning rate; the schedule noam ignores it", flag=Flag(preset=True))
    lr_factor: Rate = setting(1.0, help="factor by which the learning rate of the schedule noam is multiplied")
    warmup: Whole = setting(0, help="number of warm-up steps, in which the learning rate rises to its peak")
    betas: Betas = setting((0.9, 0.98), help="decay rates of Adam's two moment estimates")
    eps: Rate = setting(1e-9, help="term added to Adam's denominator for numerical stability")
    weight_decay: NotNegative | None = setting(
        None,
        help="decoupled weight decay of the weight matrices; none means the optimizer's default",
        flag=Flag(preset=True),
    )
    patience: Count | None = setting(
        None, help="early stopping: stop after N validations without improvement", flag=Flag("N", preset=True)
    )
    monitor: Metric = setting("valid_loss", help="metric that selects the best weights", flag=Flag(preset=True))
    curriculum: Whole = setting(
        0,
        help="curriculum learning: in the first EPOCHS epochs, train on easy batches before hard batches",
        flag=Flag("EPOCHS"),
    )
    pad_to: Count = setting(
        1,
        help="pad batches to a length that is a multiple of N tokens, so that --graphs needs fewer CUDA graphs",
        flag=Flag("N"),
    )
    checkpoint_activations: bool = setting(
        False, help="save memory by recomputing activations in the backward pass instead of storing them", flag=Flag()
    )
    deterministic: bool = setting(
        False,
        help="on a GPU, compute sums in a fixed order, so that repeated runs give bit-identical results",
        flag=Flag(),
    )

    def _shared(self, *names: str) -> dict[str, Any]:
        """Return the fields that the preset and the model's configuration share, and the fields `names`."""
        sizes = ("d_model", "nhead", "dim_feedforward", "dropout")
        kinds = ("norm_first", "activation", "norm", "bias", "positions", "pattern")
        return {name: getattr(self, name) for name in (*sizes, *kinds, *names)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationPreset(Preset):
    """The hyperparameters of an encoder-decoder's run."""

    tokens_per_batch: Count = setting(help="maximum number of source or target tokens per batch, including padding")
    pairs_per_batch: Count | None = setting(
        None, help="maximum number of sentence pairs per batch; none means that only the number of tokens is limited"
    )
    steps: Count = dataclasses.field()
    decoder_layers: Depth | None = setting(None, help="number of decoder layers; none means as many as the encoder has")
    new_encoder_layers: Whole = setting(0, help="number of encoder layers to add to the model of --init")
    bpe_dropout: Fraction = setting(
        0.0, help="BPE-dropout: probability of skipping a merge when training texts are encoded, again in each epoch"
    )
    tied: bool = setting(True, help="use one weight matrix for source embedding, target embedding and output layer")
    copy: bool = setting(False, help="use a pointer-generator, whose decoder can copy tokens from the source")
    title_case: bool = setting(False, help="convert source texts to Title Case, as in headlines")
    lowercase: bool = setting(False, help="convert source and target texts to lower case")
    words: bool = setting(False, help="use words in lower case, without punctuation, as tokens instead of subwords")
    coverage_loss: NotNegative = setting(
        0.0, help="weight of the coverage loss, which penalises attending to a source token again; needs copy=true"
    )
    max_length: Length = setting(128, help="maximum length of a text in tokens; longer texts are skipped")
    label_smoothing: Fraction = 0.1
    validate_every: Count = 200
    average: Whole = 5
    test_size: Count | None = setting(None, help="number of test texts to evaluate; none means all test texts")

    def model_config(self, vocab_size: int, pad_id: int) -> Seq2SeqConfig:
        """Return the model's configuration for a vocabulary of `vocab_size` tokens."""
        return Seq2SeqConfig(
            source_vocab_size=vocab_size,
            target_vocab_size=vocab_size,
            encoder_layers=self.layers,
            decoder_layers=self.decoder_layers or self.layers,
            pad_id=pad_id,
            share_embeddings=self.tied,
            tie_output=self.tied,
            **self._shared("max_length", "copy", "title_case", "lowercase"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelPreset(Preset):
    """The hyperparameters of a language model's run. The defaults are a weight decay of 0.1 and the cosine schedule."""

    vocab_size: Count = 2000  # for BPE; with characters it follows from the text
    head_dim: Size = setting(help="number of features per attention head")
    length: Length = setting(help="context length in tokens")
    batch_size: Count = setting(help="number of text windows per batch")
    steps: Count = dataclasses.field()
    norm_first: bool = True
    activation: Activation = "gelu"
    positions: Positions = "learned"
    tied: bool = setting(False, help="use one weight matrix for the embedding and the output layer")
    schedule: Schedule = "cosine"
    betas: Betas = (0.9, 0.99)
    eps: Rate = 1e-8
    weight_decay: NotNegative | None = 0.1
    recurrent_size: Size = setting(256, help="hidden size of the recurrent baselines")
    recurrent_embedding: bool = setting(True, help="use embeddings instead of one-hot vectors in recurrent baselines")
    recurrent_steps: Count = setting(500, help="number of training steps of the recurrent baselines")
    recurrent_lr: Rate = setting(2e-3, help="peak learning rate of the recurrent baselines")
    validate_every: Count = 250
    valid_tokens: Count = setting(
        40_000,
        help="number of validation tokens used during training; the final evaluation uses the whole validation text",
    )

    def transformer(self, vocab_size: int, **changes: Any) -> LanguageModelConfig:
        """Return the Transformer's configuration for a vocabulary of `vocab_size` tokens, with some `changes`."""
        sizes = {**self._shared("layers", "head_dim"), "max_length": self.length, "tie_output": self.tied}
        return LanguageModelConfig(vocab_size, **{**sizes, **changes})

    def recurrent(self, vocab_size: int, kind: str) -> RecurrentConfig:
        """Return the configuration of the recurrent baseline `kind` ("rnn", "lstm" or "gru")."""
        return RecurrentConfig(
            vocab_size, kind, self.recurrent_size, dropout=self.dropout, embedding=self.recurrent_embedding
        )

    def for_baselines(self) -> Self:
        """Return a copy with the steps and the learning rate of the recurrent baselines."""
        return dataclasses.replace(self, steps=self.recurrent_steps, lr=self.recurrent_lr)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierPreset(Preset):
    """The hyperparameters of a classifier's run: by default Adam, a constant rate, one validation per epoch."""

    batch_size: Count = setting(help="number of texts per batch")
    epochs: Count = setting(help="number of passes over the training data; ignored if steps is set")
    max_length: Length = setting(64, help="maximum length of a text in tokens; longer texts are truncated")
    bos: bool = setting(True, help="begin each text with the token <bos>")
    min_frequency: Count = setting(
        1, help="minimum number of occurrences in the training data for a word to be in the vocabulary"
    )
    pooling: Annotated[str, Choices(POOLINGS)] = setting(
        "first",
        help="input of the output layer: the features of the first token, or their mean or maximum over all tokens",
    )
    token_dropout: Fraction = setting(
        0.0, help="token dropout: probability that all features of a token's embedding are set to zero in training"
    )
    word_vectors: bool = setting(
        False, help="initialise the embeddings with word vectors, from counts of the words that occur in the same text"
    )
    consistency: NotNegative = setting(
        0.0, help="R-Drop: weight of the disagreement between two predictions for a text with different dropout"
    )
    schedule: Schedule = "constant"
    betas: Betas = (0.9, 0.999)
    eps: Rate = 1e-8
    monitor: Metric = "valid_accuracy"
    patience: Count | None = 3
    weighted: bool = setting(True, help="weight a class by its inverse frequency, with weights of at most 10")

    def model_config(self, vocab_size: int, classes: int, pad_id: int) -> ClassifierConfig:
        """Return the model's configuration for this number of tokens and classes."""
        shared = self._shared("layers", "max_length", "pooling", "token_dropout", "bos")
        return ClassifierConfig(vocab_size, classes, pad_id=pad_id, **shared)


#: Fields of presets that have no effect if the training begins with a model: their values come from it.
MODEL_FIELDS = {
    field.name
    for config in (Seq2SeqConfig, LanguageModelConfig, ClassifierConfig)
    for field in dataclasses.fields(config)
} - {"max_length", "dropout"} | {"tied"}
