"""Baselines from word counts: naive Bayes, a linear SVM, nearest neighbour, and word-for-word translation.

A neural model is useful only if it is better than these baselines, which need only NumPy and a few seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import regex

from ..kinds import checked

_WORD = regex.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case and without punctuation."""
    return _WORD.findall(text.lower())


def words_and_pairs(text: str) -> list[str]:
    """Split a text into its words, followed by the pairs of neighbouring words."""
    single = words(text)
    return single + [f"{a} {b}" for a, b in pairwise(single)]


def letters(text: str) -> list[str]:
    """Return each sequence of 2 to 5 letters within the words of a text; `<` and `>` mark the ends of a word."""
    marked = [f"<{word}>" for word in words(text)]
    return [word[i : i + n] for word in marked for n in range(2, 6) for i in range(len(word) - n + 1)]


class Bags(NamedTuple):
    """Texts as bags: text i has the features `features[offsets[i]:offsets[i + 1]]` with the `values` there."""

    offsets: np.ndarray  # (texts + 1,) int64
    features: np.ndarray  # (entries,) int64, no feature twice in a text
    values: np.ndarray  # (entries,) float64

    def weighted_sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of value * weights[feature] over each text's features: (features, c) -> (texts, c)."""
        sums = np.zeros((len(self.offsets) - 1, weights.shape[1]))
        entries = weights[self.features] * self.values[:, None]
        filled = np.flatnonzero(np.diff(self.offsets))
        if len(filled):
            sums[filled] = np.add.reduceat(entries, self.offsets[filled])
        return sums

    def rows(self, texts: np.ndarray) -> "Bags":
        """Return the bags of the texts with these indices, in this order."""
        sizes = np.diff(self.offsets)[texts]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[texts] - offsets[:-1], sizes)
        return Bags(offsets, self.features[places], self.values[places])

    def of(self) -> np.ndarray:
        """Return the index of the text to which each entry belongs, (entries,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Vocabulary:
    """The features that occur in at least `least` training texts; `features` splits a text into its features."""

    def __init__(self, texts: Sequence[str], features: Callable[[str], list[str]] = words_and_pairs, *, least: int = 1):
        self._features = features
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(features(text)))
        frequent = (feature for feature, count in counts.items() if count >= least)
        self.number = {feature: i for i, feature in enumerate(frequent)}
        self.texts_with = np.array([counts[feature] for feature in self.number], np.float64)
        self.texts = len(texts)

    def __len__(self) -> int:
        return len(self.number)

    def counts(self, texts: Iterable[str]) -> Bags:
        """Count how often each feature occurs in each text."""
        offsets, features, values = [0], list[int](), list[int]()
        for text in texts:
            counts = Counter(self.number[feature] for feature in self._features(text) if feature in self.number)
            features.extend(counts)
            values.extend(counts.values())
            offsets.append(len(features))
        return Bags(np.array(offsets), np.array(features, np.int64), np.array(values, np.float64))

    def tf_idf(self, texts: Iterable[str]) -> Bags:
        """Compute (1 + log count) (1 + log((1 + n) / (1 + texts with the feature))), divided by the text's norm."""
        bags = self.counts(texts)
        rarity = 1 + np.log((1 + self.texts) / (1 + self.texts_with))
        values = (1 + np.log(bags.values)) * rarity[bags.features]
        lengths = np.sqrt(np.bincount(bags.of(), values**2, len(bags.offsets) - 1))
        return bags._replace(values=values / lengths[bags.of()])


class NaiveBayes:
    """Multinomial naive Bayes on words and pairs: log P(class) + sum of count * log P(feature | class).

    Labels are integers from 0 to classes - 1. `alpha` is added to each count; `choose` selects a value.
    Source: Manning, Raghavan and Schütze 2008, "Introduction to Information Retrieval", section 13.2.
    """

    ALPHAS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0)

    def __init__(self, texts: Sequence[str], labels: np.ndarray, classes: int, alpha: float = 0.1):
        self.vocabulary, self.alpha = Vocabulary(texts), alpha
        bags = self.vocabulary.counts(texts)
        cells = np.asarray(labels)[bags.of()] * len(self.vocabulary) + bags.features
        counts = np.bincount(cells, bags.values, classes * len(self.vocabulary))
        self._counts = counts.reshape(classes, -1).T
        self._prior = np.log(np.maximum(np.bincount(labels, minlength=classes), 1e-9) / len(labels))

    def choose(self, texts: Sequence[str], labels: np.ndarray) -> Self:
        """Set `alpha` to the value in `ALPHAS` with the best accuracy on these texts, which should be held out."""
        scores = [np.mean(self.predict(texts, alpha) == labels) for alpha in self.ALPHAS]
        self.alpha = self.ALPHAS[int(np.argmax(scores))]
        return self

    def predict(self, texts: Sequence[str], alpha: float | None = None) -> np.ndarray:
        """Return the most probable class of each text, (texts,); `alpha`, if given, replaces `self.alpha`."""
        alpha = self.alpha if alpha is None else alpha
        totals = self._counts.sum(axis=0) + alpha * len(self.vocabulary)
        bags = self.vocabulary.counts(texts)
        used, places = np.unique(bags.features, return_inverse=True)
        weights = np.log((self._counts[used] + alpha) / totals)
        return (bags._replace(features=places).weighted_sums(weights) + self._prior).argmax(axis=1)


class LinearSVM:
    """Linear support vector machine on the TF-IDF of words, pairs of words, and sequences of 2 to 5 letters.

    For each class, it minimises |w|²/2 + C sum max(0, 1 - y w·x)² over the texts x, with y = 1 for the texts of this
    class and -1 for the others. The last feature of each text is a constant 1. Labels are integers from 0 to classes
    - 1. C is chosen on `valid`, held-out (texts, labels).
    Source: Hsieh et al. 2008, "A dual coordinate descent method for large-scale linear SVM", ICML, algorithm 1.
    """

    CHOICES = (0.25, 0.5, 1.0)

    def __init__(self, texts: Sequence[str], labels: np.ndarray, classes: int, valid: tuple[Sequence[str], np.ndarray]):
        many = len(texts) >= 1000
        self.vocabularies = (
            Vocabulary(texts, words_and_pairs, least=2 if many else 1),
            Vocabulary(texts, letters, least=3 if many else 1),
        )
        bags, held_out = self._bags(texts), self._bags(valid[0])
        signs = np.where(np.asarray(labels)[:, None] == np.arange(classes), 1.0, -1.0)
        dual = np.zeros_like(signs)
        weights = np.zeros((sum(map(len, self.vocabularies)) + 1, classes))
        self.c, best, self.weights = 0.0, -1.0, weights
        for c in self.CHOICES:  # each begins at the solution of the one before
            descend(bags, signs, c, dual, weights)
            accuracy = np.mean(_scores(held_out, weights).argmax(axis=1) == valid[1])
            if accuracy > best:
                self.c, best, self.weights = c, float(accuracy), weights.copy()

    def _bags(self, texts: Sequence[str]) -> Bags:
        constant = Bags(np.arange(len(texts) + 1), np.zeros(len(texts), np.int64), np.ones(len(texts)))
        parts, first = [vocabulary.tf_idf(texts) for vocabulary in self.vocabularies] + [constant], 0
        order = np.argsort(np.concatenate([part.of() for part in parts]), kind="stable")
        features = list[np.ndarray]()
        for part, size in zip(parts, (*map(len, self.vocabularies), 1), strict=True):
            features.append(part.features + first)
            first += size
        values = np.concatenate([part.values for part in parts])
        offsets = np.sum([part.offsets for part in parts], axis=0)
        return Bags(offsets, np.concatenate(features)[order], values[order])

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return the class with the highest score of each text, (texts,)."""
        return _scores(self._bags(texts), self.weights).argmax(axis=1)


def descend(
    bags: Bags, signs: np.ndarray, c: float, dual: np.ndarray, weights: np.ndarray, *,
    passes: int = 10, tolerance: float = 0.1,
) -> None:  # fmt: skip
    """Update `dual`, (texts, classes), and `weights`, (features, classes), towards the solution of `LinearSVM`.

    One text updates all classes at once. The weights must be the sum of dual * sign * values over the texts. Passes end
    when no text changes a class by `tolerance` or more, in units of the dual's gradient.
    """
    curvature = np.add.reduceat(bags.values**2, bags.offsets[:-1]) + 0.5 / c
    generator = np.random.default_rng(0)
    for _ in range(passes):
        largest = 0.0
        for i in generator.permutation(len(signs)):
            entries = slice(bags.offsets[i], bags.offsets[i + 1])
            features, values = bags.features[entries], bags.values[entries]
            rows = weights[features]
            gradient = signs[i] * (values @ rows) - 1 + 0.5 / c * dual[i]
            change = np.maximum(dual[i] - gradient / curvature[i], 0) - dual[i]
            size = np.abs(change).max() * curvature[i]
            if size > 1e-9:
                dual[i] += change
                weights[features] = rows + np.outer(values, change * signs[i])
                largest = max(largest, size)
        if largest < tolerance:
            return


def _scores(bags: Bags, weights: np.ndarray) -> np.ndarray:
    """Compute the scores text by text: the rows of all entries at once would need gigabytes."""
    texts = zip(bags.offsets, bags.offsets[1:], strict=False)
    return np.array([bags.values[begin:end] @ weights[bags.features[begin:end]] for begin, end in texts])


def nearest(texts: Sequence[str], among: Sequence[str]) -> np.ndarray:
    """Return the index of the most similar text in `among` for each text, (texts,).
    The similarity of two texts is the cosine between their TF-IDF vectors of words.
    """
    vocabulary = Vocabulary(among, words)
    bags, queries = vocabulary.tf_idf(among), vocabulary.tf_idf(texts)
    order = np.argsort(bags.features, kind="stable")  # the entries of one feature together: an inverted index
    starts = np.searchsorted(bags.features[order], np.arange(len(vocabulary) + 1))
    holders, values = bags.of()[order], bags.values[order]
    indices = np.empty(len(texts), np.int64)
    for i in range(len(texts)):
        similar = np.zeros(len(among))
        for entry in range(queries.offsets[i], queries.offsets[i + 1]):
            entries = slice(starts[queries.features[entry]], starts[queries.features[entry] + 1])
            similar[holders[entries]] += queries.values[entry] * values[entries]
        indices[i] = similar.argmax()
    return indices


class WordForWord:
    """A translator that replaces each word by its most probable translation under IBM model 1, and copies unknown
    words.

    Args:
        pairs: (source, target) sentences.

    Source: Brown et al. 1993, "The mathematics of statistical machine translation", section 4.1.
    """

    ROUNDS = 5  # of expectation maximisation

    @checked
    def __init__(self, pairs: Sequence[tuple[str, str]]):
        sources = [words(source) for source, _ in pairs]
        targets = [regex.findall(r"\w+(?:['’]\w+)*|[^\w\s]", target) for _, target in pairs]
        ids: dict[str, int] = defaultdict(lambda: len(ids))
        outputs: dict[str, int] = defaultdict(lambda: len(outputs))
        both = [(source, target) for source, target in zip(sources, targets, strict=True) if source and target]
        if not both:
            raise ValueError("WordForWord: there is no pair with words on both sides")
        cells = [  # (target word, source word) of every pair of words that occur together, once for each target word
            (np.repeat([outputs[word] for word in target], len(source)), np.tile([ids[w] for w in source], len(target)))
            for source, target in both
        ]
        sizes = np.concatenate([np.full(len(target), len(source)) for source, target in both])
        target_of, source_of = (np.concatenate([cell[side] for cell in cells]).astype(np.int64) for side in (0, 1))
        places = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        couple, index = np.unique(source_of * len(outputs) + target_of, return_inverse=True)
        chance = np.ones(len(couple))
        for _ in range(self.ROUNDS):
            share = chance[index]
            share /= np.repeat(np.add.reduceat(share, places), sizes)
            counts = np.bincount(index, share)
            chance = counts / np.bincount(couple // len(outputs), counts)[couple // len(outputs)]
        names = list(outputs)
        order = np.lexsort((chance, couple // len(outputs)))  # the likeliest of each source word comes last
        by_word = list(ids)
        self.table = {by_word[couple[i] // len(outputs)]: names[couple[i] % len(outputs)] for i in order}

    def translate(self, text: str) -> str:
        """Return the text with each word replaced and its punctuation unchanged."""
        return _WORD.sub(lambda found: self.table.get(found[0].lower(), found[0]), text)
