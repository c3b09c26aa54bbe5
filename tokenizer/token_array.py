"""Tokens in one long array, with links that skip merged tokens: replaces all occurrences of many pairs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SEPARATOR = -1  # between words
GONE = -2  # merged into the token before it


class Replaced(NamedTuple):
    """The neighbours of k replaced pairs; each field is an array of length k.

    Attributes:
        position: index of the merged token in the array.
        left, right, merged: the pair, and the token that replaced it.
        before: index of the token before it.
        old_before, new_before: that token's id before and after the replacement, which may have merged it as well.
        behind: the token after it, before the replacement.
        has_before, has_behind: whether there is such a token in the same word. `has_behind` is false if the token after
            it was merged too; that token then reports the pair that the two form.
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
    """The words of a text as tokens in one array, with a separator before, between and after them.

    Attributes:
        tokens: (n,) ids, `SEPARATOR` or `GONE`.
        next, previous: (n,) indices of the neighbours of each token that is left.
    """

    def __init__(self, tokens: Ints) -> None:
        self.tokens = tokens
        self.next = np.arange(1, len(tokens) + 1)
        self.previous = np.arange(-1, len(tokens) - 1)

    def replace(self, left: Ints, right: Ints, merged: Ints, positions: list[Ints]) -> Replaced:
        """Replace the pairs (left[i], right[i]) by merged[i] at those of `positions[i]` where they are still found.

        No occurrence of one pair may overlap an occurrence of another. The pair (a, a) must be the only pair, because
        its occurrences overlap in a run of a. Every other occurrence is then replaced, beginning with the first.
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
    """Pack two ids into one number. The numbers sort like the pairs."""
    return left << 32 | right


def unpack(codes: Ints) -> tuple[Ints, Ints]:
    return codes >> 32, codes & 0xFFFFFFFF


def _every_other(positions: Ints, next: Ints) -> Ints:
    """Select from the ascending positions of (a, a) the first, the third, ... in each run of a."""
    index = np.arange(len(positions))
    begins = np.ones(len(positions), dtype=bool)
    begins[1:] = next[positions[:-1]] != positions[1:]
    return positions[(index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0]
