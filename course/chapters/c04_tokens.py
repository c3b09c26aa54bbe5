"""Chapter 4, the exercises: counting pairs, merging a pair, training, encoding."""

from collections import Counter
from itertools import pairwise
from typing import Any

from ...tokenizer.bpe_encoder import BPEEncoder
from ...tokenizer.bpe_reference import merge_pair, train_reference
from ..exercise import need
from .c04_tokens_solution import train

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "newer": 1, "aaaa": 2}


def as_tokens(words: dict[str, int]) -> dict[tuple[int, ...], int]:
    return {tuple(word.encode()): often for word, often in words.items()}


def probe_count_pairs(count_pairs: Any) -> dict[str, Any]:
    def counts(words: dict[str, int]) -> dict[Any, Any]:
        found = need(count_pairs(as_tokens(words)), dict, "count_pairs(words)")
        return dict(sorted((pair, often) for pair, often in found.items() if often))

    return {
        "the count of the pairs in the word `low`, once": counts({"low": 1}),
        "the count of the pairs in `low`, 5 times, and `lower`, twice": counts({"low": 5, "lower": 2}),
        "the count of the pairs in `anan`, once": counts({"anan": 1}),
        "the count of the pairs in `aaa`, twice": counts({"aaa": 2}),
        "the count of the pairs in all words of the test": counts(WORDS),
    }


def real_count_pairs(words: Any) -> dict[Any, int]:
    """Return the pair counts that `train_reference` computes before its first merge."""
    counts: Counter[Any] = Counter()
    for tokens, often in words.items():
        for pair in pairwise(tokens):
            counts[pair] += often
    return dict(counts)


def probe_merge(merge: Any) -> dict[str, Any]:
    def merged(*tokens: int) -> list[int]:
        return list(need(merge(tokens, (1, 2), 256), tuple, "merge(tokens, pair, new)"))

    def twin(*tokens: int) -> list[int]:
        return list(need(merge(tokens, (1, 1), 256), tuple, "merge(tokens, pair, new)"))

    return {
        "(3, 1, 2, 3) with (1, 2) merged into 256": merged(3, 1, 2, 3),
        "(3, 4) with (1, 2) merged, which it does not have": merged(3, 4),
        "(1, 2, 1, 2, 3, 1) with (1, 2) merged": merged(1, 2, 1, 2, 3, 1),
        "(2, 1, 2) with (1, 2) merged": merged(2, 1, 2),
        "(1, 1, 1) with (1, 1) merged": twin(1, 1, 1),
        "(1, 1, 1, 1, 2) with (1, 1) merged": twin(1, 1, 1, 1, 2),
    }


def real_merge(tokens: Any, pair: Any, new: int) -> tuple[int, ...]:
    return tuple(merge_pair(list(tokens), pair, new))


TIES = {"ba": 2, "cd": 2, "ab": 2, "abcd": 1, "dab": 1, "zz": 1}


def probe_train(train: Any) -> dict[str, Any]:
    def pairs(words: dict[str, int], merges: int) -> list[Any]:
        found = need(train(as_tokens(words), merges), (list, tuple), "train(words, merges)")
        return [tuple(pair) for pair in found]

    return {
        "the first merge of `low`, `lower`, `newest`, ...": pairs(WORDS, 1),
        "the first 4 merges": pairs(WORDS, 4),
        "the merges of words with many ties": pairs(TIES, 5),
        "the merges of the word `abc`, once, of which 10 are wanted": pairs({"abc": 1}, 10),
        "20 merges": pairs(WORDS, 20),
    }


def real_train(words: Any, merges: int) -> list[Any]:
    vocabulary = [chr(0x4E00 + byte) for byte in range(256)]
    spelt = {bytes(tokens): often for tokens, often in words.items()}
    return list(train_reference(spelt, vocabulary, list(range(256)), 256 + merges))


TOWER = {"low": 7, "we": 6, "wer": 5, "lo": 1, "rest": 3, "est": 2}


def probe_encode(encode: Any) -> dict[str, Any]:
    def ids(word: str, merges: list[Any]) -> list[int]:
        return list(need(encode(tuple(word.encode()), merges), (tuple, list), "encode(tokens, merges)"))

    merges, tower = train(as_tokens(WORDS), 12), train(as_tokens(TOWER), 6)
    return {
        "the tokens of `lowest`, without any merge": ids("lowest", []),
        "the tokens of `lowest`": ids("lowest", merges),
        "the tokens of `newnewer`": ids("newnewer", merges),
        "the tokens of `lowest`, with other merges": ids("lowest", tower),
        "the tokens of `lower`, where `low` and `wer` both want the w": ids("lower", tower),
        "the tokens of `abc`, with `bc`, `abc` and `ab` merged in this order": ids(
            "abc", [(98, 99), (97, 256), (97, 98)]
        ),
    }


def real_encode(tokens: Any, merges: Any) -> list[int]:
    ids = list(range(256 + len(merges)))
    return list(BPEEncoder(merges, ids[256:], ids[:256]).encode(bytes(tokens)))
