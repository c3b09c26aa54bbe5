"""The classification task: batches of labelled texts, training with class weights and early stopping, prediction."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...autograd import Tensor, no_grad, ops
from ...autograd.backend import array_module
from ...errors import InputError
from ...models import ClassifierConfig, TransformerClassifier, pretrained
from ...models.presets import ClassifierPreset
from ...nn import Module, attention_maps
from ...tokenizer import Tokenizer, WordTokenizer, load_tokenizer
from ..data.batches import TokenSequences
from ..runs.folder import RunFolder
from ..trainer import Loss, Trainer
from .foreign import is_foreign
from .loading import load_trained, trained_config
from .objectives import class_weights, taught
from .regimes import Regime, fit

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
        curriculum: epochs in which batches come short to long.
        pad_to: pad to a multiple of this many tokens, or to the longest text.

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
        curriculum: int = 0,
        pad_to: int = 1,
    ):
        if not len(ids):
            raise ValueError("there is no text to make batches of")
        self.sequences, self.labels = TokenSequences.from_lists(ids), labels
        self.batch_size, self.seed, self.pad_id, self.shuffle = batch_size, seed, pad_id, shuffle
        self.curriculum, self.pad_to = curriculum, pad_to

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch_size)

    def fingerprint(self) -> str:
        """A checksum of what the batches are made from."""
        options = self.batch_size, self.seed, self.shuffle, self.curriculum, self.pad_to
        total = hashlib.sha256(repr(options).encode())
        for array in (self.sequences.offsets, self.sequences.tokens, self.labels):
            total.update(np.ascontiguousarray(array).data)
        return total.hexdigest()

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
            if epoch < self.curriculum:
                batches.sort(key=lambda batch: int(self.sequences.lengths[batch].max()))
            else:
                batches = [batches[i] for i in generator.permutation(len(batches))]
        for indices in batches[start::every]:
            lengths = self.sequences.lengths
            width = min(-(-int(lengths[indices].max()) // self.pad_to) * self.pad_to, int(lengths.max()))
            ids = self.sequences.pad(indices, self.pad_id, width=width)
            yield LabelledBatch(ids, lengths[indices], self.labels[indices], indices)


def classification_loss(
    weights: np.ndarray | None, label_smoothing: float = 0.0, teacher: Module | None = None
) -> Loss:
    """The Trainer's loss: cross-entropy in nats per text, each weighted by its class, and the accuracy.

    Smoothing and the `teacher` (see `taught`) count in training only.
    """

    def loss(model: Module, batch: LabelledBatch) -> tuple[Tensor, int, dict[str, Any]]:
        logits = model(batch.ids, batch.lengths)
        smoothing = label_smoothing if label_smoothing and model.training else 0.0
        total = ops.cross_entropy(logits, batch.labels, weight=weights, label_smoothing=smoothing, reduction="sum")
        value = total / len(batch.labels)
        if teacher is not None and model.training:
            value = taught(value, logits, teacher, [batch.ids, batch.lengths])
        right = logits.data.argmax(axis=1) == array_module(logits.data).asarray(batch.labels)
        return value, len(batch.labels), {"accuracy": right.mean()}

    return loss


class Classifier:
    """A trained model, its tokenizer and the names of its classes."""

    def __init__(self, model: TransformerClassifier, tokenizer: Tokenizer, labels: Sequence[str]):
        self.model, self.tokenizer, self.labels = model.eval(), tokenizer, list(labels)

    @classmethod
    def load(
        cls, folder: str | Path, tasks: Collection[str] | None = None, labels: Sequence[str] | None = None
    ) -> Classifier:
        """The classifier that a run left in `folder`, or a BERT that `models.pretrained` loads by folder or name.

        A run must have been trained for one of `tasks`; None takes any. With other `labels` than its own a BERT gets an
        output layer that knows nothing yet. Raises InputError as `load_trained` and `pretrained.load`.
        """
        if is_foreign(folder):
            found = pretrained.load(folder, labels=labels)
            if not isinstance(found.model, TransformerClassifier):
                raise InputError(f"{folder} holds no classifier: its model is a {type(found.model).__name__}.")
            assert found.tokenizer is not None
            return cls(found.model, found.tokenizer, found.labels)
        kinds = {"": (TransformerClassifier, ClassifierConfig)}
        model, tokenizer, config = load_trained(folder, "classifier", kinds, tasks)
        names = config.get("labels")
        classes = model.config.classes
        if not isinstance(names, list) or len({one for one in names if isinstance(one, str)}) != classes:
            raise InputError(f"The classifier in {folder} does not name its {classes} classes. Restore a copy of it.")
        return cls(model, tokenizer, names)

    def begin(self, config: ClassifierConfig) -> TransformerClassifier:
        """The model itself, to train on."""
        return self.model.train()

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
                out[rows] = ops.softmax(self.model(padded, sequences.lengths)).numpy()
        return out

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text."""
        return [self.labels[i] for i in self.probabilities(texts).argmax(axis=1)]

    def best(self, text: str, most: int = 3) -> str:
        """The likeliest classes of a text in a line, each with its share."""
        shares = self.probabilities([text])[0]
        return ", ".join(f"{self.labels[i]} {shares[i]:.0%}" for i in shares.argsort()[::-1][:most])

    def attention_maps(self, text: str) -> tuple[np.ndarray, list[str]]:
        """The last layer's attention to a text, (heads, tokens, tokens), and its tokens. The first reads the class."""
        ids = text_ids(self.tokenizer, [text], self.model.config.max_length)
        self.model.eval()
        with no_grad(), attention_maps(self.model) as maps:
            self.model(np.array(ids))
        weights = maps[f"encoder.layers.{self.model.config.layers - 1}.self_attn"][0][0]
        return weights, self.tokenizer.token_strings(ids[0])


def text_ids(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """<bos> and the first tokens of each text, and <eos> if the tokenizer ends texts; `max_length` in all."""
    if not tokenizer.ends:
        return [ids[:max_length] for ids in tokenizer.encode_batch(texts, add_bos=True)]
    return [[*ids[: max_length - 1], tokenizer.eos_id] for ids in tokenizer.encode_batch(texts, add_bos=True)]


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
    regime: Regime | None = None,
    teacher: Classifier | None = None,
    init: Classifier | None = None,
    task: str = "",
    say: Callable[[str], None] = print,
) -> Classifier:
    """Train a vocabulary and a classifier on (text, label) pairs and leave both in the run's folder.

    Args:
        seed: decides the order of the batches. (Initial weights and dropout follow `manual_seed`.)
        steps: updates at most; the preset's epochs if None. Training ends before when `preset.patience` validations in
            a row, one an epoch, bring no better accuracy.
        resume, stop_at, regime, task, say: as in `train_translator`.
        teacher: a classifier of the same classes to learn from as well; its vocabulary becomes this one's.
        init: a classifier of the same classes to begin with, which is changed; its sizes and its vocabulary count.

    Raises InputError for a preset or a teacher that can't be used.
    """
    regime = regime or Regime()
    labels = sorted({label for _, label in train})
    number = {label: i for i, label in enumerate(labels)}
    if init is not None and init.labels != labels:
        raise InputError("The model of --init knows other classes than the training texts have.")
    if init is not None:
        preset = dataclasses.replace(preset, max_length=min(preset.max_length, init.model.config.max_length))
    if teacher is not None and teacher.labels != labels:
        raise InputError("The teacher knows other classes than the training texts have: train it on the same data.")
    if resume:
        tokenizer: Tokenizer = load_tokenizer(run.tokenizer_path)
    elif init is not None:
        tokenizer = init.tokenizer
        tokenizer.save(run.tokenizer_path)
    else:
        texts = [text for text, _ in train]
        tokenizer = WordTokenizer.train(texts, preset.vocab_size, min_frequency=preset.min_frequency)
        tokenizer = teacher.tokenizer if teacher else tokenizer
        tokenizer.save(run.tokenizer_path)

    def batches(pairs: Sequence[Labelled], shuffle: bool) -> LabelledBatches:
        ids = text_ids(tokenizer, [text for text, _ in pairs], preset.max_length)
        targets = np.array([number[label] for _, label in pairs], np.int64)
        return LabelledBatches(
            ids,
            targets,
            batch_size=preset.batch_size,
            seed=seed,
            pad_id=tokenizer.pad_id,
            shuffle=shuffle,
            curriculum=regime.curriculum,
            pad_to=regime.pad_to,
        )

    train_batches, valid_batches = batches(train, True), batches(valid, False)
    config = init.model.config if init else preset.model_config(tokenizer.vocab_size, len(labels), tokenizer.pad_id)
    model = regime.make_model(init.begin if init else TransformerClassifier, config, device)
    if teacher is not None:
        teacher.model.to(device).eval()
    steps = steps or preset.epochs * len(train_batches)
    common, rare = (count for _, count in np.array(Counter(label for _, label in train).most_common(), object)[[0, -1]])
    say(
        f"classifier: {model.parameter_count():,} parameters, {tokenizer.vocab_size:,} words, {len(labels)} classes of "
        f"{rare:,} to {common:,} texts; at most {steps:,} steps of {preset.batch_size}"
    )
    weights = class_weights(train_batches.labels, len(labels)) if preset.weighted else None
    trainer = Trainer(
        model,
        classification_loss(weights, preset.label_smoothing, teacher.model if teacher else None),
        regime.make_optimizer(model, preset),
        regime.make_schedule(preset, steps),
        train_batches,
        valid_batches.epoch(),
        run,
        config=trained_config(task, run.tokenizer_path, config, labels=labels),
        steps=steps,
        clip_norm=preset.clip_norm,
        validate_every=min(len(train_batches), steps),
        training_label=f"training (dropout {config.dropout})",
        average=1,
        unit="text",
        **regime.trainer_options("valid_accuracy", preset.patience),
    )
    fit(trainer, resume=resume, stop_at=stop_at, say=say)
    return Classifier(model, tokenizer, labels)
