"""Compare the baselines that count words with their formulas, written out for a few texts."""

import numpy as np

from handloom.models.text_baselines import (
    LinearSVM,
    NaiveBayes,
    Vocabulary,
    WordForWord,
    descend,
    letters,
    nearest,
    words,
)

TEXTS = ["the cat sat", "the dog sat", "stocks fall", "stocks rise as the bank buys"]
LABELS = np.array([0, 0, 1, 1])


def test_words() -> None:
    assert words("Don't PANIC, it’s 12:30!") == ["don't", "panic", "it’s", "12", "30"]


def test_tf_idf_is_the_formula() -> None:
    vocabulary = Vocabulary(TEXTS, words)
    bags = vocabulary.tf_idf(["the cat the unknown", ""])
    dense = np.zeros((2, len(vocabulary)))
    dense[bags.of(), bags.features] = bags.values
    expected = np.zeros(len(vocabulary))
    expected[vocabulary.number["the"]] = (1 + np.log(2)) * (1 + np.log(5 / 4))
    expected[vocabulary.number["cat"]] = 1 + np.log(5 / 2)
    np.testing.assert_allclose(dense[0], expected / np.linalg.norm(expected))
    assert not dense[1].any()


def test_naive_bayes_is_the_formula() -> None:
    model = NaiveBayes(TEXTS, LABELS, classes=2, alpha=0.5)
    text = "the bank the bank"  # known words and pairs: the (2), bank (2), "the bank" (2); "bank the" is unknown
    sizes = len(model.vocabulary)
    counts = {0: {"the": 2, "bank": 0, "the bank": 0}, 1: {"the": 1, "bank": 1, "the bank": 1}}
    totals = {0: 6 + 4, 1: 8 + 6}
    scores = [
        np.log(0.5) + sum(2 * np.log((n + 0.5) / (totals[c] + 0.5 * sizes)) for n in counts[c].values()) for c in (0, 1)
    ]
    bags = model.vocabulary.counts([text])
    weights = np.log((model._counts + 0.5) / (model._counts.sum(axis=0) + 0.5 * sizes))
    np.testing.assert_allclose(bags.weighted_sums(weights)[0] + model._prior, scores)
    assert model.predict([text, "the cat"]).tolist() == [1, 0]


def test_alpha_is_chosen_on_held_out_texts() -> None:
    model = NaiveBayes(TEXTS, LABELS, classes=2).choose(["a cat", "a bank"], np.array([0, 1]))
    assert model.alpha in NaiveBayes.ALPHAS
    assert model.predict(["a cat", "a bank"]).tolist() == [0, 1]


def test_letters() -> None:
    assert letters("A cat") == ["<a", "a>", "<a>", "<c", "ca", "at", "t>", "<ca", "cat", "at>", "<cat", "cat>", "<cat>"]


def test_the_linear_svm_is_the_minimum_of_its_objective() -> None:
    model = LinearSVM(TEXTS, LABELS, 2, (TEXTS, LABELS))
    assert model.predict(["a cat sat", "stocks", ""]).tolist()[:2] == [0, 1]
    assert model.c == LinearSVM.CHOICES[0]  # the first of equal choices
    bags = model._bags(TEXTS)
    dense = np.zeros((4, len(model.weights)))
    dense[bags.of(), bags.features] = bags.values
    np.testing.assert_allclose((dense**2).sum(axis=1), 3)  # words and pairs, letters, the constant: 1 each
    labels = np.array([0, 1, 2, 1])  # not the texts' own, so that no class is separated easily
    signs = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    weights, expected = np.zeros((dense.shape[1], 3)), np.zeros((dense.shape[1], 3))
    descend(bags, signs, 0.7, np.zeros((4, 3)), weights, passes=200, tolerance=1e-9)
    for _ in range(500):  # plain gradient descent
        slack = np.maximum(1 - signs * (dense @ expected), 0)
        expected -= 0.05 * (expected - 2 * 0.7 * dense.T @ (signs * slack))
    np.testing.assert_allclose(weights, expected, atol=1e-7)


def test_nearest_text() -> None:
    assert nearest(["a dog that sat", "the bank", "nothing known"], TEXTS).tolist() == [1, 3, 0]


def test_word_for_word() -> None:
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("", "empty")]
    model = WordForWord(pairs)
    assert model.translate("Ein Haus, das Buch!") == "a house, the book!"
    assert model.translate("Fremd") == "Fremd"
