"""Apply merges to one word, in the order in which the pairs were learned, and from left to right.

Three algorithms give the same result. For a usual word of about a dozen bytes, searching a list for the smallest rank
is fastest. The time of this search is quadratic in the word's length, so a heap is used for longer words, and for
BPE-dropout. For words of a megabyte (base64, or scripts without blanks), all occurrences of a pair are replaced at once
in an array.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise, repeat
from random import Random

import numpy as np

from .token_array import GONE, SEPARATOR, Ints, TokenArray, pack

Pair = tuple[int, int]

# Measured in bytes: above the first, a heap is faster than searching a list; above the second, an array is fastest.
_HEAP = 60
_ARRAY = 10_000


class BPEEncoder:
    """An encoder that turns the bytes of one word into ids.

    Args:
        pairs: the pairs of ids in the order in which they were learned.
        merged: the id of the token that replaces each pair.
        byte_ids: the id of each byte.
    """

    def __init__(self, pairs: Sequence[Pair], merged: Sequence[int], byte_ids: Sequence[int]) -> None:
        self._byte_ids = list(byte_ids)
        self._ranks = {
            pair: rank for rank, pair in enumerate(pairs)
        }  # if a pair occurs twice, the last one counts
        self._merged = list(merged)
        self._never = len(self._merged)
        self._table: _RankTable | None = None

    def encode(self, word: bytes) -> list[int]:
        """Return the ids of a word."""
        if len(word) < _HEAP:
            return self._encode_short(word)
        if len(word) >= _ARRAY:
            if self._table is None:
                self._table = _RankTable(self._ranks, self._merged)
            if self._table.in_order:
                return self._encode_long(word, self._table)
        return self._encode_by_heap(word, 0.0, Random(0))

    def encode_with_dropout(self, word: bytes, dropout: float, generator: Random) -> list[int]:
        """Return the ids of a word, with each possible merge skipped with probability `dropout`.

        This is BPE-dropout: Provilkov, Emelianenko and Voita 2020, algorithm 1.
        """
        return self._encode_by_heap(word, dropout, generator)

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

    def _encode_by_heap(self, word: bytes, dropout: float, generator: Random) -> list[int]:
        """Encode a word with a heap of (rank, position) and a linked list of tokens.
        A token that was merged into the token before it is `GONE`.
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
            ids[i], ids[j] = self._merged[rank], GONE
            next[i] = next[j]
            if next[i] < len(ids):
                previous[next[i]] = i
            for position in (previous[i], i):
                if position >= 0 and next[position] < len(ids):
                    formed = self._ranks.get((ids[position], ids[next[position]]))
                    if formed is not None:
                        heapq.heappush(heap, (formed, position))
        return [id for id in ids if id != GONE]

    def _encode_long(self, word: bytes, table: _RankTable) -> list[int]:
        ids = np.array(self._byte_ids)[np.frombuffer(word, dtype=np.uint8)]
        array = TokenArray(np.concatenate([[SEPARATOR], ids, [SEPARATOR]]))
        waiting: dict[int, list[Ints]] = {}  # the positions of the pairs of each rank
        heap: list[int] = []

        def wait(codes: Ints, positions: Ints) -> None:
            ranks = table.ranks(codes)
            order = np.argsort(ranks)
            order = order[: np.searchsorted(ranks[order], table.never)]
            found, starts = np.unique(ranks[order], return_index=True)
            for rank, of_rank in zip(found.tolist(), np.split(positions[order], starts[1:]), strict=False):
                if rank not in waiting:
                    heapq.heappush(heap, rank)
                waiting.setdefault(rank, []).append(of_rank)

        wait(pack(array.tokens[:-1], array.tokens[1:]), np.arange(len(array.tokens) - 1))
        while heap:
            batch = table.next_batch(heap)
            left, right, merged = table.left[batch], table.right[batch], table.merged[batch]
            done = array.replace(left, right, merged, [np.concatenate(waiting.pop(rank)) for rank in batch])
            first, second = done.has_before, done.has_behind
            formed = [pack(done.new_before, done.merged)[first], pack(done.merged, done.behind)[second]]
            wait(np.concatenate(formed), np.concatenate([done.before[first], done.position[second]]))
        tokens = array.tokens[1:-1]
        return tokens[tokens != GONE].tolist()


class _RankTable:
    """The merges as arrays, to look up the ranks of many pairs at once.

    Attributes:
        left, right, merged: (n,) for each rank, the two ids of the pair and the id of the merged token.
        never: a number that is larger than all ranks.
        in_order: whether each merge comes after the merges that create its parts, as in every trained vocabulary. If
            so, a merge never creates a pair of a lower rank, and pairs can be replaced rank by rank.
    """

    def __init__(self, ranks: dict[Pair, int], merged: list[int]) -> None:
        self.never = len(merged)
        self.merged = np.array(merged, dtype=np.int64)
        pairs = np.array(list(ranks), dtype=np.int64).reshape(-1, 2)
        values = np.fromiter(ranks.values(), dtype=np.int64, count=len(ranks))
        self.left, self.right = np.zeros((2, self.never), dtype=np.int64)
        self.left[values], self.right[values] = pairs.T
        codes = pack(*pairs.T)
        order = np.argsort(codes)
        self._codes, self._values = codes[order], values[order]

        size = int(max(pairs.max(initial=0), self.merged.max(initial=0))) + 1
        made_last = np.full(size, -1)
        np.maximum.at(made_last, self.merged[values], values)
        self.in_order = bool(np.all(values > np.maximum(made_last[pairs[:, 0]], made_last[pairs[:, 1]])))
        used_first = np.full(size, self.never)  # the lowest rank of the pairs that hold a token
        np.minimum.at(used_first, pairs[:, 0], values)
        np.minimum.at(used_first, pairs[:, 1], values)
        self._next_after = used_first[self.merged].tolist()

    def ranks(self, codes: Ints) -> Ints:
        """Return the rank of each pair, or `never` for a pair that is not merged."""
        if not len(self._codes):
            return np.full(len(codes), self.never)
        slots = np.searchsorted(self._codes, codes)
        slots[slots == len(self._codes)] = 0
        return np.where(self._codes[slots] == codes, self._values[slots], self.never)

    def next_batch(self, heap: list[int]) -> list[int]:
        """Remove from the heap the ranks of the next pairs that can be replaced at once, and return these ranks.
        The pairs don't overlap, and replacing a pair creates no pair of a rank between theirs.
        """
        batch: list[int] = []
        lefts: set[int] = set()
        rights: set[int] = set()
        limit = self.never
        while heap and heap[0] < limit:
            left, right = int(self.left[heap[0]]), int(self.right[heap[0]])
            if left in rights or right in lefts or (left == right and batch):
                break
            rank = heapq.heappop(heap)
            batch.append(rank)
            if left == right:
                break
            lefts.add(left)
            rights.add(right)
            limit = min(limit, self._next_after[rank])
        return batch
