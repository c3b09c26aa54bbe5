"""Word alignments from cross-attention."""

from collections.abc import Iterable, Sequence

import numpy as np


def alignment(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each word of a translation with the source word that has the largest weight: (target word, source word).

    `weights` (target tokens, source tokens) and the tokens' texts are those of `Translator.attention`; a blank begins a
    word, and special tokens such as <eos> belong to none. The weight between two words is the mean over the target's
    tokens of the sum over the source's. Such alignments are only hints (Bahdanau et al. 2015, arXiv 1409.0473, section
    5.2.1).
    """
    words, sources, targets = word_weights(weights, source, target)
    if not words.size:
        return []
    return [(word, sources[index]) for word, index in zip(targets, words.argmax(axis=1), strict=True)]


def word_weights(
    weights: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return weights (..., target words, source words) from those between tokens, and the texts of the words."""
    rows, columns = _words(target), _words(source)
    each, total = _members(rows, len(target)), _members(columns, len(source))
    texts = [
        ["".join(tokens[index] for index in word).strip() for word in words]
        for tokens, words in ((source, columns), (target, rows))
    ]
    return each @ weights @ total.T / each.sum(axis=1, keepdims=True), texts[0], texts[1]


def _members(words: list[list[int]], tokens: int) -> np.ndarray:
    """Return a matrix (words, tokens): 1 where the token belongs to the word, else 0."""
    found = np.zeros((len(words), tokens))
    for row, word in zip(found, words, strict=True):
        row[word] = 1
    return found


def _words(tokens: Iterable[str]) -> list[list[int]]:
    """Return the indices of the tokens of each word."""
    words: list[list[int]] = []
    for index, token in enumerate(tokens):
        if token.startswith("<") and token.endswith(">"):
            continue
        if not words or token.startswith(" "):
            words.append([])
        words[-1].append(index)
    return words
