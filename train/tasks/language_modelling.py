"""The language modelling task: windows of a text, training on them, evaluation, and generation."""

import dataclasses
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ... import models
from ...autograd import Tensor, ops
from ...autograd.backend import array_module
from ...errors import InputError, printable, several, short
from ...kinds import checked
from ...models.fields import Length, fits
from ...models.generation import DecodingState
from ...models.generation.rules import Functions
from ...models.hyperparameters import LanguageModelPreset
from ...models.presets import LANGUAGE_MODEL_PRESETS
from ...nn import Module
from ...tokenizer import BPETokenizer, CharacterTokenizer, Tokenizer
from ...tokenizer.character import DEFAULT_ALPHABET, clean_text, is_cleaned, lost_characters
from ..data.batches import fingerprint_of
from ..data.running_text import TextData, read_text
from ..updates import Loss, mean_losses
from .task import Task, TaskBatches, TrainedModel, perplexity, with_teacher

TOKENIZERS = ("character", "bpe")
MODELS: dict[str, tuple[Any, Any]] = {
    "transformer": (models.LanguageModel, models.LanguageModelConfig),
    "recurrent": (models.RecurrentLanguageModel, models.RecurrentConfig),
}


class Windows(NamedTuple):
    """Token ids (batch, length), and the ids of the tokens that follow each of them in the text."""

    inputs: np.ndarray
    targets: np.ndarray


class WindowBatches:
    """Training data: consecutive windows of `length` tokens of a text (n,), with a different offset and order in each
    epoch, in batches of `batch_size` windows, without the last windows that do not fill a batch.

    In the first epochs, as many as `curriculum`, windows of frequent tokens come first (Platanios et al. 2019, arXiv
    1903.09848, section 2: rarity as difficulty).
    """

    def __init__(self, ids: np.ndarray, *, length: int, batch_size: int, seed: int, curriculum: int = 0):
        self.ids, self.length, self.batch_size, self.seed = ids, length, batch_size, seed
        self.curriculum = curriculum
        # This leaves room for any offset below `length`, and for the token after the last window.
        self.windows = (len(ids) - length) // length
        if self.windows < batch_size:
            raise InputError(
                f"The training text has {len(ids):,} tokens, too few for a batch of {batch_size} windows of {length}. "
                f"Give a longer text, or use a smaller preset."
            )

    def __len__(self) -> int:
        return self.windows // self.batch_size

    def fingerprint(self) -> str:
        """Return a checksum of the data in the batches."""
        return fingerprint_of((self.length, self.batch_size, self.seed, self.curriculum), self.ids)

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Windows]:
        """Yield batches start, start + every, ... of the epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(self.length))
        order = generator.permutation(self.windows) * self.length + offset
        if epoch < self.curriculum:
            order = order[np.argsort(self._rarity(order), kind="stable")]
        for number in range(start, len(self), every):
            first = order[number * self.batch_size : (number + 1) * self.batch_size, None]
            yield Windows(*(self.ids[first + np.arange(shift, shift + self.length)] for shift in (0, 1)))

    def _rarity(self, starts: np.ndarray) -> np.ndarray:
        """Return the total rarity (negative log frequency in the text) of the tokens of each window."""
        surprise = -np.log(np.maximum(np.bincount(self.ids), 1) / len(self.ids))[self.ids]
        before = np.concatenate([[0.0], np.cumsum(surprise)])
        return before[starts + self.length] - before[starts]


def all_windows(ids: np.ndarray, length: int, batch_size: int) -> Iterator[Windows]:
    """Yield consecutive windows from the start of the text, so that each token except the first is predicted once."""
    full = (len(ids) - 1) // length
    tiles = ids[: full * length].reshape(full, length), ids[1 : full * length + 1].reshape(full, length)
    for start in range(0, full, batch_size):
        yield Windows(*(side[start : start + batch_size] for side in tiles))
    if full * length < len(ids) - 1:
        yield Windows(ids[None, full * length : -1], ids[None, full * length + 1 :])


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """The three parts of a text as ids (n,), and their lengths in characters."""

    tokenizer: Tokenizer
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    characters: dict[str, int]


def text_of(data: Any) -> str:
    """Return a text; a path, or a string that names a file, stands for the text in the file."""
    if isinstance(data, str) and ("\n" in data or not os.path.isfile(data)):
        if len(data) < 256 and re.fullmatch(r"\S*[\w)]\.[A-Za-z]\w{0,4}", data):
            raise InputError(f"There is no file {data}. Give a text, or the path of a text file.")
        return data
    if isinstance(data, str | Path):
        return read_text(data)
    raise InputError(f"Give a text, or the path of a text file, not {short(data)}.")


@checked
def learn_tokens(data: TextData, kind: str, vocab_size: int) -> Tokenizer:
    """Train a tokenizer of kind "character", or "bpe" with at most `vocab_size` tokens, on the training part. A text of
    another alphabet is not cleaned (`is_cleaned`).
    """
    if kind == "bpe":
        return BPETokenizer.train([_cleaned(data.train)], vocab_size)
    alphabet = DEFAULT_ALPHABET if is_cleaned(data.train) else None
    return CharacterTokenizer.train([data.train], alphabet=alphabet)


def _cleaned(text: str) -> str:
    return clean_text(text) if is_cleaned(text) else text


@checked
def tokenize(data: TextData, tokenizer: Tokenizer) -> TokenizedText:
    """Clean the texts (see `clean_text` and `is_cleaned`), print the number of characters that were left out, and split
    the texts into tokens. Raises InputError for a part with fewer than two tokens, and for a tokenizer that lacks more
    than 1 % of the text.
    """
    clean, parts = is_cleaned(data.train), {name: getattr(data, name) for name in ("train", "valid", "test")}
    parts = {name: clean_text(text) if clean else text for name, text in parts.items()}
    if clean and (lost := lost_characters(data.train)):
        examples = " ".join(printable(character) for character, _ in lost.most_common(10))
        total = len(data.train)
        print(f"{data.name}: left out {lost.total():,} of {total:,} characters that the alphabet lacks: {examples}")
    ids = {name: np.array(tokenizer.encode(text), np.int64) for name, text in parts.items()}
    if isinstance(tokenizer, CharacterTokenizer):
        unknown = (ids["train"] == tokenizer.unk_id).mean() if clean or tokenizer.alphabet is None else 1.0
        if unknown > 0.01:
            raise InputError(
                f"{data.name}: the model's tokenizer lacks more than 1 % of the text's characters. Train a new model."
            )
    if min(map(len, ids.values())) < 2:
        raise InputError(f"{data.name}: a part of the text has fewer than two tokens. Give a longer text.")
    return TokenizedText(tokenizer, **ids, characters={name: len(text) for name, text in parts.items()})


def language_model_loss(label_smoothing: float = 0.0, teacher: Module | None = None) -> Loss:
    """Return the loss for the Trainer, cross-entropy in nats per token, and the share of tokens predicted correctly.

    Smoothing and the `teacher` (see `with_teacher`) count in training only.
    """

    def loss(model: Module, batch: Windows) -> tuple[Tensor, int, dict[str, Any]]:
        logits = model(batch.inputs)
        right = logits.data.argmax(axis=-1) == array_module(logits.data).asarray(batch.targets)
        smoothing = label_smoothing if model.training else 0.0
        value = ops.cross_entropy(logits, batch.targets, label_smoothing=smoothing)
        if teacher is not None and model.training:
            value = with_teacher(value, logits, teacher, [batch.inputs])
        return value, batch.targets.size, {"accuracy": right.mean()}

    return loss


def evaluate(model: Module, ids: np.ndarray, characters: int, length: int, batch_size: int = 32) -> dict[str, float]:
    """Evaluate the model on a text.

    Returns `loss` (nats per token), `perplexity` (its exponential), `accuracy`, and `bits_per_character`, which
    compares models with different tokens. Each token is predicted from the tokens before it in its window of `length`.
    """
    found = mean_losses(model, language_model_loss(), all_windows(ids, length, batch_size))
    bits = found["loss"] * (len(ids) - 1) / math.log(2) / characters
    values = {"loss": found["loss"], "perplexity": perplexity(found["loss"]), "bits_per_character": bits}
    return {**values, "accuracy": found["accuracy"]}


class Writer(TrainedModel):
    """A trained language model, its tokenizer and the length of its context in tokens, or an estimator.

    See `TrainedModel`. `fit` and `score` take a text, or the path of a text file. `tokens` is the kind of tokens that
    `fit` uses for a new model, one of `TOKENIZERS`.
    """

    what, name = "language model", "text"
    kinds = MODELS
    presets: ClassVar[Mapping[str, LanguageModelPreset]] = LANGUAGE_MODEL_PRESETS

    def __init__(
        self,
        model: Any = None,
        tokenizer: Tokenizer | None = None,
        length: int = 0,
        *,
        tokens: str = "character",
        preset: str = "laptop",
        **settings: Any,
    ):
        if tokens not in TOKENIZERS:
            raise InputError(f"There are no tokens of the kind {tokens!r}: choose {' or '.join(TOKENIZERS)}.")
        self.length, self.tokens = length, tokens
        super().__init__(model, tokenizer, preset, **settings)

    @classmethod
    def of(cls, model: Any, tokenizer: Tokenizer, config: dict[str, Any], folder: str | Path) -> Self:
        length: Any = config.get("length")
        if not fits(Length, length) or length > getattr(model.config, "max_length", length):
            raise InputError(f"The language model in {folder} does not record its context length. Restore a copy.")
        return cls(model, tokenizer, length)

    def score(self, data: Any) -> dict[str, float]:
        """Return loss, perplexity, bits per character and accuracy on a held-out text; see `evaluate`."""
        if not (text := _cleaned(text_of(data))):
            raise InputError("The text is empty, so it has no score.")
        return evaluate(self.model, np.array(self.tokenizer.encode(text), np.int64), len(text), self.length)

    def saved(self) -> dict[str, Any]:
        return {"kind": self.kind_of(self.model.config), "length": self.length}

    def write(
        self,
        prompt: str,
        length: int = 200,
        *,
        temperature: float = 0.7,
        seed: int = 0,
        strategy: models.Strategy | None = None,
        rules: Functions = (),
    ) -> str:
        """Return `prompt` continued by `length` tokens, sampled at this temperature (0: the most probable token).

        `strategy` replaces `temperature` and `seed`; its `min_length` and `max_length` are ignored. `rules` are
        functions of the ids so far and the log-probabilities of the next token; see `Rules.functions`. Raises
        InputError for a prompt without a token that the model knows.
        """
        strategy = strategy or models.Strategy(sampling=True, temperature=temperature, seed=seed)
        strategy = models.Strategy.with_rules(strategy, rules)
        if strategy.consensus or not strategy.sampling:
            return self.best(prompt, length, strategy)[0][0]
        return prompt + "".join(self.stream(prompt, length, strategy))

    def generate(self, prompts: Sequence[str], length: int = 200, **options: Any) -> list[str]:
        """Return each prompt continued by `length` tokens; options and errors are those of `write`. The seed of each
        prompt is one more than that of the prompt before it.
        """
        strategy, seed = options.pop("strategy", None), options.pop("seed", 0)
        return [
            self.write(prompt, length, **options, seed=seed + number, strategy=strategy
                       and dataclasses.replace(strategy, seed=strategy.seed + number))
            for number, prompt in enumerate(several(prompts))
        ]  # fmt: skip

    def stream(self, prompt: str, length: int, strategy: models.Strategy) -> Iterator[str]:
        """Yield the continuation of `prompt`, each piece as soon as it is drawn. For arguments and errors see `write`.

        When the text has filled the context, the model continues from the last half of the context, and rules about
        repetitions no longer see the text before it.
        """
        yield from self.tokenizer.decode_stream(self._drawn(prompt, length, strategy))

    def _drawn(self, prompt: str, length: int, strategy: models.Strategy) -> Iterator[int]:
        """Yield the ids of the continuation, each as soon as it is drawn."""
        ids = self._known_ids(prompt)
        choose = models.Sampler(
            temperature=strategy.temperature, top_k=strategy.top_k, top_p=strategy.top_p, seed=strategy.seed
        )
        start, context, end = self._starter(), ids[-self.length :], len(ids) + length
        while len(ids) < end:
            until = min(len(ids) + self.length + 1 - len(context), end)
            new = models.stream(start(), self._rules(strategy, context, until - len(ids)), choose)
            for token in itertools.islice(new, len(context), None):
                ids.append(token)
                yield token
            if len(ids) < until:  # a stop token has ended the text
                break
            context = ids[-max(self.length // 2, 1) :]

    def best(self, prompt: str, length: int, strategy: models.Strategy) -> list[tuple[str, float]]:
        """Return the `n_best` continuations that the strategy finds, each with the prompt before it, and their scores.

        Raises InputError for a prompt without a token that the model knows, and if prompt and continuation don't fit
        into the context, since a search can't continue from half of the context.
        """
        ids = self._known_ids(prompt)
        if len(ids) + length > self.length + 1:
            raise InputError(
                f"For a prompt of {len(ids)} and {length} more tokens, a beam search or consensus needs a context of "
                f"{len(ids) + length - 1}, but this model has {self.length}. Request fewer tokens, or sample one text."
            )
        found = dataclasses.replace(strategy, rules=self._rules(strategy, ids, length)).generate(
            self._starter()(), bos_id=None, eos_id=None, prefix=[ids]
        )[0]
        return [(prompt + self.tokenizer.decode_more(one.ids[len(ids) :]), one.score) for one in found]

    def knows(self, prompt: str) -> bool:
        """Return whether the prompt has a token that the model was trained on."""
        return any(i != self.tokenizer.unk_id for i in self.tokenizer.encode(prompt))

    def _known_ids(self, prompt: str) -> list[int]:
        known = [i for i in self.tokenizer.encode_whole(several([prompt])[0]) if i != self.tokenizer.unk_id]
        if not known:
            raise InputError(f"The prompt {short(prompt)} has no token in this model's vocabulary. Use another prompt.")
        return known

    def _starter(self) -> Callable[[], DecodingState]:
        if isinstance(self.model, models.LanguageModel):
            return partial(self.model.start, 1, decoder=self.model.raw_decoder())
        return partial(self.model.start, 1)

    def _rules(self, strategy: models.Strategy, context: list[int], tokens: int) -> models.Rules:
        """Return the rules of the strategy for exactly this many tokens after the context."""
        rules = dataclasses.replace(strategy.rules, prefix=[context], min_length=0, max_length=tokens)
        return dataclasses.replace(rules, forbidden=(*rules.forbidden, *self.tokenizer.special_ids.values()))


@checked
@dataclasses.dataclass
class LanguageModelling(Task[LanguageModelPreset, Writer]):
    """The task of learning to continue a text.

    Attributes:
        text: the text as tokens.
        model: a configuration that replaces the one of the preset, such as the configuration of a recurrent model.
        plain: the text before augmentation, if it was augmented.
    """

    text: TokenizedText
    model: models.LanguageModelConfig | models.RecurrentConfig | None = None
    plain: TokenizedText | None = None

    trained = Writer

    @classmethod
    def of(cls, trained: Writer, data: Any, valid: Any, tokenizer: Tokenizer | None, **settings: Any) -> Self:
        train, rest = text_of(data), None if valid is None else text_of(valid)
        if rest is None:
            train, rest = train[: len(train) * 9 // 10], train[len(train) * 9 // 10 :]
        texts, preset = TextData(train, rest, rest, "the text"), cls.preset_of(trained, **settings)
        tokenizer = tokenizer or learn_tokens(texts, trained.tokens, preset.vocab_size)
        return cls(tokenize(texts, tokenizer), preset=preset, name=trained.name)

    def limited_to(self, init: Writer) -> Self:
        return self.with_preset(length=min(self.preset.length, init.length))

    def make_tokenizer(self) -> Tokenizer:
        return self.text.tokenizer

    def batches(self, tokenizer: Tokenizer, seed: int) -> TaskBatches:
        preset = self.preset
        options = {"length": preset.length, "batch_size": preset.batch_size, "curriculum": preset.curriculum}
        train = WindowBatches(self.text.train, seed=seed, **options)
        valid = all_windows(self.text.valid[: max(preset.valid_tokens, 2)], preset.length, 32)
        return TaskBatches(train, valid, [], "")

    def config(self, tokenizer: Tokenizer) -> models.LanguageModelConfig | models.RecurrentConfig:
        return self.model or self.preset.transformer(tokenizer.vocab_size)

    def loss(self, tokenizer: Tokenizer, teacher: Module | None) -> Loss:
        return language_model_loss(self.preset.label_smoothing, teacher)

    def saved(self, config: Any) -> dict[str, Any]:
        return {"kind": Writer.kind_of(config), "length": self.preset.length}
