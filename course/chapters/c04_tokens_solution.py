"""What chapter 4 builds: byte-pair encoding, training and encoding."""

from collections import Counter
from itertools import pairwise


def count_pairs(words):
    """Count each pair of neighbours: words {tokens: how often} -> {(left, right): how often}."""
    # your turn: Go through the words and, in each, through its neighbours (itertools.pairwise). A pair in a word that
    # occurs 5 times occurs 5 times.
    counts = Counter()
    for tokens, often in words.items():
        for pair in pairwise(tokens):
            counts[pair] += often
    return counts


def merge(tokens, pair, new):
    """Return the tokens, a tuple, with each occurrence of the pair replaced by the token `new`, from left to right."""
    # your turn: Walk through the tokens. Where this token and the next one are the pair, write `new` and continue after
    # both; else copy one token. What does (1, 1, 1) become if (1, 1) is merged?
    out, i = [], 0
    while i < len(tokens):
        found = tokens[i : i + 2] == pair
        out.append(new if found else tokens[i])
        i += 2 if found else 1
    return tuple(out)


def train(words, merges):
    """Return the first `merges` merges, a list of pairs, or fewer if no pair is left. They make tokens 256, 257, ..."""
    # your turn: Repeat: count, take the most frequent pair (of equally frequent ones that with the smaller numbers),
    # keep it, and merge it in all words.
    found = []
    while len(found) < merges and (counts := count_pairs(words)):
        pair = min(counts, key=lambda pair: (-counts[pair], pair))
        words = {merge(tokens, pair, 256 + len(found)): often for tokens, often in words.items()}
        found.append(pair)
    return found


def encode(tokens, merges):
    """Return the bytes of a word, a tuple, merged as in training. `merges` is the result of `train`."""
    # your turn: Take the merges in their order, the first one makes 256, and apply each to the whole word.
    for number, pair in enumerate(merges):
        tokens = merge(tokens, pair, 256 + number)
    return tokens
