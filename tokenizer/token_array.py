"""A long array of tokens, with links that skip merged tokens, to replace all occurrences of many pairs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SEPARATOR = -1  # between words
GONE = -2  # merged into the token before it


class Replaced(NamedTuple):
    """The neighbours of k replaced pairs, as arrays of length k.

    Attributes:
        position: index of the merged token in the array.
        left, right, merged: the pair, and the token that replaced it.
        before: index of the token before it.
        old_before, new_before: id of the token before it, before and after the replacement, in which this token can be
            merged too.
        behind: id of the token after it, before the replacement.
        has_before, has_behind: whether the same word has a token before it, and whether it has a token after it.
            If the token after it was merged too, `has_behind` is false, because the entry of that token contains this
            pair.
    """

    position: Ints
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
    """The words of a text as one array of tokens, with a separator before, between and after the words.

    Attributes:
        tokens: (n,) ids, `SEPARATOR` or `GONE`.
        next, previous: (n,) indices of the neighbours of each remaining token.
    """

    def __init__(self, tokens: Ints) -> None:
        self.tokens = tokens
        self.next = np.arange(1, len(tokens) + 1)
        self.previous = np.arange(-1, len(tokens) - 1)

    def replace(self, left: Ints, right: Ints, merged: Ints, positions: list[Ints]) -> Replaced:
        """Replace each pair (left[i], right[i]) by merged[i] at the `positions[i]` where the pair still occurs.

        No occurrence of one pair may overlap an occurrence of another. A pair (a, a) must be the only pair, because its
        occurrences overlap in a run of a; of these, the first, the third and so on are replaced.
        """
        lengths = [len(of_pair) for of_pair in positions]
        alike = len(left) == 1 and left[0] == right[0]
        left, right, merged = (np.repeat(ids, lengths) for ids in (left, right, merged))
        position = np.concatenate(positions)
        tokens, next, previous = self.tokens, self.next, self.previous
        valid = (tokens[position] == left) & (tokens[next[position]] == right)
        position, left, right, merged = position[valid], left[valid], right[valid], merged[valid]
        if alike:
            position = _every_other(np.sort(position), next)
            left, right, merged = left[: len(position)], right[: len(position)], merged[: len(position)]

        second = next[position]
        following = next[second]
        old_before, behind = tokens[previous[position]], tokens[following]
        tokens[position] = merged
        tokens[second] = GONE
        next[position] = following
        previous[following] = position

        before = previous[position]
        new_before = tokens[before]
        unchanged = tokens[following] == behind
        return Replaced(
            position,
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
    """Pack two ids into one number. The numbers have the same order as the pairs."""
    return left << 32 | right


def unpack(codes: Ints) -> tuple[Ints, Ints]:
    return codes >> 32, codes & 0xFFFFFFFF


def _every_other(positions: Ints, next: Ints) -> Ints:
    """Select from the ascending positions of (a, a) the first, the third, ... in each run of a."""
    index = np.arange(len(positions))
    begins = np.ones(len(positions), dtype=bool)
    begins[1:] = next[positions[:-1]] != positions[1:]
    return positions[(index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0]
