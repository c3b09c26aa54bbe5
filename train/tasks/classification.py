"""The classification task: batches of labelled texts, training with class weights and early stopping, prediction."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...autograd import Tensor, no_grad, ops
from ...autograd.backend import array_module
from ...errors import InputError, several
from ...kinds import checked
from ...models import ClassifierConfig, TransformerClassifier
from ...models.hyperparameters import ClassifierPreset
from ...models.presets import CLASSIFIER_PRESETS
from ...models.word_vectors import word_vectors
from ...nn import Module, attention_maps
from ...tokenizer import Tokenizer, WordTokenizer
from ..data.batches import TokenSequences, fingerprint_of
from ..data.news import load_news
from ..data.pairs import pairs_of, train_and_valid
from ..data.sets import DataSet
from ..updates import Loss
from .metrics import class_scores
from .task import Task, TaskBatches, TrainedModel, with_teacher

Labelled = tuple[str, str]  # text, label
#: The largest weight of a class in the loss. In the News Category set (1,014 to 35,602 articles) it is 4.9.
MAX_WEIGHT = 10.0


class LabelledBatch(NamedTuple):
    """A batch of B texts: ids (B, length) padded at the end, lengths (B,), labels (B,) and the texts' indices (B,)."""

    ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    indices: np.ndarray


class LabelledBatches:
    """Batches of `batch_size` texts of similar length, in an order that depends only on (seed, epoch).

    `labels` are (n,) integers. Without `shuffle` the texts keep their order. In the first epochs, as many as
    `curriculum`, batches are ordered by length. Texts are padded to a multiple of `pad_to` tokens, or to the longest.
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
        self.sequences, self.labels = TokenSequences(ids), labels
        self.batch_size, self.seed, self.pad_id, self.shuffle = batch_size, seed, pad_id, shuffle
        self.curriculum, self.pad_to = curriculum, pad_to

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch_size)

    def fingerprint(self) -> str:
        """Return a checksum of the data in the batches."""
        options = self.batch_size, self.seed, self.shuffle, self.curriculum, self.pad_to
        return fingerprint_of(options, self.sequences.offsets, self.sequences.tokens, self.labels)

    def epoch(self, epoch: int = 0, start: int = 0, every: int = 1) -> Iterator[LabelledBatch]:
        """Yield batches start, start + every, ... of the epoch. Each text occurs once."""
        order, lengths, size = np.arange(len(self.labels)), self.sequences.lengths, self.batch_size
        generator = np.random.default_rng([self.seed, epoch])
        if self.shuffle:
            order, pool = generator.permutation(order), self._POOL * size
            pools = [order[i : i + pool] for i in range(0, len(order), pool)]
            order = np.concatenate([each[np.argsort(lengths[each], kind="stable")] for each in pools])
        batches = [order[i : i + size] for i in range(0, len(order), size)]
        if self.shuffle and epoch < self.curriculum:
            batches.sort(key=lambda batch: int(lengths[batch].max()))
        elif self.shuffle:
            batches = [batches[i] for i in generator.permutation(len(batches))]
        for indices in batches[start::every]:
            width = min(-(-int(lengths[indices].max()) // self.pad_to) * self.pad_to, int(lengths.max()))
            ids = self.sequences.pad(indices, self.pad_id, width=width)
            yield LabelledBatch(ids, lengths[indices], self.labels[indices], indices)


def classification_loss(
    weights: np.ndarray | None, label_smoothing: float = 0.0, teacher: Module | None = None, consistency: float = 0.0
) -> Loss:
    """Return the loss for the Trainer, cross-entropy in nats per text, each weighted by its class, and the accuracy.

    Smoothing, the `teacher` (see `with_teacher`) and `consistency` count in training only. With `consistency` each text
    is read twice, with different dropout, and the loss includes `consistency` times the `disagreement` of the two
    predictions.
    """

    def loss(model: Module, batch: LabelledBatch) -> tuple[Tensor, int, dict[str, Any]]:
        if consistency and model.training:
            xp = array_module(batch.ids)
            twice = LabelledBatch(*(xp.concatenate([part, part]) for part in batch))
            value, logits, more = supervised(model, twice)
            return value + disagreement(logits) * consistency, len(batch.labels), more
        value, _, more = supervised(model, batch)
        return value, len(batch.labels), more

    def supervised(model: Module, batch: LabelledBatch) -> tuple[Tensor, Tensor, dict[str, Any]]:
        logits = model(batch.ids, batch.lengths)
        smoothing = label_smoothing if label_smoothing and model.training else 0.0
        total = ops.cross_entropy(logits, batch.labels, weight=weights, label_smoothing=smoothing, reduction="sum")
        value = total / len(batch.labels)
        if teacher is not None and model.training:
            value = with_teacher(value, logits, teacher, [batch.ids, batch.lengths])
        right = logits.data.argmax(axis=1) == array_module(logits.data).asarray(batch.labels)
        return value, logits, {"accuracy": right.mean()}

    return loss


def disagreement(logits: Tensor) -> Tensor:
    """Compute (KL(p || q) + KL(q || p)) / 2 in nats per text, where p and q are two predictions for the same text.

    The first half of the `logits` (2 texts, classes) gives p, and the second half gives q. The two predictions come
    from two passes with different dropout. Source: Liang et al. 2021, arXiv 2106.14448, equation 2.
    """
    texts = len(logits.data) // 2
    log_p = ops.log_softmax(logits)
    first, second = log_p[:texts], log_p[texts:]
    return ((ops.exp(first) - ops.exp(second)) * (first - second)).sum() * (0.5 / texts)


class Classifier(TrainedModel):
    """A trained model, its tokenizer and the names of its classes, or an estimator (see `TrainedModel`).

    `fit` and `score` take a list of (text, label) pairs, or the path of a table of labels and texts (`load_news`).
    `load` takes `labels`. If they differ from the classes of a BERT, the model gets a new, untrained output layer.
    """

    what, name = "classifier", "categories of news"
    presets: ClassVar[Mapping[str, ClassifierPreset]] = CLASSIFIER_PRESETS
    kinds: ClassVar[dict[str, tuple[Any, Any]]] = {"": (TransformerClassifier, ClassifierConfig)}

    def __init__(
        self,
        model: TransformerClassifier | None = None,
        tokenizer: Tokenizer | None = None,
        labels: Sequence[str] = (),
        *,
        preset: str = "laptop",
        **settings: Any,
    ):
        self.labels = list(labels)
        super().__init__(model, tokenizer, preset, **settings)

    @classmethod
    def of(cls, model: Any, tokenizer: Tokenizer, config: dict[str, Any], folder: str | Path) -> Self:
        names, classes = config.get("labels"), model.config.classes
        if not isinstance(names, list) or len({one for one in names if isinstance(one, str)}) != classes:
            raise InputError(f"The classifier in {folder} does not name its {classes} classes. Restore a copy of it.")
        return cls(model, tokenizer, names)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text in the form that the model reads; see `text_ids`."""
        return text_ids(self.tokenizer, texts, self.model.config.max_length, self.model.config.bos)

    def probabilities(self, texts: Sequence[str], batch_size: int = 128) -> np.ndarray:
        """Return the probability of each class, (texts, classes)."""
        self.model.eval()
        texts = several(texts)
        ids = self.ids(texts)
        out = np.empty((len(texts), len(self.labels)), np.float32)
        order = np.argsort([len(one) for one in ids], kind="stable")  # texts of similar length together: less padding
        with no_grad():
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                sequences = TokenSequences([ids[row] for row in rows])
                padded = sequences.pad(np.arange(len(rows)), self.tokenizer.pad_id)
                out[rows] = ops.softmax(self.model(padded, sequences.lengths)).numpy()
        return out

    def predict(self, texts: Sequence[str]) -> list[str]:
        """Return the most probable class of each text."""
        return [self.labels[i] for i in self.probabilities(texts).argmax(axis=1)]

    def classify(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return the classes of each text in order of probability, with their probabilities."""
        shares = self.probabilities(texts)
        return [{self.labels[i]: float(row[i]) for i in (-row).argsort(kind="stable")} for row in shares]

    def score(self, data: Any) -> dict[str, float]:
        """Return the accuracy and the macro F1, 0 to 1, on held-out pairs (text, label)."""
        pairs = self.task.items(self, data).scored
        return class_scores(self.predict([text for text, _ in pairs]), [label for _, label in pairs])

    def saved(self) -> dict[str, Any]:
        return {"labels": self.labels}

    def best(self, text: str) -> str:
        """Return one line with the three most probable classes of a text and their probabilities."""
        (shares,) = self.classify([text])
        return ", ".join(f"{label} {share:.0%}" for label, share in list(shares.items())[:3])

    def attention_maps(self, text: str) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return all attention weights of a text, (heads, tokens, tokens) by the name of the layer, and its tokens.

        With `pooling` "first" the class is computed from the first token.
        """
        ids = self.ids([text])
        self.model.eval()
        with no_grad(), attention_maps(self.model) as maps:
            self.model(np.array(ids))
        return {layer: weights[0][0] for layer, weights in maps.items() if weights}, self.tokenizer.token_strings(
            ids[0]
        )


@checked
class MeanClassifier(Classifier):
    """A classifier that averages the probabilities of several others. Raises InputError if their classes differ."""

    def __init__(self, members: Sequence[Classifier]):
        if not members:
            raise ValueError("MeanClassifier: give at least one classifier")
        first = members[0]
        if any(member.labels != first.labels for member in members):
            raise InputError("These models have different classes. Use models that were trained on the same classes.")
        super().__init__(first.model, first.tokenizer, first.labels)
        self.members = members

    def probabilities(self, texts: Sequence[str], batch_size: int = 128) -> np.ndarray:
        return np.mean([member.probabilities(texts, batch_size) for member in self.members], axis=0)


def text_ids(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, bos: bool = True) -> list[list[int]]:
    """Return the ids of each text, at most `max_length`: <bos>, the first tokens, and <eos> if the tokenizer adds it.

    Without `bos` a text begins with its first word; a text without words consists of <bos> alone.
    """
    ids = [own or [tokenizer.bos_id] for own in tokenizer.encode_batch(texts, add_bos=bos)]
    if not tokenizer.ends:
        return [own[:max_length] for own in ids]
    return [[*own[: max_length - 1], tokenizer.eos_id] for own in ids]


@checked
@dataclass
class Classification(Task[ClassifierPreset, Classifier]):
    """The task of learning the class of a text, from (text, label) pairs.

    Attributes:
        texts: the texts of the preset's `word_vectors`; the training texts if it is empty.
        vectors: the initial embeddings of all words of the tokenizer, if the preset has `word_vectors`.
    """

    train: Sequence[Labelled]
    valid: Sequence[Labelled]
    texts: Sequence[str] = ()
    vectors: np.ndarray | None = field(default=None, init=False, repr=False)

    trained = Classifier
    unit = "text"

    @classmethod
    def of(cls, trained: Classifier, data: Any, valid: Any, tokenizer: Tokenizer | None, **settings: Any) -> Self:
        other = None if valid is None else cls.items(data=valid)
        train, valid, notes = train_and_valid(cls.items(data=data), other, 0)
        if len(known := {label for _, label in train}) < 2:
            raise InputError(f"All texts have the class {min(known)!r}: give texts of two or more classes.")
        if unknown := sorted({label for _, label in valid} - known):
            notes.append(f"note: validation leaves out the class {unknown[0]!r}, which no training text has")
        valid = [pair for pair in valid if pair[1] in known]
        preset = cls.preset_of(trained, len(train), **settings)
        return cls(train, valid, preset=preset, name=trained.name, notes=notes)

    @staticmethod
    def items(trained: Classifier | None = None, data: Any = None) -> DataSet[list[Labelled]]:
        """Return pairs (text, label), from a file or a data set if `data` is a path or a name."""

        def load(name: str) -> DataSet[list[Labelled]]:
            found = load_news(name, descriptions=False)
            return DataSet(*found.labelled(False), name, notes=found.notes, whole=found.whole)

        found = pairs_of(data, "(text, label)", load)
        named = [(text, unicodedata.normalize("NFC", label.strip())) for text, label in found.train]  # as in files
        return replace(found, train=named)

    @property
    def labels(self) -> list[str]:
        """The classes, in the order of the model's outputs."""
        return sorted({label for _, label in self.train})

    def check(self, other: Classifier, whose: str) -> None:
        if other.labels != self.labels:
            raise InputError(f"{whose} has other classes than the training data. Use a model with the same classes.")

    def limited_to(self, init: Classifier) -> Self:
        known = init.model.config
        return self.with_preset(max_length=min(self.preset.max_length, known.max_length), bos=known.bos)

    def make_tokenizer(self) -> Tokenizer:
        texts = [text for text, _ in self.train]
        return WordTokenizer.train(texts, self.preset.vocab_size, min_frequency=self.preset.min_frequency)

    def batches(self, tokenizer: Tokenizer, seed: int) -> TaskBatches:
        train = self._batches(self.train, tokenizer, seed, shuffle=True)
        valid = self._batches(self.valid, tokenizer, seed, shuffle=False)
        counts = Counter(label for _, label in self.train).most_common()
        if self.preset.word_vectors:
            self.vectors = self._word_vectors(tokenizer, seed)
        words = f"; {len(counts)} classes of {counts[-1][1]:,} to {counts[0][1]:,} texts"
        return TaskBatches(train, valid.epoch(), [], words)

    def _word_vectors(self, tokenizer: Tokenizer, seed: int) -> np.ndarray:
        special, size = max(tokenizer.special_ids.values()) + 1, self.preset.d_model
        if tokenizer.vocab_size - special < size:
            raise InputError(
                f"word_vectors needs a vocabulary of at least d_model = {size} words, but there are only "
                f"{tokenizer.vocab_size - special:,}. Give more texts, or leave out word_vectors."
            )
        texts = self.texts or [text for text, _ in self.train]
        ids = [np.array(own) - special for own in text_ids(tokenizer, texts, self.preset.max_length, self.preset.bos)]
        return word_vectors([own[own >= 0] for own in ids], tokenizer.vocab_size - special, size, seed=seed)

    def _batches(self, pairs: Sequence[Labelled], tokenizer: Tokenizer, seed: int, *, shuffle: bool) -> LabelledBatches:
        preset, number = self.preset, {label: i for i, label in enumerate(self.labels)}
        ids = text_ids(tokenizer, [text for text, _ in pairs], preset.max_length, preset.bos)
        options = {"batch_size": preset.batch_size, "curriculum": preset.curriculum, "pad_to": preset.pad_to}
        labels = np.array([number[label] for _, label in pairs], np.int64)
        return LabelledBatches(ids, labels, seed=seed, pad_id=tokenizer.pad_id, shuffle=shuffle, **options)

    def config(self, tokenizer: Tokenizer) -> ClassifierConfig:
        return self.preset.model_config(tokenizer.vocab_size, len(self.labels), tokenizer.pad_id)

    def build(self, config: ClassifierConfig) -> TransformerClassifier:
        model = TransformerClassifier(config)
        if self.vectors is not None:
            model.embedding.weight.data[-len(self.vectors) :] = self.vectors
        return model

    def loss(self, tokenizer: Tokenizer, teacher: Module | None) -> Loss:
        weights = None
        if self.preset.weighted:
            number = {label: i for i, label in enumerate(self.labels)}
            weights = class_weights([number[label] for _, label in self.train], len(number), most=MAX_WEIGHT)
        return classification_loss(weights, self.preset.label_smoothing, teacher, self.preset.consistency)

    def saved(self, config: ClassifierConfig) -> dict[str, Any]:
        return {"labels": self.labels}


def class_weights(labels: Sequence[int] | np.ndarray, classes: int, most: float = np.inf) -> np.ndarray:
    """Return weights (classes,) float32 that make rare classes count as much as frequent ones.

    They are the `weight` of `ops.cross_entropy`: n / (classes n_c), with which every class has the same total weight.
    No weight is above `most`, because otherwise a class of two texts out of tens of thousands would dominate the
    training. A class that does not occur gets zero. Source: King and Zeng 2001 (Political Analysis 9), like
    scikit-learn's "balanced".
    """
    counts = np.bincount(labels, minlength=classes)
    with np.errstate(divide="ignore"):
        weights = np.minimum(len(labels) / (classes * counts), most)
    return np.where(counts, weights, 0).astype(np.float32)
