"""The view "BPE": a text tokenized with the first n merges, the most frequent pairs, and the merges of a word."""

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import InputError
from ..tokenizer import BPETokenizer
from ..tokenizer.explore import with_fewer_tokens
from ..tokenizer.normalizer import normalized
from ..tokenizer.pre_tokenizer import splitter
from .asking import Ask
from .subject import Subject

LONGEST_WORD = 60  # bytes of a word whose tree is drawn
MAX_PAIRS = 12
COLUMN, ROW = 34, 40  # pixels from byte to byte, from level to level


def merges(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the text's tokens after n merges, its most frequent pairs of tokens, and one word's merge tree."""
    tokenizer = subject.tokenizer
    if not isinstance(tokenizer, BPETokenizer):
        raise InputError("This model's tokenizer has no merges, because its tokens are characters or words.")
    total = len(tokenizer.merges)
    text, n = ask.text(), ask.whole("merges", 0, total, total // 3)
    text = normalized(text) if tokenizer.normalize else text
    smaller = first_merges(tokenizer, n)
    ids = smaller.encode(text)
    word = ask.text("word", LONGEST_WORD) or _longest_word(tokenizer, text)
    return {
        "total": total,
        "merges": n,
        "ids": ids,
        "words": words(subject, smaller, text, ids),
        "bytes": len(text.encode()),
        "last": _pair(tokenizer, n - 1) if n else None,
        "next": _pair(tokenizer, n) if n < total else None,
        "pairs": pairs(tokenizer, smaller, text, n),
        "word": word,
        "tree": word_tree(tokenizer, word, n),
    }


def first_merges(tokenizer: BPETokenizer, n: int) -> BPETokenizer:
    """Return a copy of the tokenizer with only its first n merges, which does not normalise texts."""
    size = tokenizer.vocab["".join(tokenizer.merges[n])] if n < len(tokenizer.merges) else tokenizer.vocab_size
    return with_fewer_tokens(tokenizer, size)


def words(subject: Subject, smaller: BPETokenizer, text: str, ids: list[int]) -> list[dict[str, Any]]:
    """Return the tokens grouped by the pre-tokenizer's words, or ungrouped if other tokens were found in the text."""
    found = [(word, smaller.encode(word)) for word in splitter(smaller.pattern)(text)]
    if [number for _, own in found for number in own] != ids:
        found = [(smaller.decode([number], skip_special_tokens=False), [number]) for number in ids]
    return [{"word": word[:LONGEST_WORD], "ids": own, "tokens": subject.shown(own)} for word, own in found]


def pairs(tokenizer: BPETokenizer, smaller: BPETokenizer, text: str, n: int) -> list[dict[str, Any]]:
    """Return the most frequent pairs of adjacent tokens within the text's words, and the merge of each pair."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    names = {number: token for token, number in smaller.vocab.items()}
    counts: Counter[tuple[str, str]] = Counter()
    for word in splitter(tokenizer.pattern)(text):
        tokens = [names[number] for number in smaller.encode(word)]
        counts.update(pairwise(tokens))
    found = sorted(counts.items(), key=lambda item: (-item[1], ranks.get(item[0], len(ranks))))[:MAX_PAIRS]
    return [
        {
            "left": _shown(tokenizer, left),
            "right": _shown(tokenizer, right),
            "count": count,
            "merge": ranks[left, right] + 1 if (left, right) in ranks else None,
        }
        for (left, right), count in found
    ]


class Part(NamedTuple):
    """A token within a word, the number of its merge (from 1; 0 for a byte), and the two tokens that it merges."""

    token: str
    merge: int
    parts: "tuple[Part, ...]"


def word_tree(tokenizer: BPETokenizer, word: str, n: int) -> dict[str, Any]:
    """Return the merge trees of a word's tokens, with a layout in which each token is above its parts."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    names = {number: token for token, number in tokenizer.vocab.items()}
    nodes: list[dict[str, Any]] = []
    left = 0.5
    for number in tokenizer.encode(word):
        if number in names:  # a special token has no name here
            left = _lay_out(_grown(names[number], ranks), left, nodes, tokenizer)
    deepest = max((node["y"] for node in nodes), default=0)
    for node in nodes:
        node |= {"made": node["merge"] <= n, "x": COLUMN * node["x"], "y": ROW * (deepest - node["y"])}
    return {"nodes": nodes, "width": COLUMN * max(left - 0.5, 1), "height": ROW * (deepest + 1)}


def _grown(token: str, ranks: dict[tuple[str, str], int]) -> Part:
    """Return the merges that build this token from its bytes.
    Each step applies the earliest merge of two adjacent tokens.

    (Sennrich, Haddow and Birch 2016, arXiv 1508.07909, section 3.2.)
    """
    parts = [Part(letter, 0, ()) for letter in token]
    while len(parts) > 1:
        neighbours = enumerate(pairwise(parts))
        rank, i = min((ranks.get((left.token, right.token), len(ranks)), i) for i, (left, right) in neighbours)
        if rank == len(ranks):  # a token that its own merges don't produce
            return Part(token, 0, tuple(parts))
        parts[i : i + 2] = [Part(parts[i].token + parts[i + 1].token, rank + 1, (parts[i], parts[i + 1]))]
    return parts[0]


def _lay_out(part: Part, left: float, nodes: list[dict[str, Any]], tokenizer: BPETokenizer) -> float:
    """Append the nodes of a tree, with its bytes from `left` on. Return the next tree's `left`.

    The parts of a node are the indices of their nodes. x is the middle of the parts, and y is the height above a byte.
    """
    inner = []
    for one in part.parts:
        left = _lay_out(one, left, nodes, tokenizer)
        inner.append(len(nodes) - 1)
    x = sum(nodes[i]["x"] for i in inner) / len(inner) if inner else left
    y = 1 + max((nodes[i]["y"] for i in inner), default=-1)
    nodes.append({"text": _shown(tokenizer, part.token), "merge": part.merge, "x": x, "y": y, "parts": inner})
    return left if inner else left + 1


def _pair(tokenizer: BPETokenizer, rank: int) -> list[str]:
    return [_shown(tokenizer, token) for token in tokenizer.merges[rank]]


def _shown(tokenizer: BPETokenizer, token: str) -> str:
    return tokenizer.token_strings([tokenizer.vocab[token]])[0].replace(" ", "·")


def _longest_word(tokenizer: BPETokenizer, text: str) -> str:
    words = [word for word in splitter(tokenizer.pattern)(text) if len(word.encode()) <= LONGEST_WORD]
    return max(words, key=len, default="")
