"""Attention weights of a translation: a picture of every attention layer, and word alignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ...errors import InputError
from ..runs.plots import plot_attention
from ..tasks.translator import Translator


def draw_attention(
    translator: Translator, sentence: str, folder: str | Path, target: Sequence[int] | None = None
) -> list[Path]:
    """Draw the weights of every layer and head for a sentence and its translation, one picture for each layer.

    Args:
        folder: the parent of a new folder for the pictures, whose name is the next free number. Pictures are named
            after layers.
        target: ids of the translation; None for the best one that the translator finds.

    Returns the pictures in the order of the layers. Raises InputError for a sentence that can't be translated, or a
    picture that can't be written.
    """
    maps, source, written = translator.attention_maps(sentence, target)
    read = [*translator.tokenizer.token_strings([translator.tokenizer.bos_id]), *written[:-1]]
    sides = {"encoder": (source, source), "self_attn": (read, read), "multihead_attn": (written, source)}
    pictures: list[Path] = []
    new = _new_folder(Path(folder))
    for name, weights in maps.items():
        queries, keys = sides["encoder" if name.startswith("encoder") else name.rsplit(".", 1)[1]]
        pictures.append(new / f"{name}.png")
        plot_attention(weights, queries, keys, pictures[-1], name)
    return pictures


def _new_folder(parent: Path) -> Path:
    number = 1
    while (parent / str(number)).exists():
        number += 1
    try:
        (parent / str(number)).mkdir(parents=True)
    except OSError as error:
        raise InputError(f"No folder for pictures could be made in {parent}: {error.strerror}.") from None
    return parent / str(number)


def alignment(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each word of a translation with the source word that has the largest weight: (target word, source word).

    Args:
        weights: cross-attention (target tokens, source tokens), as `Translator.attention` gives it.
        source, target: the tokens' texts; a token that begins with a blank begins a word. Special tokens such as <eos>
            belong to no word.

    The weight between two words is the mean over the target's tokens of the sum over the source's tokens. Alignments
    from attention are only hints (Bahdanau et al. 2015, arXiv 1409.0473, section 5.2.1).
    """
    words, sources, targets = word_weights(weights, source, target)
    if not words.size:
        return []
    return [(word, sources[index]) for word, index in zip(targets, words.argmax(axis=1), strict=True)]


def word_weights(
    weights: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the weights between words, (..., target words, source words), and the texts of these words.

    See `alignment`. `weights` are (..., target tokens, source tokens).
    """
    rows, columns = _words(target), _words(source)
    each, total = _members(rows, len(target)), _members(columns, len(source))
    texts = [[_text(tokens, word) for word in words] for tokens, words in ((source, columns), (target, rows))]
    return each @ weights @ total.T / each.sum(axis=1, keepdims=True), texts[0], texts[1]


def _members(words: list[list[int]], tokens: int) -> np.ndarray:
    """Return a matrix (words, tokens): 1 where the token belongs to the word, else 0."""
    found = np.zeros((len(words), tokens))
    for row, word in zip(found, words, strict=True):
        row[word] = 1
    return found


def _text(tokens: Sequence[str], word: list[int]) -> str:
    return "".join(tokens[index] for index in word).strip()


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
