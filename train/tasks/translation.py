"""The translation task: pairs of a source and a target text, and the Translator that is trained on them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from tqdm import tqdm

from ...autograd import Tensor, no_grad, ops
from ...autograd.backend import to_device
from ...errors import InputError
from ...models import Hypothesis, Seq2SeqConfig, Seq2SeqTransformer, Strategy
from ...models.hyperparameters import TranslationPreset
from ...nn import Module, attention_maps
from ...tokenizer import BPETokenizer, Tokenizer
from ..data.batches import Batch, TokenBatches, fit_lengths, source_batches
from ..data.cleaning import title_case
from ..trainer import Loss
from .loading import Trained
from .objectives import taught
from .task import Task, TaskBatches, TrainedModel

Pair = tuple[str, str]
TooLong = Literal["error", "truncate"]
_WORD = re.compile(r"\w+")


class Translator(TrainedModel):
    """A trained model and the tokenizer shared by its two languages."""

    what = "translator"
    kinds: ClassVar[dict[str, tuple[Any, Any]]] = {"": (Seq2SeqTransformer, Seq2SeqConfig)}

    def __init__(self, model: Seq2SeqTransformer, tokenizer: Tokenizer, own: Strategy | None = None):
        """`own` is how the model's folder says to generate, where it does."""
        self.model, self.tokenizer, self.own = model, tokenizer, own or Strategy()

    @classmethod
    def _of_run(cls, found: Trained, folder: str | Path) -> Translator:
        return cls(found.model, found.tokenizer)

    @classmethod
    def _of_pretrained(cls, found: Any) -> Translator:
        return cls(found.model, found.tokenizer, found.strategy)

    def source_ids(self, sentences: Sequence[str], too_long: TooLong = "error") -> list[list[int]]:
        """Sentences as the encoder takes them: token ids and <eos>. Raises InputError for empty and too long ones."""
        for number, sentence in enumerate(sentences, 1):
            if not sentence.strip():
                raise InputError(f"Sentence {number} is empty. Leave out empty lines; there is nothing to translate.")
        if self.model.config.title_case:
            sentences = [title_case(sentence) for sentence in sentences]
        ids = self.tokenizer.encode_batch(sentences, add_eos=True)
        limit, eos_id = self.model.config.max_length, self.tokenizer.eos_id
        return fit_lengths(ids, limit, too_long=too_long, eos_id=eos_id, texts=sentences)

    def hypotheses(
        self,
        sentences: Sequence[str],
        *,
        strategy: Strategy | None = None,
        too_long: TooLong = "error",
        progress: bool = False,
        scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of the strategy for each sentence, best first; by default a beam search of width 5.

        `too_long` and `progress` as in `translate`, and the same errors; `scores` as in `Strategy.generate`.
        """
        strategy = strategy or self.own
        strategy = dataclasses.replace(
            strategy,
            forbidden=tuple({*strategy.forbidden, *self.own.forbidden}),
            forced_last=self.own.forced_last if strategy.forced_last is None else strategy.forced_last,
        )
        tokenizer = self.tokenizer
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        self.model.eval()
        decoder = self.model.raw_decoder(packed=len(sentences) > 100)  # a few sentences are translated before it pays
        ids = self.source_ids(sentences, too_long)
        tokens = max(4096 // strategy.width, 1)
        with tqdm(total=len(sentences), unit="sentence", disable=None if progress else True) as bar:
            for batch in source_batches(ids, tokens_per_batch=tokens, pad_id=tokenizer.pad_id):
                found_in_batch = strategy.generate(
                    self.model.start(
                        batch.source, batch.source_lengths, decoder=decoder, keep_attention=strategy.coverage > 0
                    ),
                    bos_id=tokenizer.bos_id,
                    eos_id=tokenizer.eos_id,
                    numbers=batch.indices.tolist(),
                    compared=lambda ids: _WORD.findall(tokenizer.decode(ids).casefold()),
                    scores=scores,
                )
                for index, result in zip(batch.indices, found_in_batch, strict=True):
                    found[index] = result
                bar.update(len(batch))
        return found

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam: int = 5,
        alpha: float = 1.0,
        strategy: Strategy | None = None,
        too_long: TooLong = "error",
        progress: bool = False,
    ) -> list[str]:
        """The best translation of each sentence.

        Args:
            beam: hypotheses kept at each step; 1 is greedy search.
            alpha: exponent of the length penalty.
            strategy: how to search; it replaces these two.
            too_long: for a sentence longer than the model takes: "error" refuses it, "truncate" translates its
                beginning, with a warning.
            progress: show a progress bar where there is a terminal.

        Raises InputError for an empty sentence, or one longer than the model takes.
        """
        strategy = strategy or Strategy(beam=beam, alpha=alpha)
        best = self.hypotheses(sentences, strategy=strategy, too_long=too_long, progress=progress, scores=False)
        return [self.tokenizer.decode(hypotheses[0].ids) for hypotheses in best]

    def attention(self, sentence: str, target: Sequence[int] | None = None) -> tuple[np.ndarray, list[str], list[str]]:
        """Cross-attention of a translation: weights, source tokens, target tokens.

        The weights (target tokens, source tokens) are those of the last decoder layer, averaged over its heads; row t
        is where the model looked when it wrote token t. `target` are the translation's ids, those of the best one if
        None. Both lists end with <eos>, unless the length limit came first.
        """
        maps, source, written = self.attention_maps(sentence, target)
        last = f"decoder.layers.{self.model.config.decoder_layers - 1}.multihead_attn"
        return maps[last].mean(axis=0), source, written

    def attention_maps(
        self, sentence: str, target: Sequence[int] | None = None
    ) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
        """As `attention`, but all weights: of each attention layer by its name, (heads, query tokens, key tokens).

        Queries and keys of the encoder are source tokens; those of the decoder's self-attention are the tokens that it
        has read, <bos> first, of which query t wrote target token t.
        """
        source, inputs, written = self._with_translation(sentence, target)
        with no_grad(), attention_maps(self.model) as maps:
            self.model(source, inputs)
        names = [self.tokenizer.token_strings(ids[0].tolist()) for ids in (source, written)]
        return {layer: weights[0][0] for layer, weights in maps.items()}, names[0], names[1]

    def copied(self, sentence: str, target: Sequence[int] | None = None) -> tuple[np.ndarray, list[str], list[str]]:
        """What a model that copies has copied: probabilities, source tokens, target tokens, these two as `attention`.

        Of the probabilities (target tokens, source tokens), row t says how probably token t was copied, and from where.
        """
        source, inputs, written = self._with_translation(sentence, target)
        shares = to_device(self.model.copied(source, inputs, written), "cpu")[0]
        return shares, *(self.tokenizer.token_strings(ids[0].tolist()) for ids in (source, written))

    def _with_translation(self, sentence: str, target: Sequence[int] | None) -> tuple[np.ndarray, ...]:
        """A batch of one sentence and its translation, the best one if None: source, decoder's inputs, and outputs."""
        source = self.source_ids([sentence], too_long="truncate")
        if target is None:
            target = self.hypotheses([sentence], too_long="truncate")[0][0].ids
        inputs = [self.tokenizer.bos_id, *target][: self.model.config.max_length]
        self.model.eval()
        return np.array(source), np.array([inputs]), np.array([[*target, self.tokenizer.eos_id][: len(inputs)]])


def translation_loss(label_smoothing: float, pad_id: int, teacher: Module | None = None, coverage: float = 0.0) -> Loss:
    """The Trainer's loss: cross-entropy in nats per target token, without padding; smoothed only in training.

    In validation the accuracy is measured as well, the share of tokens that are the most probable. With a `teacher`,
    training minimises the mean of this loss and of `distillation_loss` against the teacher; without one, `coverage`
    times the `coverage_loss` of a model that copies may be added to it.
    """

    def loss(model: Any, batch: Batch) -> tuple[Tensor, int, dict[str, float]]:
        inputs = (batch.source, batch.target_input, batch.source_lengths)
        if model.training and teacher is None:  # nothing else needs the logits
            source, target, lengths = inputs
            value = model.loss(
                source, target, batch.target_output, lengths, label_smoothing=label_smoothing, coverage=coverage
            )
            return value, batch.target_tokens, {}
        logits = model(*inputs)
        smoothing = label_smoothing if model.training else 0.0
        value = ops.cross_entropy(logits, batch.target_output, ignore_index=pad_id, label_smoothing=smoothing)
        counted = batch.target_output != pad_id  # on the host, or the device if the batch is there
        if not model.training:
            right = (to_device(logits.data.argmax(axis=-1), "cpu") == batch.target_output) & counted
            return value, batch.target_tokens, {"accuracy": float(right.sum() / counted.sum())}
        assert teacher is not None
        return taught(value, logits, teacher, inputs, counted), batch.target_tokens, {}

    return loss


def translation_batches(
    pairs: Sequence[Pair], tokenizer: Tokenizer, *, tokens_per_batch: int, max_length: int, **options: Any
) -> TokenBatches:
    """The pairs as batches; `options` are those of `TokenBatches`, seed and order."""
    return TokenBatches(
        tokenizer.encode_batch([source for source, _ in pairs], add_eos=True),
        tokenizer.encode_targets([target for _, target in pairs]),
        tokens_per_batch=tokens_per_batch,
        max_length=max_length,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        **options,
    )


@dataclass
class Translation(Task[TranslationPreset, Translator]):
    """Learn to turn sources into targets, from (source, target) pairs."""

    train: Sequence[Pair]
    valid: Sequence[Pair]

    trained = Translator

    def limited_to(self, init: Translator) -> Translation:
        self._check_coverage(init.model.config)
        known = init.model.config
        return self.with_preset(max_length=min(self.preset.max_length, known.max_length), title_case=known.title_case)

    def _pairs(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """The pairs as the model is to read them."""
        return [(title_case(source), target) for source, target in pairs] if self.preset.title_case else pairs

    def make_tokenizer(self) -> Tokenizer:
        return BPETokenizer.train([text for pair in self._pairs(self.train) for text in pair], self.preset.vocab_size)

    def batches(self, tokenizer: Tokenizer, seed: int) -> TaskBatches:
        preset = self.preset
        make = partial(
            translation_batches,
            tokenizer=tokenizer,
            tokens_per_batch=preset.tokens_per_batch,
            max_length=preset.max_length,
            seed=seed,
        )
        train = make(self._pairs(self.train), curriculum=preset.curriculum, pad_to=preset.pad_to)
        valid = make(self._pairs(self.valid), shuffle=False)
        words = f", {train.padding_fraction:.0%} padding"
        return TaskBatches(train, valid.epoch(0), [train.note(), valid.note()], words)

    def config(self, tokenizer: Tokenizer) -> Seq2SeqConfig:
        config = self.preset.model_config(tokenizer.vocab_size, tokenizer.pad_id)
        if config.copy:
            config = dataclasses.replace(config, uncopied_id=tokenizer.eos_id)
        self._check_coverage(config)
        return config

    def _check_coverage(self, config: Seq2SeqConfig) -> None:
        if self.preset.coverage_loss and not config.copy:
            raise InputError("--set coverage_loss: only a model that copies has one. Add --set copy=true.")

    def build(self, config: Seq2SeqConfig) -> Seq2SeqTransformer:
        return Seq2SeqTransformer(config)

    def loss(self, tokenizer: Tokenizer, teacher: Module | None) -> Loss:
        preset = self.preset
        if teacher is not None and preset.coverage_loss:
            raise InputError("--set coverage_loss has no effect beside a --teacher: leave out one of them.")
        return translation_loss(preset.label_smoothing, tokenizer.pad_id, teacher, preset.coverage_loss)

    def finish(self, model: Seq2SeqTransformer, tokenizer: Tokenizer, init: Translator | None) -> Translator:
        return Translator(model, tokenizer, None if init is None else init.own)

    def step_words(self, batches: int) -> str:
        return f"up to {self.preset.tokens_per_batch * batches:,} tokens"
