"""The translation task: pairs of a source and a target text, on which a Translator is trained."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from ...autograd import Tensor, ops
from ...autograd.backend import to_device
from ...errors import InputError
from ...kinds import checked
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...models.hyperparameters import TranslationPreset
from ...models.shipped import MODELS
from ...nn import Module
from ...tokenizer import BPETokenizer, Tokenizer, WordTokenizer
from ..data.batches import Batch, BPEDropoutBatches, TokenBatches
from ..data.files import Pair
from ..data.pairs import pairs_of, title_case, train_and_valid
from ..data.sets import DataSet
from ..data.translation import load_translation_data
from ..updates import Loss
from .metrics import bleu
from .task import Task, TaskBatches, with_teacher
from .translator import Paraphraser, Summarizer, Translator  # noqa: F401

#: Fewer pairs give a translator that hardly translates other sentences.
FEW_PAIRS = 20_000


@checked
def translation_loss(label_smoothing: float, pad_id: int, teacher: Module | None = None, coverage: float = 0.0) -> Loss:
    """Return the loss for the Trainer: cross-entropy in nats per target token, without padding.

    It is smoothed only in training. Validation also measures the accuracy, the share of correctly predicted tokens.
    With a `teacher`, training minimises the mean of this loss and of `distillation_loss` against the teacher. Without a
    teacher, `coverage` times the `coverage_loss` of a model that copies may be added.
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
        return with_teacher(value, logits, teacher, inputs, counted), batch.target_tokens, {}

    return loss


def translation_batches(
    pairs: Sequence[Pair], tokenizer: Tokenizer, *, bpe_dropout: float = 0.0, **options: Any
) -> TokenBatches:
    """Make batches of the pairs. `options` are those of `TokenBatches`, including seed and order."""
    options |= {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id}
    if bpe_dropout:
        if not isinstance(tokenizer, BPETokenizer):
            raise InputError("bpe_dropout needs a model with byte-level BPE. Leave it out.")
        return BPEDropoutBatches(pairs, tokenizer, bpe_dropout, **options)
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return TokenBatches(tokenizer.encode_batch(sources, add_eos=True), tokenizer.encode_targets(targets), **options)


@checked
@dataclass
class Translation(Task[TranslationPreset, Translator]):
    """The task of learning to turn sources into targets, from (source, target) pairs."""

    train: Sequence[Pair]
    valid: Sequence[Pair]

    trained = Translator

    @classmethod
    def of(cls, trained: Translator, data: Any, valid: Any, tokenizer: Tokenizer | None, **settings: Any) -> Self:
        other = None if valid is None else cls.items(trained, valid)
        train, valid, notes = train_and_valid(cls.items(trained, data), other, 1)
        preset = cls.preset_of(trained, len(train), **settings)
        return cls(train, valid, preset=preset, name=trained.name, notes=notes)

    @staticmethod
    def items(trained: Translator, data: Any) -> DataSet[list[Pair]]:
        """Return pairs (source, target), from a file or a data set if `data` is a path or a name."""
        languages = {"source": trained.source or "source", "target": trained.target or "target"}
        return pairs_of(data, "(source, target)", partial(load_translation_data, **languages))

    def limited_to(self, init: Translator) -> Self:
        self._check_coverage(init.model.config)
        known = init.model.config
        length = min(self.preset.max_length, known.max_length)
        return self.with_preset(max_length=length, title_case=known.title_case, lowercase=known.lowercase)

    def advice(self) -> str:
        pairs, found = len(self.train), re.fullmatch(r"translation from (\w+) to (\w+)", self.name)
        shipped = f"everyday-{found[1]}-{found[2]}" if found else ""
        if pairs >= FEW_PAIRS:
            return ""
        cure = f"start from the model that comes with handloom: load('{shipped}')" if shipped in MODELS else "give more"
        return f"note: {pairs:,} pairs are {'far too' if pairs < 1_000 else 'too'} few to learn a language from; {cure}"

    def initial_model(self, init: Translator) -> Seq2SeqTransformer:
        init.model.add_encoder_layers(self.preset.new_encoder_layers)
        return init.model

    def _pairs(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the pairs in the form that the model reads."""
        if self.preset.lowercase:
            return [(source.lower(), target.lower()) for source, target in pairs]
        return [(title_case(source), target) for source, target in pairs] if self.preset.title_case else pairs

    def make_tokenizer(self) -> Tokenizer:
        texts = [text for pair in self._pairs(self.train) for text in pair]
        if self.preset.words:
            return WordTokenizer.train(texts, self.preset.vocab_size)
        return BPETokenizer.train(texts, self.preset.vocab_size, normalize=True)

    def batches(self, tokenizer: Tokenizer, seed: int) -> TaskBatches:
        preset = self.preset
        make = partial(
            translation_batches,
            tokenizer=tokenizer,
            tokens_per_batch=preset.tokens_per_batch,
            max_length=preset.max_length,
            seed=seed,
        )
        train = make(
            self._pairs(self.train),
            bpe_dropout=preset.bpe_dropout,
            curriculum=preset.curriculum,
            pad_to=preset.pad_to,
            pairs_per_batch=preset.pairs_per_batch,
        )
        valid = make(self._pairs(self.valid), shuffle=False)
        words = f", {train.padding_fraction:.0%} padding"
        return TaskBatches(train, valid.epoch(0), [train.note(), valid.note()], words)

    def config(self, tokenizer: Tokenizer) -> Seq2SeqConfig:
        config = self.preset.model_config(tokenizer.vocab_size, tokenizer.pad_id)
        if config.copy:
            config = replace(config, uncopied_id=tokenizer.eos_id)
        self._check_coverage(config)
        return config

    def _check_coverage(self, config: Seq2SeqConfig) -> None:
        if self.preset.coverage_loss and not config.copy:
            raise InputError("coverage_loss needs a pointer-generator: add copy=True.")

    def loss(self, tokenizer: Tokenizer, teacher: Module | None) -> Loss:
        preset = self.preset
        if teacher is not None and preset.coverage_loss:
            raise InputError("coverage_loss has no effect with a teacher: leave out one of them.")
        return translation_loss(preset.label_smoothing, tokenizer.pad_id, teacher, preset.coverage_loss)


@checked
def back_translate(translator: Translator, sentences: Sequence[str]) -> list[Pair]:
    """Return pairs (translation of the sentence, the sentence itself).

    Sentences with an empty translation are left out. Greedy search is fast, and for this purpose no worse than a beam.

    Args:
        translator: translates from the language of `sentences` into the other one.
        sentences: sentences in the target language of the model to be trained; blank ones are skipped.
    """
    real = [sentence for sentence in sentences if sentence.strip()]
    synthetic = translator.translate(real, beam=1, too_long="truncate", progress=True, split=False)
    return [(source, target) for source, target in zip(synthetic, real, strict=True) if source.strip()]


@checked
def round_trips(text: str, forth: Translator, back: Translator) -> tuple[str, str]:
    """Augment the training text of a language model: sentences translated into another language and back.

    Args:
        forth, back: translators into the other language, and back.

    Returns the new text, with five sentences per paragraph, and a line that describes its amount and its similarity
    to the original. Sentences of more than 40 words are not translated. Results that are unchanged, or contain
    characters that the text doesn't contain, are left out. Source of back-translation: Sennrich et al. 2016, arXiv
    1511.06709; of the round trip: Yu et al. 2018, arXiv 1804.09541, section 3.

    Raises InputError if nothing is left.
    """
    originals = [s for s in split_sentences(text) if len(s.split()) <= 40]
    away = forth.translate(originals, beam=1, too_long="truncate", progress=True, split=False)
    pairs = [(original, other) for original, other in zip(originals, away, strict=True) if other.strip()]
    returned = back.translate([other for _, other in pairs], beam=1, too_long="truncate", progress=True, split=False)
    known = set(text)
    kept = [
        (original, new)
        for (original, _), new in zip(pairs, returned, strict=True)
        if new.strip() and new != original and known.issuperset(new)
    ]
    if not kept:
        raise InputError("Translating the text there and back changed no sentence. Train the two models for longer.")
    new = [sentence for _, sentence in kept]
    note = (
        f"{len(kept):,} of {len(originals):,} sentences are new after two translations, {sum(map(len, new)):,} "
        f"characters; BLEU against their originals {bleu(new, [original for original, _ in kept]).value:.1f}"
    )
    return "\n\n".join(" ".join(new[i : i + 5]) for i in range(0, len(new), 5)) + "\n", note


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, each on one line, with blank lines between paragraphs."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [s for paragraph in paragraphs for s in re.split(r"(?<=[.!?])\s+", paragraph) if s.strip()]
