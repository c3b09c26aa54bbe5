"""The language modelling task: windows of a text, training a model on them, what it is worth, and text it writes."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...autograd import Tensor, no_grad, ops
from ...autograd.backend import array_module
from ...errors import InputError
from ...models import (
    LanguageModel,
    LanguageModelConfig,
    RecurrentConfig,
    RecurrentLanguageModel,
    Rules,
    Sampler,
    Strategy,
    pretrained,
)
from ...models import stream as generate
from ...models.fields import Length, fits
from ...models.generation import DecodingState
from ...models.presets import LanguageModelPreset
from ...nn import Module
from ...tokenizer import BPETokenizer, CharacterTokenizer, Tokenizer
from ...tokenizer.base import printable
from ...tokenizer.character import clean_text, lost_characters
from ..data.running_text import TextData
from ..runs.folder import RunFolder
from ..trainer import Loss, Trainer
from .foreign import is_foreign
from .loading import load_trained, trained_config
from .objectives import taught
from .regimes import Regime, fit

TOKENIZERS = ("character", "bpe")
MODELS: dict[str, tuple[Any, Any]] = {
    "transformer": (LanguageModel, LanguageModelConfig),
    "recurrent": (RecurrentLanguageModel, RecurrentConfig),
}


class Windows(NamedTuple):
    """Token ids (batch, length), and for each the one that follows it in the text."""

    inputs: np.ndarray
    targets: np.ndarray


class WindowBatches:
    """Training data: windows of `length` tokens that tile the text, each epoch from another offset, in another order.

    Args:
        ids: (n,) the text.
        length: tokens of a window.
        batch_size: windows in a batch; an epoch's last, incomplete batch is left out.
        seed: with the epoch's number, decides offset and order.
        curriculum: epochs in which windows of frequent tokens come first (Platanios et al. 2019, arXiv 1903.09848,
            section 2: rarity as difficulty).

    Raises InputError if the text is shorter than one batch.
    """

    def __init__(self, ids: np.ndarray, *, length: int, batch_size: int, seed: int, curriculum: int = 0):
        self.ids, self.length, self.batch_size, self.seed = ids, length, batch_size, seed
        self.curriculum = curriculum
        # Room for any offset below `length`, and for the token after the last window.
        self.windows = (len(ids) - length) // length
        if self.windows < batch_size:
            raise InputError(
                f"The training text has {len(ids):,} tokens, fewer than a batch of {batch_size} windows of {length} "
                "needs. Give a longer text, or take a smaller preset."
            )

    def __len__(self) -> int:
        return self.windows // self.batch_size

    def fingerprint(self) -> str:
        """A checksum of what the batches are made from."""
        options = self.length, self.batch_size, self.seed, self.curriculum
        return hashlib.sha256(repr(options).encode() + np.ascontiguousarray(self.ids).tobytes()).hexdigest()

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Windows]:
        """Batches start, start + every, ... of the epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(self.length))
        order = generator.permutation(self.windows) * self.length + offset
        if epoch < self.curriculum:
            order = order[np.argsort(self._rarity(order), kind="stable")]
        for number in range(start, len(self), every):
            first = order[number * self.batch_size : (number + 1) * self.batch_size, None]
            yield Windows(*(self.ids[first + np.arange(shift, shift + self.length)] for shift in (0, 1)))

    def _rarity(self, starts: np.ndarray) -> np.ndarray:
        """How surprising the tokens of each window are, by their frequency in the text alone."""
        surprise = -np.log(np.maximum(np.bincount(self.ids), 1) / len(self.ids))[self.ids]
        before = np.concatenate([[0.0], np.cumsum(surprise)])
        return before[starts + self.length] - before[starts]


def all_windows(ids: np.ndarray, length: int, batch_size: int) -> Iterator[Windows]:
    """Windows that tile the text from its start, each token but the first predicted once; the last one is shorter."""
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


def tokenize(
    data: TextData,
    kind: str,
    vocab_size: int,
    tokenizer: Tokenizer | None = None,
    *,
    say: Callable[[str], None] = print,
) -> TokenizedText:
    """Clean the texts (one form for each mark, see `clean_text`) and cut them into tokens.

    Args:
        kind: "character", or "bpe" with at most `vocab_size` tokens; trained on the training part.
        tokenizer: take this one instead.
        say: is told how many characters were left out.
    """
    parts = {name: clean_text(getattr(data, name)) for name in ("train", "valid", "test")}
    if lost := lost_characters(data.train):
        examples = " ".join(printable(character) for character, _ in lost.most_common(10))
        total = len(data.train)
        say(f"{data.name}: left out {lost.total():,} of {total:,} characters, the alphabet lacks them: {examples}")
    if tokenizer is None:
        texts = [parts["train"]]
        tokenizer = BPETokenizer.train(texts, vocab_size) if kind == "bpe" else CharacterTokenizer.train(texts)
    ids = {name: np.array(tokenizer.encode(text), np.int64) for name, text in parts.items()}
    if min(map(len, ids.values())) < 2:
        raise InputError(f"{data.name}: a part of the text has fewer than two tokens. Give a longer text.")
    return TokenizedText(tokenizer, **ids, characters={name: len(text) for name, text in parts.items()})


def language_model_loss(label_smoothing: float = 0.0, teacher: Module | None = None) -> Loss:
    """The Trainer's loss: cross-entropy in nats per token, and the share of tokens that were the likeliest.

    Smoothing and the `teacher` (see `taught`) count in training only.
    """

    def loss(model: Module, batch: Windows) -> tuple[Tensor, int, dict[str, Any]]:
        logits = model(batch.inputs)
        right = logits.data.argmax(axis=-1) == array_module(logits.data).asarray(batch.targets)
        smoothing = label_smoothing if model.training else 0.0
        value = ops.cross_entropy(logits, batch.targets, label_smoothing=smoothing)
        if teacher is not None and model.training:
            value = taught(value, logits, teacher, [batch.inputs])
        return value, batch.targets.size, {"accuracy": right.mean()}

    return loss


def evaluate(model: Module, ids: np.ndarray, characters: int, length: int, batch_size: int = 32) -> dict[str, float]:
    """What the model is worth on a text.

    Returns `loss` (nats per token), `perplexity` (its exponential), `bits_per_character`, by which models with
    different tokens can be compared, and `accuracy`. Each token is predicted from those before it in its window of
    `length`.
    """
    model.eval()
    measure = language_model_loss()
    nats = right = count = 0.0
    with no_grad():
        for batch in all_windows(ids, length, batch_size):
            loss, tokens, more = measure(model, batch)  # type: ignore[misc]
            nats, right, count = nats + loss.item() * tokens, right + float(more["accuracy"]) * tokens, count + tokens
    return {
        "loss": nats / count,
        "perplexity": math.exp(nats / count),
        "bits_per_character": nats / math.log(2) / characters,
        "accuracy": right / count,
    }


class Writer:
    """A trained language model and its tokenizer."""

    def __init__(self, model: LanguageModel | RecurrentLanguageModel, tokenizer: Tokenizer, length: int):
        self.model, self.tokenizer, self.length = model.eval(), tokenizer, length

    @classmethod
    def load(cls, folder: str | Path, tasks: Collection[str] | None = None) -> Writer:
        """The model that a run left in `folder`, or a decoder that `models.pretrained` loads by folder or name.

        A run must have been trained for one of `tasks`; None takes any. Raises InputError as `load_trained` and
        `pretrained.load`.
        """
        if is_foreign(folder):
            found = pretrained.load(folder)
            if not isinstance(found.model, LanguageModel):
                raise InputError(f"{folder} holds no language model: its model is a {type(found.model).__name__}.")
            assert found.tokenizer is not None
            return cls(found.model, found.tokenizer, found.model.config.max_length)
        model, tokenizer, config = load_trained(folder, "language model", MODELS, tasks)
        length: Any = config.get("length")
        if not fits(Length, length) or length > getattr(model.config, "max_length", length):
            raise InputError(f"The language model in {folder} does not say how long its context is. Restore a copy.")
        return cls(model, tokenizer, length)

    def begin(self, config: Any) -> LanguageModel | RecurrentLanguageModel:
        """The model itself, to train on."""
        return self.model.train()

    def write(
        self,
        prompt: str,
        tokens: int = 200,
        *,
        temperature: float = 0.7,
        seed: int = 0,
        strategy: Strategy | None = None,
    ) -> str:
        """`prompt` and `tokens` more, drawn from the model's distribution at this temperature (0: the likeliest).

        `strategy` says more about how to choose, in place of `temperature` and `seed`; its `min_length` and
        `max_length` don't count. Raises InputError for a prompt without a token that the model knows.
        """
        strategy = strategy or Strategy(sampling=True, temperature=temperature, seed=seed)
        if not strategy.sampling:
            return self.best(prompt, tokens, strategy)[0][0]
        return prompt + "".join(self.stream(prompt, tokens, strategy))

    def stream(self, prompt: str, tokens: int, strategy: Strategy) -> Iterator[str]:
        """What follows `prompt`, piece by piece, each as soon as it is drawn; arguments and errors as in `write`.

        Where the text has filled the context, its last half is what the model goes on from.
        """
        ids = self._known_ids(prompt)
        choose = Sampler(
            temperature=strategy.temperature, top_k=strategy.top_k, top_p=strategy.top_p, seed=strategy.seed
        )
        start, pending, context = self._starter(), [], ids[-self.length :]
        while tokens > 0:
            room = min(self.length + 1 - len(context), tokens)
            tokens -= room
            new = generate(start(), self._rules(strategy, context, room), choose)
            for token in itertools.islice(new, len(context), None):
                ids.append(token)
                pending.append(token)
                piece = self.tokenizer.decode_more(pending)
                # A character of several bytes may come in several tokens.
                if not piece.endswith("\N{REPLACEMENT CHARACTER}") or len(pending) > 3:
                    yield piece
                    pending = []
            context = ids[-max(self.length // 2, 1) :]
        if pending:
            yield self.tokenizer.decode_more(pending)

    def best(self, prompt: str, tokens: int, strategy: Strategy) -> list[tuple[str, float]]:
        """The `n_best` continuations that the strategy finds, each with the prompt before it, and their scores.

        Raises InputError for a prompt without a token that the model knows, and if the context has no room for so many
        tokens: a search can't go on from half of it.
        """
        ids = self._known_ids(prompt)
        if len(ids) + tokens > self.length + 1:
            raise InputError(
                f"A search for {tokens} tokens after a prompt of {len(ids)} needs a context of "
                f"{len(ids) + tokens - 1}, and this model has {self.length}. Ask for fewer tokens, or sample them."
            )
        found = dataclasses.replace(strategy, min_length=0, max_length=tokens).generate(
            self._starter()(), bos_id=None, eos_id=None, prefix=[ids], forbidden=self._special()
        )[0]
        return [(prompt + self.tokenizer.decode_more(one.ids[len(ids) :]), one.score) for one in found]

    def knows(self, prompt: str) -> bool:
        """Whether the prompt has a token that the model was trained on."""
        return any(i != self.tokenizer.unk_id for i in self.tokenizer.encode(prompt))

    def _known_ids(self, prompt: str) -> list[int]:
        known = [i for i in self.tokenizer.encode_whole(prompt) if i != self.tokenizer.unk_id]
        if not known:
            raise InputError(f"The prompt {prompt!r} has no token that this model knows. Give another one.")
        return known

    def _starter(self) -> Callable[[], DecodingState]:
        if isinstance(self.model, LanguageModel):
            return partial(self.model.start, 1, decoder=self.model.raw_decoder())
        return partial(self.model.start, 1)

    def _special(self) -> tuple[int, ...]:
        return tuple(self.tokenizer.special_ids.values())

    def _rules(self, strategy: Strategy, context: list[int], tokens: int) -> Rules:
        return Rules(
            None,
            None,
            [context],
            max_length=tokens,
            repetition_penalty=strategy.repetition_penalty,
            no_repeat_ngram=strategy.no_repeat_ngram,
            forbidden=self._special(),
        )


def train_language_model(
    text: TokenizedText,
    config: LanguageModelConfig | RecurrentConfig,
    preset: LanguageModelPreset,
    run: RunFolder,
    *,
    seed: int,
    steps: int | None = None,
    device: str = "cpu",
    resume: bool = False,
    stop_at: int | None = None,
    regime: Regime | None = None,
    teacher: Writer | None = None,
    init: Writer | None = None,
    task: str = "",
    say: Callable[[str], None] = print,
) -> Writer:
    """Train a model on `text` and leave it in the run's folder.

    Args:
        config: of the model; the class follows from it.
        preset: batches, optimiser and schedule.
        seed: decides the order of the windows. (Initial weights and dropout follow `manual_seed`.)
        steps: updates; the preset's number if None.
        resume: go on from the last save in `run`, which was started with the same arguments.
        stop_at: see `Trainer.fit`.
        regime: how to train beside what the preset says; `Regime()` if None.
        teacher: a writer to learn from as well, whose tokenizer cut the text.
        init: a writer to begin with, which is changed; its tokenizer cut the text, and its sizes count.
        task: what the model learns, in words, to be told from others when it is loaded.
        say: receives a line of text about each stage.

    Raises InputError for data, or a preset, that can't be used.
    """
    regime = regime or Regime()
    kind = "recurrent" if isinstance(config, RecurrentConfig) else "transformer"
    if init is not None:
        config = init.model.config
        kind = "recurrent" if isinstance(config, RecurrentConfig) else "transformer"
        preset = dataclasses.replace(preset, length=min(preset.length, init.length))
    model: Any = regime.make_model(init.begin if init else MODELS[kind][0], config, device)
    if teacher is not None:
        teacher.model.to(device).eval()
    steps = steps or preset.steps
    batches = WindowBatches(
        text.train, length=preset.length, batch_size=preset.batch_size, seed=seed, curriculum=regime.curriculum
    )
    say(
        f"{kind}: {model.parameter_count():,} parameters, {text.tokenizer.vocab_size:,} tokens; {steps:,} steps of "
        f"{preset.batch_size} windows of {preset.length}, {steps / len(batches):.1f} epochs"
    )
    text.tokenizer.save(run.tokenizer_path)
    trainer = Trainer(
        model,
        language_model_loss(preset.label_smoothing, teacher.model if teacher else None),
        regime.make_optimizer(model, preset),
        regime.make_schedule(preset, steps),
        batches,
        list(all_windows(text.valid[: max(preset.valid_tokens, 2)], preset.length, 32)),
        run,
        config=trained_config(task, run.tokenizer_path, config, kind=kind, length=preset.length),
        steps=steps,
        clip_norm=preset.clip_norm,
        validate_every=min(preset.validate_every, steps),
        training_label=f"training (dropout {config.dropout})",
        average=1,
        **regime.trainer_options(),
    )
    fit(trainer, resume=resume, stop_at=stop_at, say=say)
    return Writer(model, text.tokenizer, preset.length)
