"""Labelled batches, class weights, the loss, and a classifier that learns and is loaded again."""

import dataclasses
import itertools

import numpy as np
import pytest

from handloom.autograd import Tensor
from handloom.errors import InputError
from handloom.models import ClassifierConfig, TransformerClassifier
from handloom.models.presets import CLASSIFIER_PRESETS
from handloom.nn import Module
from handloom.tokenizer import WordTokenizer
from handloom.train.tasks.classification import (
    Classification,
    Classifier,
    LabelledBatch,
    LabelledBatches,
    MeanClassifier,
    classification_loss,
)
from handloom.train.tasks.metrics import class_scores
from tests.support.small_run import log
from tests.train.tasks.test_task import trained

COLOURS, THINGS = ["red", "blue", "green", "old", "new"], {"animal": ["dog", "cat", "cow"], "plant": ["tree", "fern"]}
PAIRS = [
    (f"a {colour} {thing} {verb}", label)
    for label, things in THINGS.items()
    for colour, thing, verb in itertools.product(COLOURS, things, ["sleeps", "grows", "is here", "is gone"])
]


def test_every_text_occurs_once_an_epoch_and_orders_repeat() -> None:
    rng = np.random.default_rng(0)
    ids = [[2, *rng.integers(4, 9, n).tolist()] for n in rng.integers(0, 12, 103)]
    batches = LabelledBatches(ids, np.arange(103), batch_size=8, seed=1, pad_id=0)
    first, again, other = (list(batches.epoch(epoch)) for epoch in (0, 0, 1))
    assert len(first) == len(batches) == 13
    assert sorted(i for batch in first for i in batch.indices) == list(range(103))
    assert all((a.ids == b.ids).all() for a, b in zip(first, again, strict=True))
    assert [b.indices.tolist() for b in first] != [b.indices.tolist() for b in other]
    for batch in first:
        assert (batch.labels == batch.indices).all()
        assert batch.ids.shape[1] == batch.lengths.max()
        assert all(row[:n].tolist() == ids[i] and not row[n:].any()
                   for row, n, i in zip(batch.ids, batch.lengths, batch.indices, strict=True))  # fmt: skip
    part = [b.indices.tolist() for b in batches.epoch(0, 2, 3)]
    assert part == [b.indices.tolist() for b in first[2::3]]
    padded = sum(b.ids.size for b in first)
    assert padded < 103 * 12 * 0.75, "a batch contains texts of similar lengths"


def test_a_curriculum_begins_with_short_texts() -> None:
    rng = np.random.default_rng(0)
    ids = [[2] * n for n in rng.integers(1, 30, 100)]
    batches = LabelledBatches(ids, np.arange(100), batch_size=8, seed=1, pad_id=0, curriculum=1)
    longest = [batch.lengths.max() for batch in batches.epoch(0)]
    assert longest == sorted(longest)
    assert sorted(i for batch in batches.epoch(0) for i in batch.indices) == list(range(100))
    later = [batch.lengths.max() for batch in batches.epoch(1)]
    assert later != sorted(later)


def test_the_loss_is_a_weighted_mean_over_texts() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    batch = LabelledBatch(logits, np.array([2, 2, 2]), np.array([0, 1, 1]), np.arange(3))
    loss, count, more = classification_loss(np.array([0.5, 2.0]))(lambda ids, lengths: Tensor(ids), batch)
    by_hand = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(3), batch.labels]
    assert loss.item() == pytest.approx((by_hand * [0.5, 2.0, 2.0]).sum() / 3)
    assert (count, more["accuracy"]) == (3, pytest.approx(2 / 3))


def test_consistency_compares_two_predictions_for_each_text() -> None:
    """The model has no dropout. In training it returns other logits for the second half of its batch."""
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5]])
    other = logits + np.array([[0.5, -0.5, 0.0], [1.0, 0.0, 0.0]])
    batch = LabelledBatch(logits, np.array([3, 3]), np.array([0, 1]), np.arange(2))

    class Answers(Module):
        def forward(self, ids, lengths):
            assert len(ids) == len(lengths) == (4 if self.training else 2)
            return Tensor(np.concatenate([ids[:2], other]) if self.training else ids)

    def entropy(scores: np.ndarray) -> float:
        return np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(scores, (0, 1), strict=True)])

    divergence = 0.0
    for a, b in zip(logits, other, strict=True):
        p, q = (np.exp(row) / np.exp(row).sum() for row in (a, b))
        divergence += ((p * np.log(p / q)).sum() + (q * np.log(q / p)).sum()) / 2 / len(logits)
    model, loss = Answers(), classification_loss(None, consistency=3.0)
    value, count, more = loss(model, batch)
    assert value.item() == pytest.approx((entropy(logits) + entropy(other)) / 2 + 3 * divergence)
    assert (count, more["accuracy"]) == (2, 0.75)
    assert loss(model.eval(), batch)[0].item() == pytest.approx(entropy(logits))


def test_word_vectors_are_the_first_embeddings() -> None:
    preset = dataclasses.replace(CLASSIFIER_PRESETS["smoke"], word_vectors=True, d_model=8, nhead=2)
    task = Classification(PAIRS, PAIRS, ["a dog and a cow", "the fern"], preset=preset)
    tokenizer = task.make_tokenizer()
    task.batches(tokenizer, 0)
    assert task.vectors is not None
    table = task.build(task.config(tokenizer)).embedding.weight.numpy()
    assert len(table) == len(task.vectors) + 4 == tokenizer.vocab_size
    np.testing.assert_array_equal(table[4:], task.vectors)
    assert not table[tokenizer.pad_id].any()
    dog, cow, cat = (task.vectors[tokenizer.encode(word)[0] - 4] for word in ("dog", "cow", "cat"))
    assert dog @ cow > dog @ cat, "only dog and cow occur in the same text"
    with pytest.raises(InputError, match="at least d_model = 32 words"):
        task.with_preset(d_model=32).batches(tokenizer, 0)


def test_a_classifier_learns_stops_early_and_comes_back(tmp_path) -> None:
    preset = dataclasses.replace(CLASSIFIER_PRESETS["smoke"], steps=200)
    shuffled = [PAIRS[i] for i in np.random.default_rng(0).permutation(len(PAIRS))]
    classifier, said = trained(Classification(shuffled[:80], shuffled[80:], preset=preset), tmp_path / "run")
    steps = [row["step"] for row in log(tmp_path / "run") if "valid_accuracy" in row]
    assert steps[-1] < 200, "training stops after three epochs without a better accuracy"
    assert "2 classes" in said[0]
    texts = [text for text, _ in shuffled[80:]]
    assert class_scores(classifier.predict(texts), [label for _, label in shuffled[80:]])["accuracy"] > 0.9
    loaded = Classifier.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.probabilities(texts), classifier.probabilities(texts))
    np.testing.assert_allclose(loaded.probabilities(texts, 1), classifier.probabilities(texts), atol=1e-6)
    np.testing.assert_allclose(loaded.probabilities(texts).sum(axis=1), 1.0, rtol=1e-5)


def test_texts_and_labels_of_the_same_number_are_distinguished() -> None:
    options = {"batch_size": 2, "seed": 0, "pad_id": 0}
    ids, labels = [[1, 2], [3], [4, 5]], np.array([0, 1, 0])
    prints = [
        LabelledBatches(*both, **options).fingerprint()
        for both in ((ids, labels), ([[1, 2], [3], [4, 6]], labels), (ids, np.array([0, 1, 1])), (ids, labels.copy()))
    ]
    assert prints[0] == prints[3]
    assert len(set(prints)) == 3


def test_the_first_word_without_bos_and_the_mean_of_models(tmp_path) -> None:
    """Training and prediction read the same tokens. A text without words becomes <bos> alone."""
    preset = dataclasses.replace(CLASSIFIER_PRESETS["smoke"], steps=2, bos=False)
    task = Classification(PAIRS[:80], PAIRS[80:], preset=preset)
    trained(task, tmp_path / "run")
    classifier = Classifier.load(tmp_path / "run")
    tokenizer = classifier.tokenizer
    mean = MeanClassifier([classifier, Classifier(classifier.model, tokenizer, classifier.labels)])
    np.testing.assert_allclose(mean.probabilities(["a dog"]), classifier.probabilities(["a dog"]))
    with pytest.raises(InputError, match="different classes"):
        MeanClassifier([classifier, Classifier(classifier.model, tokenizer, classifier.labels[::-1])])
    for parameter in classifier.model.parameters():
        parameter.data[...] = 0
    assert next(iter(classifier.classify(["a dog"])[0])) == classifier.predict(["a dog"])[0]  # though all are equal
    assert classifier.ids(["a red dog", ""]) == [tokenizer.encode("a red dog"), [tokenizer.bos_id]]
    first = task.batches(tokenizer, 0).train.sequences.pad(np.arange(80), 0)[:, 0]
    assert set(first.tolist()) == set(tokenizer.encode("a"))


def test_another_dropout_changes_no_weight() -> None:
    config = ClassifierConfig(20, 3, 16, 2, 1, 32, dropout=0.5, max_length=8, token_dropout=0.4)
    model = TransformerClassifier(config)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    classifier = Classifier(model, WordTokenizer.train(["a b"], 20), ["x", "y", "z"])
    classifier.set_dropout(0.0)
    assert model.config == dataclasses.replace(config, dropout=0.0)
    assert model.token_dropout.p == 0.4
    model.token_dropout.p = 0.0
    ids = np.array([[2, 5, 6]])
    np.testing.assert_array_equal(model.train()(ids).data, model.eval()(ids).data)
    assert all((before[name] == array).all() for name, array in model.state_dict().items())


def test_a_teacher_of_other_classes_is_refused(tmp_path) -> None:
    preset = dataclasses.replace(CLASSIFIER_PRESETS["smoke"], steps=2)
    task = Classification(PAIRS[:80], PAIRS[80:], preset=preset)
    teacher, _ = trained(task, tmp_path / "teacher")
    maps, tokens = teacher.attention_maps("a red dog sleeps")
    assert list(maps) == [f"encoder.layers.{layer}.self_attn" for layer in range(preset.layers)]
    weights = maps["encoder.layers.0.self_attn"]
    assert weights.shape == (preset.nhead, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    assert len(tokens) == 5
    other = dataclasses.replace(task, train=[("a dog", "dog"), ("a cat", "cat")])
    with pytest.raises(InputError, match="other classes"):
        trained(other, tmp_path / "run", teacher=teacher)
