"""A fast trainer with NumPy arrays, which computes many merges at a time.
The merges are the same as in `bpe_reference`.

It uses three ideas, which do not change the result.

Batches. A batch consists of the most frequent pairs, up to the first pair whose left token is the right token of an
earlier pair, or whose right token is the left token of an earlier pair. Occurrences of the batch's pairs don't overlap,
so all can be replaced at once. The order of merges is still correct. If (a, b) becomes X, a new pair (X, y) is at most
as frequent as (b, y) was. A pair (b, y) that was more frequent than a pair of the batch would have ended the batch
earlier. If the new pair is equally frequent, it comes later, because X is the largest id.

Epochs. Only pairs that occur at least `floor` times are tracked. The count of a pair never grows after its first
occurrence, so rarer pairs can be ignored until all tracked pairs are merged. Then all pairs are counted again with a
lower floor. Most pairs are rare, and are therefore never tracked.

One array. One array contains the tokens of all words, with a separator between words. Links to the next and the
previous token skip merged tokens, and each token has the count of its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
Ints = NDArray[np.int64]

_SEPARATOR = -1  # between words
_GONE = -2  # merged into the token before it

_CANDIDATES = 256  # pairs that are kept sorted
_EPOCH_RANGE = 8  # an epoch goes down to this fraction of the largest count


def train_fast(
    words: Mapping[bytes, int], vocabulary: list[str], byte_ids: list[int], vocab_size: int, min_frequency: int = 0
) -> Iterator[Pair]:
    """Yield the merges in order and append the new tokens to `vocabulary`, as `bpe_reference.train_reference` does."""
    text = _Text.of_words(words, byte_ids)
    del words  # the words take as much memory as the array; the caller may have deleted its own reference
    ids = {token: id for id, token in enumerate(vocabulary)}
    lowest = max(min_frequency, 1)
    while len(ids) < vocab_size:
        pairs = _TrackedPairs(text, lowest)
        while batch := _next_batch(pairs, vocabulary, ids, vocab_size):
            yield from batch
            _merge(text, pairs, batch)
        if pairs.floor == lowest:
            return
        text = text.compact()


def _next_batch(pairs: _TrackedPairs, vocabulary: list[str], ids: dict[str, int], vocab_size: int) -> dict[Pair, int]:
    """Return the next pairs that can be merged at once, each with its new id; empty at the end of the epoch."""
    batch: dict[Pair, int] = {}
    lefts: set[int] = set()
    rights: set[int] = set()
    for left, right in pairs.most_frequent():
        if len(ids) >= vocab_size or left in rights or right in lefts or (left == right and batch):
            break
        token = vocabulary[left] + vocabulary[right]
        merged = batch[left, right] = ids.setdefault(token, len(vocabulary))
        if merged < len(vocabulary):  # a special token's id is smaller than those of later pairs, and would win a tie
            break
        vocabulary.append(token)
        lefts.add(left)
        rights.add(right)
        if left == right:  # the occurrences of (a, a) can overlap: it must be alone in a batch
            break
    return batch


class _Text:
    """All words of the corpus as one array of tokens, with links that skip merged tokens.

    `tokens` (n,) are ids, `_SEPARATOR` or `_GONE`, with a separator before, between and after the words. `weights` (n,)
    are the numbers of occurrences of each token's word.
    """

    def __init__(self, tokens: Ints, weights: Ints) -> None:
        self.tokens, self.weights = tokens, weights
        self.next = np.arange(1, len(tokens) + 1)  # the neighbours of each remaining token
        self.previous = np.arange(-1, len(tokens) - 1)

    @classmethod
    def of_words(cls, words: Mapping[bytes, int], byte_ids: list[int]) -> _Text:
        longer = [word for word in words if len(word) > 1]
        data = np.frombuffer(b"\xff".join([b"", *longer, b""]), dtype=np.uint8)  # UTF-8 never holds 0xff
        table = np.array(byte_ids, dtype=np.int64)
        table[0xFF] = _SEPARATOR
        counts = np.fromiter((words[word] for word in longer), dtype=np.int64, count=len(longer))
        lengths = np.fromiter(map(len, longer), dtype=np.int64, count=len(longer))
        return cls(table[data], np.concatenate([[0], np.repeat(counts, lengths + 1)]))

    def compact(self) -> _Text:
        """Return the text without tokens that were merged into others, and without words of one token."""
        alive = self.tokens != _GONE
        tokens, weights = self.tokens[alive], self.weights[alive]
        between = tokens == _SEPARATOR
        needed = np.ones(len(tokens), dtype=bool)
        needed[1:-1] = ~(between[:-2] & between[2:])
        return _Text(tokens[needed], weights[needed])

    def every_other(self, positions: Ints) -> Ints:
        """Select from the ascending positions of (a, a) the first, the third, ... in each run of a."""
        index = np.arange(len(positions))
        begins = np.ones(len(positions), dtype=bool)
        begins[1:] = self.next[positions[:-1]] != positions[1:]
        return positions[(index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0]


class _TrackedPairs:
    """The pairs that occur at least `floor` times, with their counts and positions."""

    def __init__(self, text: _Text, lowest: int) -> None:
        left, right = text.tokens[:-1], text.tokens[1:]
        codes = _pack(left, right)
        positions = np.flatnonzero((left >= 0) & (right >= 0))
        codes, counts, starts, order = _sum_by_code(codes[positions], text.weights[positions])
        self.floor = max(lowest, int(counts.max(initial=0)) // _EPOCH_RANGE)
        self._codes = self._counts = np.empty(0, np.int64)
        self._positions: dict[int, Ints] = {}
        self._track(codes, counts, starts, order, positions)
        self._level = np.iinfo(np.int64).max  # pairs with at least this count are sorted; it falls step by step

    def most_frequent(self) -> Iterator[Pair]:
        """Return the most frequent tracked pairs, in descending order; equally frequent ones by ascending ids."""
        chosen = np.flatnonzero(self._counts >= self._level)
        if not chosen.size:
            cut = max(len(self._counts) - _CANDIDATES, 0)
            self._level = max(self.floor, int(np.partition(self._counts, cut)[cut])) if self._counts.size else 1
            chosen = np.flatnonzero(self._counts >= self._level)
        in_order = chosen[np.argsort(-self._counts[chosen], kind="stable")[:_CANDIDATES]]
        codes = self._codes[in_order]
        return zip((codes >> 32).tolist(), (codes & 0xFFFFFFFF).tolist(), strict=True)

    def take(self, left: Ints, right: Ints) -> list[Ints]:
        """Stop tracking these pairs, and return their positions, some of which can be outdated."""
        codes = _pack(left, right)
        self._counts[np.searchsorted(self._codes, codes)] = 0
        return [self._positions.pop(code) for code in codes.tolist()]

    def subtract(self, codes: Ints, weights: Ints) -> None:
        """Subtract from the counts of those pairs that are tracked."""
        slots = np.searchsorted(self._codes, codes)
        slots[slots == len(self._codes)] = 0
        tracked = self._codes[slots] == codes
        np.subtract.at(self._counts, slots[tracked], weights[tracked])

    def add(self, codes: Ints, weights: Ints, positions: Ints) -> None:
        """Track the new pairs that are frequent enough."""
        self._track(*_sum_by_code(codes, weights), positions)

    def _track(self, codes: Ints, counts: Ints, starts: Ints, order: Ints, positions: Ints) -> None:
        """Track the pairs of the result of `_sum_by_code` that are frequent enough; `positions` are unsorted."""
        positions = positions[order]
        ends = np.append(starts[1:], len(positions))
        kept = counts >= self.floor
        if not kept.any():
            return
        codes, counts = codes[kept], counts[kept]
        for code, start, end in zip(codes.tolist(), starts[kept].tolist(), ends[kept].tolist(), strict=True):
            self._positions[code] = positions[start:end]
        slots = np.searchsorted(self._codes, codes)
        self._codes = np.insert(self._codes, slots, codes)
        self._counts = np.insert(self._counts, slots, counts)


def _merge(text: _Text, pairs: _TrackedPairs, batch: dict[Pair, int]) -> None:
    """Replace all occurrences of a batch's pairs by the new tokens, and update the counts. Occurrences of different
    pairs don't overlap. Those of a pair (a, a), which is alone in its batch, can overlap.
    """
    left, right = np.array(list(batch)).T
    merged, positions = np.array(list(batch.values())), pairs.take(left, right)
    alike, lengths = left[0] == right[0], [len(of_pair) for of_pair in positions]
    left, right, merged = (np.repeat(ids, lengths) for ids in (left, right, merged))
    position = np.concatenate(positions)
    tokens, next, previous = text.tokens, text.next, text.previous
    valid = (tokens[position] == left) & (tokens[next[position]] == right)
    position, left, right, merged = position[valid], left[valid], right[valid], merged[valid]
    if alike:
        position = text.every_other(np.sort(position))
        left, right, merged = left[: len(position)], right[: len(position)], merged[: len(position)]

    second = next[position]
    following, before = next[second], previous[position]
    old_before, behind = tokens[before], tokens[following]
    tokens[position], tokens[second] = merged, _GONE
    next[position], previous[following] = following, position
    # The tokens on both sides may have been merged too. Two merged pairs side by side form one pair, which counts once.
    before = previous[position]
    new_before = tokens[before]
    has_before, has_behind = new_before >= 0, (behind >= 0) & (tokens[following] == behind)

    weights = text.weights[position]
    weights = np.concatenate([weights[has_before], weights[has_behind]])
    lost = [_pack(old_before, left)[has_before], _pack(right, behind)[has_behind]]
    formed = [_pack(new_before, merged)[has_before], _pack(merged, behind)[has_behind]]
    pairs.subtract(np.concatenate(lost), weights)
    pairs.add(np.concatenate(formed), weights, np.concatenate([before[has_before], position[has_behind]]))


def _pack(left: Ints, right: Ints) -> Ints:
    """Pack two ids into one number. The numbers have the same order as the pairs."""
    return left << 32 | right


def _sum_by_code(codes: Ints, weights: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the distinct codes in ascending order, the sums of their weights, each code's start in the sorted order,
    and the indices that sort the codes.
    """
    order = np.argsort(codes)
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))[: len(codes)]
    return ordered[starts], np.add.reduceat(weights[order], starts) if len(codes) else weights, starts, order
