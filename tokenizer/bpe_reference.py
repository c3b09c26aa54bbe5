"""Byte-pair encoding: a readable trainer, with which tests compare the fast trainer.

Training (Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare Words with Subword Units", section 3.2)
starts with every word as a sequence of characters, here of bytes. It repeats three steps: count all pairs of adjacent
tokens, add the most frequent pair to the vocabulary as a token, and replace the pair by this token everywhere. The list
of merges, in this order, defines the tokenizer.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

Pair = tuple[int, int]


def merge_pair(tokens: list[int], pair: Pair, merged: int) -> list[int]:
    """Replace every `pair` in `tokens` by `merged`, from left to right: merging (a, a) in a a a gives aa a."""
    result = []
    i = 0
    while i < len(tokens):
        if i + 1 < len(tokens) and (tokens[i], tokens[i + 1]) == pair:
            result.append(merged)
            i += 2
        else:
            result.append(tokens[i])
            i += 1
    return result


def train_reference(
    words: Mapping[bytes, int], vocabulary: list[str], byte_ids: list[int], vocab_size: int, min_frequency: int = 0
) -> Iterator[Pair]:
    """Yield the merges in order, as pairs of ids, and append each new token to `vocabulary`.

    If two pairs are equally frequent, the pair with the smaller ids is merged first. Pairs are counted once. Afterwards
    their counts are updated, because a merge changes only the words that contain its pair. The most frequent pair comes
    from a heap. An entry's count can be too high, because counts can fall after the entry is added; the entry is then
    put back with the correct count.

    `words` are the numbers of occurrences of each word. `vocabulary` begins with the special tokens, then the 256 bytes
    in the notation of `byte_alphabet`. Training ends at `vocab_size` tokens, or when all pairs are rarer than
    `min_frequency`; 0 is treated as 1.
    """
    ids = {token: id for id, token in enumerate(vocabulary)}
    texts = [[byte_ids[byte] for byte in word] for word in words]
    frequencies = list(words.values())

    counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)
    for i, tokens in enumerate(texts):
        for pair in pairwise(tokens):
            counts[pair] += frequencies[i]
            words_with[pair].add(i)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)

    while len(ids) < vocab_size and heap:
        negative_count, pair = heapq.heappop(heap)
        if counts[pair] != -negative_count:
            heapq.heappush(heap, (-counts[pair], pair))
            continue
        if counts[pair] < max(min_frequency, 1):
            break
        token = vocabulary[pair[0]] + vocabulary[pair[1]]
        # A special token can have the same text; then the merge gives that token and makes no new one.
        merged = ids.setdefault(token, len(vocabulary))
        if merged == len(vocabulary):
            vocabulary.append(token)
        yield pair

        formed = set()
        for i in words_with.pop(pair):
            before, after = texts[i], merge_pair(texts[i], pair, merged)
            for old in pairwise(before):
                counts[old] -= frequencies[i]
            for new in pairwise(after):
                counts[new] += frequencies[i]
                if merged in new:
                    words_with[new].add(i)
                    formed.add(new)
            texts[i] = after
        for new in formed:
            heapq.heappush(heap, (-counts[new], new))
