"""The corpus: training, validation and test pairs, where the latter two combine words as training never does."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from random import Random

from .sentences import Sentence, sentence_drawer

Pair = tuple[str, str]

RESERVED = 0.04  # the share of combinations that training never shows
_DRAWS_PER_SENTENCE = 40  # before a size counts as more than the grammar gives


@dataclass(frozen=True)
class Corpus:
    """Pairs (German, English). No German sentence occurs twice in all three lists together."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


@cache
def is_reserved(seed: int, combination: str) -> bool:
    """Whether a combination of words is kept for validation and test, by a hash that is the same on every machine."""
    digest = hashlib.blake2b(f"{seed} {combination}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) < RESERVED * 2**32


def draw_sentences(seed: int, train_size: int, held_out_size: int) -> tuple[list[Sentence], list[Sentence]]:
    """Distinct sentences without and with reserved combinations.

    Every word of a held-out sentence, in both languages, occurs in a sentence for training: what is held out is the
    combination and not the word.
    """
    draw = sentence_drawer(Random(seed))
    train: list[Sentence] = []
    waiting: list[Sentence] = []
    held_out: list[Sentence] = []
    seen: set[str] = set()
    known: set[str] = set()
    for _ in range(_DRAWS_PER_SENTENCE * (train_size + held_out_size) + 10_000):
        if len(train) >= train_size and len(held_out) >= held_out_size:
            return train[:train_size], held_out[:held_out_size]
        sentence = draw()
        if sentence is None or sentence.german in seen:
            continue
        reserved = any(is_reserved(seed, combination) for combination in sentence.combinations)
        if not reserved:
            if len(train) < train_size:
                seen.add(sentence.german)
                train.append(sentence)
                if len(train) == train_size:
                    known = _words(train)
                    held_out += [s for s in waiting if _words([s]) <= known]
        elif len(train) < train_size:
            seen.add(sentence.german)
            waiting.append(sentence)
        elif _words([sentence]) <= known:
            seen.add(sentence.german)
            held_out.append(sentence)
    raise ValueError(
        f"The grammar found {len(train):,} of {train_size:,} sentences for training and {len(held_out):,} of "
        f"{held_out_size:,} for validation and test. Ask for fewer, or for more training sentences if those are few: "
        "a held-out sentence may only use their words."
    )


def _words(sentences: Iterable[Sentence]) -> set[str]:
    return {word for s in sentences for word in re.findall(r"\w+", f"{s.german} {s.english}")}


def build_corpus(seed: int = 0, *, train_size: int = 40_000, valid_size: int = 1_000, test_size: int = 1_000) -> Corpus:
    """Draw a corpus of German sentences with their English translations; the same seed gives the same corpus.

    Some combinations of words (subject and verb, verb and object, adjective and noun) are reserved: each validation
    and test sentence holds at least one of them, and no training sentence holds any.

    Raises:
        ValueError: a size is negative, or more than the grammar gives.
    """
    sizes = {"train_size": train_size, "valid_size": valid_size, "test_size": test_size}
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name} must not be negative, got {size}.")
    train, held_out = draw_sentences(seed, train_size, valid_size + test_size)
    pairs = [[(s.german, s.english) for s in part] for part in (train, held_out[:valid_size], held_out[valid_size:])]
    return Corpus(*pairs)
