"""Apply merges to one word, in the order in which the pairs were learned, and from left to right.

Two algorithms give the same result. For a usual word of about a dozen bytes, searching a list for the smallest rank is
fastest. The time of this search is quadratic in the word's length, so a heap is used for longer words, and for
BPE-dropout.
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise, repeat
from random import Random

Pair = tuple[int, int]

_HEAP = 60  # bytes; for longer words, a heap is faster than searching a list
_GONE = -2  # merged into the token before it


class BPEEncoder:
    """An encoder of the bytes of one word. Each of the `pairs` of ids, in order, becomes an id of `merged`."""

    def __init__(self, pairs: Sequence[Pair], merged: Sequence[int], byte_ids: Sequence[int]) -> None:
        self._byte_ids = list(byte_ids)
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}  # if a pair occurs twice, the last one counts
        self._merged = list(merged)
        self._never = len(self._merged)

    def encode(self, word: bytes) -> list[int]:
        """Return the ids of a word."""
        return self._encode_short(word) if len(word) < _HEAP else self.encode_with_dropout(word, 0.0, Random(0))

    def encode_with_dropout(self, word: bytes, dropout: float, generator: Random) -> list[int]:
        """Return the ids of a word, with each possible merge skipped with probability `dropout`. This is BPE-dropout:
        Provilkov, Emelianenko and Voita 2020, algorithm 1, with a heap of (rank, position) and a linked list of tokens.
        """
        ids = [self._byte_ids[byte] for byte in word]
        next = list(range(1, len(ids) + 1))
        previous = list(range(-1, len(ids) - 1))
        heap = [(self._ranks[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in self._ranks]
        heapq.heapify(heap)
        left_out: list[tuple[int, int]] = []
        while heap:
            rank, i = heapq.heappop(heap)
            j = next[i]
            if j == len(ids) or self._ranks.get((ids[i], ids[j])) != rank:
                continue  # one of the two is now part of another token
            if dropout and generator.random() < dropout:
                left_out.append((rank, i))
                continue
            for entry in left_out:  # they are tried again at the next step
                heapq.heappush(heap, entry)
            left_out.clear()
            ids[i], ids[j] = self._merged[rank], _GONE
            next[i] = next[j]
            if next[i] < len(ids):
                previous[next[i]] = i
            for position in (previous[i], i):
                if position >= 0 and next[position] < len(ids):
                    formed = self._ranks.get((ids[position], ids[next[position]]))
                    if formed is not None:
                        heapq.heappush(heap, (formed, position))
        return [id for id in ids if id != _GONE]

    def _encode_short(self, word: bytes) -> list[int]:
        rank_of, never = self._ranks.get, self._never
        ids = [self._byte_ids[byte] for byte in word]
        ranks = list(map(rank_of, pairwise(ids), repeat(never)))
        while ranks:
            rank = min(ranks)
            if rank == never:
                break
            i = ranks.index(rank)
            merged = ids[i] = self._merged[rank]
            del ids[i + 1], ranks[i]
            if i:
                ranks[i - 1] = rank_of((ids[i - 1], merged), never)
            if i < len(ranks):
                ranks[i] = rank_of((merged, ids[i + 1]), never)
        return ids
