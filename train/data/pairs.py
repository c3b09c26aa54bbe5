"""A data set for translation, and functions that split a list of sentence pairs into training, validation and test."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from .files import Pair

HELD_OUT_FRACTION = 0.05
HELD_OUT_MOST = 2_000

_NO_LETTERS = re.compile(r"\W+")


@dataclass(frozen=True)
class TranslationData:
    """Sentence pairs (source, target) for training, validation and test.

    Attributes:
        train, valid, test: lists of (source, target).
        name: "embedded", "multi30k", "tatoeba", "everyday", "wmt17", or the path.
        description: one or two sentences with origin, licence and citation.
        test_name: name of the test set, such as "test_2016_flickr".
        source, target: codes of the languages, such as "de" and "en".
        notes: sentences about the pairs that were left out, with the reasons.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    name: str
    description: str
    test_name: str
    source: str
    target: str
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line with the name, the languages, and the sizes of the training, validation and test sets."""
        return (
            f"{self.name}, {self.source}-{self.target}: {len(self.train):,} training, {len(self.valid):,} validation "
            f"and {len(self.test):,} test pairs ({self.test_name})"
        )

    def reversed(self) -> TranslationData:
        """Return the same pairs in the other direction."""
        train, valid, test = ([pair[::-1] for pair in part] for part in (self.train, self.valid, self.test))
        return replace(self, train=train, valid=valid, test=test, source=self.target, target=self.source)


def sentence_key(text: str) -> str:
    """Return a key that is equal for sentences that differ only in case, blanks and punctuation."""
    return _NO_LETTERS.sub("", text.casefold()) or text


def split_by_sentence(pairs: list[Pair], side: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Split pairs into (train, valid, test) so that all pairs with the same sentence are in the same list.

    The validation and test sets get 5 % of the pairs each, but at most about 2,000. A hash of each sentence determines
    the assignment, so that it hardly changes if the file grows, and not if the file is reordered.

    Args:
        pairs: (source, target); the order is kept in each list.
        side: 0 to compare the sources, 1 to compare the targets. Case and punctuation are ignored.

    Raises:
        InputError: there are fewer than three different sentences, or nearly all pairs have the same sentence.
    """
    keys = [sentence_key(pair[side]) for pair in pairs]
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    if len(counts) < 3:
        raise InputError(
            f"The data hold only {len(counts)} different sentence{'s' if len(counts) > 1 else ''}, too few to set some "
            "aside for validation and test. Give more sentence pairs."
        )
    wanted = max(1, min(HELD_OUT_MOST, round(HELD_OUT_FRACTION * len(pairs))))
    sizes = {"test": 0, "valid": 0}
    part_of: dict[str, str] = {}
    for key in sorted(counts, key=lambda key: hashlib.blake2b(key.encode(), digest_size=8).digest()):
        part = next((name for name, size in sizes.items() if size < wanted), None)
        if part is None:
            break
        part_of[key] = part
        sizes[part] += counts[key]
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for key, pair in zip(keys, pairs, strict=True):
        parts[part_of.get(key, "train")].append(pair)
    if not all(parts.values()):
        often = max(counts, key=lambda key: counts[key])
        text = next(pair[side] for key, pair in zip(keys, pairs, strict=True) if key == often)
        raise InputError(
            f"{counts[often]:,} of the {len(pairs):,} sentence pairs have the same sentence, {text[:40]!r}, on one "
            "side: the other pairs are too few for training, validation and test. Give pairs of more varied sentences."
        )
    return parts["train"], parts["valid"], parts["test"]


def choose(pairs: list[Pair], size: int | None, seed: int) -> list[Pair]:
    """Return `size` random pairs in their original order, or all pairs if `size` is None or at least their number."""
    if size is None or size >= len(pairs):
        return pairs
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:size]
    return [pairs[i] for i in np.sort(chosen)]
