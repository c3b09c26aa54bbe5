"""Tokens in one long array, with links over the gaps that merges leave: pairs are replaced in many places at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SEPARATOR = -1  # between words
GONE = -2  # merged into the token before it


class Replaced(NamedTuple):
    """What stands around k replaced pairs; each field is an array of length k.

    Attributes:
        place: where the merged token is.
        left, right, merged: the pair that was there and the token that is there now.
        before: the place of the token before it.
        old_before, new_before: that token, before and after the replacement; it can have been merged as well.
        behind: the token behind it, before the replacement.
        has_before, has_behind: whether there is a token in the same word and, for the one behind, whether it stayed as
            it was: of two merged tokens side by side the second one tells of the pair they form.
    """

    place: Ints
    left: Ints
    right: Ints
    merged: Ints
    before: Ints
    old_before: Ints
    new_before: Ints
    behind: Ints
    has_before: NDArray[np.bool_]
    has_behind: NDArray[np.bool_]


class TokenArray:
    """Words of tokens in one array, with a separator before, between and behind them.

    Attributes:
        tokens: (n,) ids, `SEPARATOR` or `GONE`.
        next, previous: (n,) the places of the neighbours of each token that is left.
    """

    def __init__(self, tokens: Ints) -> None:
        self.tokens = tokens
        self.next = np.arange(1, len(tokens) + 1)
        self.previous = np.arange(-1, len(tokens) - 1)

    def replace(self, left: Ints, right: Ints, merged: Ints, places: list[Ints]) -> Replaced:
        """Replace the pairs (left[i], right[i]) by merged[i] where they still stand at `places[i]`.

        No occurrence of one of the pairs may overlap one of another. The pair (a, a) must come alone; its own
        occurrences overlap in a run of a, where every other one is replaced, the first one included.
        """
        lengths = [len(of_pair) for of_pair in places]
        alike = len(left) == 1 and left[0] == right[0]
        left, right, merged = (np.repeat(ids, lengths) for ids in (left, right, merged))
        place = np.concatenate(places)
        tokens, next, previous = self.tokens, self.next, self.previous
        valid = (tokens[place] == left) & (tokens[next[place]] == right)
        place, left, right, merged = place[valid], left[valid], right[valid], merged[valid]
        if alike:
            place = _every_other(np.sort(place), next)
            left, right, merged = left[: len(place)], right[: len(place)], merged[: len(place)]

        second = next[place]
        following = next[second]
        old_before, behind = tokens[previous[place]], tokens[following]
        tokens[place] = merged
        tokens[second] = GONE
        next[place] = following
        previous[following] = place

        before = previous[place]
        new_before = tokens[before]
        unchanged = tokens[following] == behind
        return Replaced(
            place,
            left,
            right,
            merged,
            before,
            old_before,
            new_before,
            behind,
            new_before >= 0,
            (behind >= 0) & unchanged,
        )


def pack(left: Ints, right: Ints) -> Ints:
    """Two ids in one number; the numbers are in the order of the pairs."""
    return left << 32 | right


def unpack(codes: Ints) -> tuple[Ints, Ints]:
    return codes >> 32, codes & 0xFFFFFFFF


def _every_other(places: Ints, next: Ints) -> Ints:
    """Of the ascending places of (a, a), in each run of a the first, the third, ..."""
    index = np.arange(len(places))
    begins = np.ones(len(places), dtype=bool)
    begins[1:] = next[places[:-1]] != places[1:]
    return places[(index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0]
