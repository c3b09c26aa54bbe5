"""Chapter 4, the exercises: counting pairs, merging a pair, training, encoding."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from ...tokenizer.bpe_encoder import BPEEncoder
from ...tokenizer.bpe_reference import merge_pair, train_reference
from ..exercise import Exercise, need
from .c04_tokens_solution import count_pairs, encode, merge, train

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "newer": 1, "aaaa": 2}


def as_tokens(words: dict[str, int]) -> dict[tuple[int, ...], int]:
    return {tuple(word.encode()): often for word, often in words.items()}


# -- count_pairs -------------------------------------------------------------------------------------------------------


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


COUNT_PAIRS = Exercise(
    count_pairs,
    probe_count_pairs,
    real_count_pairs,
    source="tokenizer.bpe_reference.train_reference",
    hints=(
        "A word of four tokens has how many pairs of neighbours? And if the word occurs 5 times in the text?",
        "{(1, 2, 3): 5} has the pairs (1, 2) and (2, 3), each 5 times.",
        "counts = Counter(); for tokens, often in words.items(): for pair in pairwise(tokens): counts[pair] += "
        "often. Return counts.",
    ),
    changes="""
        Each word counts once here. `words` says how often the word occurs, and its pairs occur just as often.
        - += often
        + += 1
        A pair that occurs twice in a word, as (a, n) in `anan`, counts once here. It should count twice.
        - in pairwise(tokens)
        + in set(pairwise(tokens))
        These are counts of single tokens. Count pairs of neighbours, (left, right).
        - for pair in pairwise(tokens)
        + for pair in tokens
    """,
)


@COUNT_PAIRS.wrong
def across_words(words):
    """The last token of a word and the first token of the next word are counted as a pair. A pair must not span two
    words.
    """
    text = [token for tokens, often in words.items() for _ in range(often) for token in tokens]
    return Counter(pairwise(text))


@COUNT_PAIRS.wrong
def not_overlapping(words):
    """In `aaa` the pair (a, a) occurs at two places. Count both occurrences, although they share the middle token."""
    counts = Counter()
    for tokens, often in words.items():
        last = None
        for i, pair in enumerate(pairwise(tokens)):
            if pair[0] == pair[1] and last == (i - 1, pair):
                last = None
                continue
            counts[pair] += often
            last = (i, pair)
    return counts


@COUNT_PAIRS.right
def by_dictionary(words):
    counts = {}
    for tokens in words:
        for i in range(len(tokens) - 1):
            pair = (tokens[i], tokens[i + 1])
            counts[pair] = counts.get(pair, 0) + words[tokens]
    return counts


# -- merge -------------------------------------------------------------------------------------------------------------


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


MERGE = Exercise(
    merge,
    probe_merge,
    real_merge,
    source="tokenizer.bpe_reference.merge_pair",
    hints=(
        "Where do you continue after a pair, and where after a token that does not begin a pair? Can a `for` loop do "
        "that?",
        "(1, 1, 1) becomes (new, 1): after the pair the walk goes on 2 places further, otherwise 1 place.",
        "while i < len(tokens): if tokens[i : i + 2] == pair: append new, i += 2; else append tokens[i], i += 1. At "
        "the end the slice has one token, which is no pair. Return a tuple.",
    ),
    changes="""
        The first pair is merged and the others are not: continue after it, to the end.
        - == pair
        + == pair and new not in out
        After a pair, go on by two tokens: its second token is used up, but in your result it appears again.
        - 2 if found else 1
        + 1
        tokens[i + 1] does not exist for the last token. Either test for the end, or compare a slice, tokens[i : i + 2]
        == pair, which may be shorter.
        - tokens[i : i + 2] == pair
        + tokens[i] == pair[0] and tokens[i + 1] == pair[1]
        The last token is lost if it does not end a pair. It has no neighbour to the right, so it must be copied.
        - while i < len(tokens)
        + while i < len(tokens) - 1
    """,
)


@MERGE.wrong
def from_the_right(tokens, pair, new):
    """Only one thing is wrong: in (1, 1, 1) the left pair must be merged, which gives (256, 1), not (1, 256).
    """
    return merge(tokens[::-1], pair[::-1], new)[::-1]


@MERGE.right
def by_looking_back(tokens, pair, new):
    out = []
    for token in tokens:
        if out and out[-1] == pair[0] and token == pair[1]:
            out[-1] = new
        else:
            out.append(token)
    return tuple(out)


# -- train -------------------------------------------------------------------------------------------------------------


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


TRAIN = Exercise(
    train,
    probe_train,
    real_train,
    source="tokenizer.bpe_reference.train_reference",
    hints=(
        "Which pairs are there after the first merge that were not there before? So what must be done again in each "
        "round?",
        "With the counts {(1, 2): 3, (0, 7): 3, (5, 5): 2} the pair is (0, 7): 3 is the largest count, and of the two "
        "pairs with this count it has the smaller numbers. It is the pair with the smallest tuple (-count, pair).",
        "pair = min(counts, key=lambda pair: (-counts[pair], pair)); words = {merge(tokens, pair, 256 + "
        "len(found)): often for tokens, often in words.items()}; found.append(pair)",
    ),
    changes="""
        Ties go to the pair that was counted first, which depends on the order of the text. The rule is: of equally
        frequent pairs, take the one with the smaller numbers.
        - min(counts, key=lambda pair: (-counts[pair], pair))
        + max(counts, key=counts.get)
        Of equally frequent pairs this takes the one with the larger numbers: max by (count, pair). Negate the count and
        take the min.
        - min(counts, key=lambda pair: (-counts[pair], pair))
        + max(counts, key=lambda pair: (counts[pair], pair))
        This merges the rarest pair each time, because min takes the smallest count. Take the most frequent pair.
        - -counts[pair]
        + counts[pair]
        The same pair is found each time: merge it in all words before you count again.
        - words = {merge(tokens, pair, 256 + len(found)): often for tokens, often in words.items()}
        + pass
        When every word is one token, no pair is left and there is nothing to choose: stop then, and return the merges
        that you have.
        - while len(found) < merges and (counts := count_pairs(words)):
        + for _ in range(merges):
        +     counts = count_pairs(words)
        When every word is one token no pair is left, and max() of nothing is an error: stop then. And max by the count
        alone leaves ties to chance.
        - while len(found) < merges and (counts := count_pairs(words)):
        + for _ in range(merges):
        +     counts = count_pairs(words)
        - min(counts, key=lambda pair: (-counts[pair], pair))
        + max(counts, key=counts.get)
        The pairs are right, but their tokens are too high by one: the first merge makes token 256.
        - 256 + len(found)
        + 257 + len(found)
    """,
)


@TRAIN.wrong
def counted_once(words, merges):
    """The pairs are counted once, at the beginning. But each merge creates new pairs and removes other pairs: count
    again after each merge.
    """
    counts = count_pairs(words)
    return sorted(counts, key=lambda pair: (-counts[pair], pair))[:merges]


def dict_of(texts: Any) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for tokens, often in texts:
        counts[tuple(tokens)] += often
    return counts


@TRAIN.right
def sorted_by_count(words, merges):
    texts, found = [(list(tokens), often) for tokens, often in words.items()], []
    for new in range(256, 256 + merges):
        counts = sorted((-often, pair) for pair, often in by_dictionary(dict_of(texts)).items())
        if not counts:
            break
        found.append(counts[0][1])
        texts = [(by_looking_back(tokens, found[-1], new), often) for tokens, often in texts]
    return found


# -- encode ------------------------------------------------------------------------------------------------------------


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


ENCODE = Exercise(
    encode,
    probe_encode,
    real_encode,
    source="tokenizer.bpe_encoder.BPEEncoder.encode",
    hints=(
        "Merge 256 may be a part of merge 300. In which order must they be applied?",
        "The first merge of the list makes 256, the second 257, and so on: 3 merges are 3 passes over the word.",
        "for number, pair in enumerate(merges): tokens = merge(tokens, pair, 256 + number). Return tokens.",
    ),
    changes="""
        The merges are applied from the last to the first, but later merges need the tokens that earlier merges make.
        - enumerate(merges)
        + reversed(list(enumerate(merges)))
        All merges make the same token. Each has its own number: 256 for the first, 257 for the second.
        - 256 + number
        + 256
    """,
)


def spelling(merges: Any) -> dict[int, bytes]:
    texts = {byte: bytes([byte]) for byte in range(256)}
    for number, (left, right) in enumerate(merges):
        texts[256 + number] = texts[left] + texts[right]
    return texts


@ENCODE.wrong
def longest_token(tokens, merges):
    """This takes the longest token that fits, from the left. But the merges give other tokens: an earlier merge joins
    the w with the next letter, so that `low` can't be formed. Apply the merges in their order.
    """
    known = {text: token for token, text in spelling(merges).items()}
    word, out = bytes(tokens), []
    while word:
        length = max(size for size in range(1, len(word) + 1) if word[:size] in known)
        out.append(known[word[:length]])
        word = word[length:]
    return out


@ENCODE.wrong
def leftmost_first(tokens, merges):
    """This merges the leftmost pair that it finds. But the order of the merges decides: apply the first merge first,
    wherever its pair occurs in the word.
    """
    tokens, i = list(tokens), 0
    while i < len(tokens) - 1:
        pair = (tokens[i], tokens[i + 1])
        if pair in merges:
            tokens[i : i + 2] = [256 + merges.index(pair)]
            i = 0
        else:
            i += 1
    return tokens


@ENCODE.right
def lowest_rank(tokens, merges):
    """A correct answer that repeatedly merges, of all pairs in the word, the pair that was merged first in training."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    while len(tokens) > 1:
        rank = min(ranks.get(pair, len(merges)) for pair in pairwise(tokens))
        if rank == len(merges):
            break
        tokens = merge(tuple(tokens), tuple(merges[rank]), 256 + rank)
    return tokens
