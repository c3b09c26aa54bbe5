"""Applying merges to one word: the pair that was learned first is merged first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Pair = tuple[int, int]


class BPEEncoder:
    """Bytes of one word to ids.

    Args:
        merges: the pairs of ids in the order in which they were learned, each with the id it becomes.
        byte_ids: the id of each byte.
    """

    def __init__(self, merges: Sequence[tuple[Pair, int]], byte_ids: Sequence[int]) -> None:
        self._byte_ids = list(byte_ids)
        self._ranks = {pair: rank for rank, (pair, _) in enumerate(merges)}
        self._merged = [merged for _, merged in merges]
        self._never = len(merges)

    def encode(self, word: bytes) -> list[int]:
        """The ids of a word."""
        ids = [self._byte_ids[byte] for byte in word]
        while len(ids) > 1:
            ranks = [self._ranks.get(pair, self._never) for pair in pairwise(ids)]
            best = min(ranks)
            if best == self._never:
                break
            i = ranks.index(best)
            ids[i : i + 2] = [self._merged[best]]
        return ids
