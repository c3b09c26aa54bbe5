"""The classification task: batches of labelled texts, training with class weights and early stopping, prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..autograd import Tensor, no_grad, ops
from ..errors import InputError
from ..models import ClassifierConfig, TransformerClassifier
from ..models.presets import ClassifierPreset
from ..nn import Module
from ..tokenizer import Tokenizer, WordTokenizer, load_tokenizer
from .batching import TokenSequences
from .checkpoints import check_shapes, load_checkpoint
from .optimizers import Adam
from .run_folder import RunFolder
from .schedules import constant
from .trainer import Trainer

Labelled = tuple[str, str]  # text, label


class LabelledBatch(NamedTuple):
    """B texts: ids (B, length) padded at the end, lengths (B,), labels (B,), and which texts they are (B,)."""

    ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    indices: np.ndarray


class LabelledBatches:
    """Texts in batches of `batch_size`, like lengths together, in an order that depends on (seed, epoch) alone.

    Args:
        ids: token ids of each text.
        labels: (n,) integers.
        shuffle: False keeps the order of the texts.

    Raises ValueError if there is no text.
    """

    _POOL = 50  # batches among which texts are sorted by length

    def __init__(
        self,
        ids: Sequence[Sequence[int]],
        labels: np.ndarray,
        *,
        batch_size: int,
        seed: int,
        pad_id: int,
        shuffle: bool = True,
    ):
        if not len(ids):
            raise ValueError("there is no text to make batches of")
        self.sequences, self.labels = TokenSequences.from_lists(ids), labels
        self.batch_size, self.seed, self.pad_id, self.shuffle = batch_size, seed, pad_id, shuffle

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch_size)

    def epoch(self, epoch: int = 0, start: int = 0, every: int = 1) -> Iterator[LabelledBatch]:
        """Batches start, start + every, ... of the epoch; each text occurs once."""
        order = np.arange(len(self.labels))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        if self.shuffle:
            generator = np.random.default_rng([self.seed, epoch])
            order = generator.permutation(order)
            pool = self._POOL * self.batch_size
            pieces = [order[i : i + pool] for i in range(0, len(order), pool)]
            pieces = [piece[np.argsort(self.sequences.lengths[piece], kind="stable")] for piece in pieces]
            order = np.concatenate(pieces)
            batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
            batches = [batches[i] for i in generator.permutation(len(batches))]
        for indices in batches[start::every]:
            ids = self.sequences.pad(indices, self.pad_id)
            yield LabelledBatch(ids, self.sequences.lengths[indices], self.labels[indices], indices)


def class_weights(labels: np.ndarray, classes: int) -> np.ndarray:
    """(classes,) float32, inverse to each class's frequency and with mean 1 over the texts; 0 for a class without one.

    Source: King and Zeng 2001, "Logistic regression in rare events data", section 4.2.
    """
    counts = np.bincount(labels, minlength=classes)
    present = np.count_nonzero(counts)
    return np.where(counts > 0, len(labels) / (present * np.maximum(counts, 1)), 0.0).astype(np.float32)


def classification_loss(weights: np.ndarray | None) -> Callable[[Module, LabelledBatch], Any]:
    """The Trainer's loss: cross-entropy in nats per text, each weighted by its class, and the accuracy."""

    def loss(model: Module, batch: LabelledBatch) -> tuple[Tensor, int, dict[str, float]]:
        logits = model(batch.ids, batch.lengths)
        total = ops.cross_entropy(logits, batch.labels, weight=weights, reduction="sum")
        accuracy = float((logits.data.argmax(axis=1) == batch.labels).mean())
        return total / len(batch.labels), len(batch.labels), {"accuracy": accuracy}

    return loss


class Classifier:
    """A trained model, its tokenizer and the names of its classes."""

    def __init__(self, model: TransformerClassifier, tokenizer: Tokenizer, labels: Sequence[str]):
        self.model, self.tokenizer, self.labels = model.eval(), tokenizer, list(labels)

    @classmethod
    def load(cls, folder: str | Path) -> Classifier:
        """The classifier that a run left in `folder`. Raises InputError if it is no run of one, or damaged."""
        run = RunFolder.open(folder)
        tensors, config = load_checkpoint(run.path)
        tokenizer = load_tokenizer(run.tokenizer_path)
        try:
            model, labels = TransformerClassifier(ClassifierConfig(**config["model"])), list(config["labels"])
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{run.model_path} does not say which classifier it holds ({error}). Give the folder of a run of "
                "examples/classify_news.py made by this version of handloom, or train again."
            ) from None
        expected = {name: array.shape for name, array in model.state_dict().items()}
        check_shapes(expected, {name: array.shape for name, array in tensors.items()}, run.model_path)
        model.load_state_dict(tensors)
        return cls(model, tokenizer, labels)

    def probabilities(self, texts: Sequence[str], batch_size: int = 128) -> np.ndarray:
        """(texts, classes): how likely each class is."""
        self.model.eval()
        ids = text_ids(self.tokenizer, texts, self.model.config.max_length)
        out = np.empty((len(texts), len(self.labels)), np.float32)
        order = np.argsort([len(one) for one in ids], kind="stable")  # like lengths together: less padding
        with no_grad():
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                sequences = TokenSequences.from_lists([ids[row] for row in rows])
                padded = sequences.pad(np.arange(len(rows)), self.tokenizer.pad_id)
                out[rows] = ops.softmax(self.model(padded, sequences.lengths)).data
        return out

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text."""
        return [self.labels[i] for i in self.probabilities(texts).argmax(axis=1)]


def text_ids(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """<bos> and the first tokens of each text, `max_length` in all."""
    return [ids[:max_length] for ids in tokenizer.encode_batch(texts, add_bos=True)]


def train_classifier(
    train: Sequence[Labelled],
    valid: Sequence[Labelled],
    preset: ClassifierPreset,
    run: RunFolder,
    *,
    seed: int,
    steps: int | None = None,
    device: str = "cpu",
    resume: bool = False,
    stop_at: int | None = None,
    say: Callable[[str], None] = print,
    **changes: Any,
) -> Classifier:
    """Train a vocabulary and a classifier on (text, label) pairs and leave both in the run's folder.

    Args:
        seed: decides the order of the batches. (Initial weights and dropout follow `manual_seed`.)
        steps: updates at most; the preset's epochs if None. Training ends before when `preset.patience` validations in
            a row, one an epoch, bring no better accuracy.
        resume, stop_at, say: as in `train_translator`.
        changes: to the preset's ClassifierConfig, such as nhead=4.
    """
    labels = sorted({label for _, label in train})
    number = {label: i for i, label in enumerate(labels)}
    if resume:
        tokenizer: Tokenizer = load_tokenizer(run.tokenizer_path)
    else:
        tokenizer = WordTokenizer.train(
            [text for text, _ in train], preset.vocab_size, min_frequency=preset.min_frequency
        )
        tokenizer.save(run.tokenizer_path)

    def batches(pairs: Sequence[Labelled], shuffle: bool) -> LabelledBatches:
        ids = text_ids(tokenizer, [text for text, _ in pairs], preset.max_length)
        targets = np.array([number[label] for _, label in pairs], np.int64)
        return LabelledBatches(
            ids, targets, batch_size=preset.batch_size, seed=seed, pad_id=tokenizer.pad_id, shuffle=shuffle
        )

    train_batches, valid_batches = batches(train, True), batches(valid, False)
    config = preset.model_config(tokenizer.vocab_size, len(labels), tokenizer.pad_id, **changes)
    model = TransformerClassifier(config).to(device)
    steps = steps or preset.epochs * len(train_batches)
    common, rare = (count for _, count in np.array(Counter(label for _, label in train).most_common(), object)[[0, -1]])
    say(
        f"classifier: {model.parameter_count():,} parameters, {tokenizer.vocab_size:,} words, {len(labels)} classes of "
        f"{rare:,} to {common:,} texts; at most {steps:,} steps of {preset.batch_size}"
    )
    weights = class_weights(train_batches.labels, len(labels)) if preset.weighted else None
    trainer = Trainer(
        model,
        classification_loss(weights),
        Adam(model.parameters(), betas=preset.betas),
        constant(preset.lr, preset.warmup),
        train_batches,
        valid_batches.epoch(),
        run,
        config={"model": config.to_dict(), "labels": labels},
        steps=steps,
        clip_norm=preset.clip_norm,
        validate_every=min(len(train_batches), steps),
        training_label=f"training (dropout {config.dropout})",
        monitor="valid_accuracy",
        higher_is_better=True,
        patience=preset.patience,
        average=1,
        unit="text",
    )
    if resume:
        for problem in trainer.load():
            say(f"warning: {problem} An older save is used.")
        say(f"resumed after step {trainer.progress.step:,}")
    trainer.fit(stop_at)
    return Classifier(model, tokenizer, labels)
