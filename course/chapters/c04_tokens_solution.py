"""The solution of chapter 4: byte-pair encoding, with training and encoding."""

from collections import Counter
from itertools import pairwise


def count_pairs(words):
    """Return how often each pair (left, right) of neighbouring tokens occurs. `words` is a dictionary tokens: count."""
    # your turn: Go through the words, and through the pairs of neighbours in each word (itertools.pairwise). If a word
    # occurs 5 times, each of its pairs counts 5 times.
    counts = Counter()
    for tokens, often in words.items():
        for pair in pairwise(tokens):
            counts[pair] += often
    return counts


def merge(tokens, pair, new):
    """Return the tuple `tokens` with each occurrence of the pair replaced by the token `new`, from left to right."""
    # your turn: Walk through the tokens. If a token and the next token form the pair, write `new` and continue after
    # both. Otherwise copy the token. What does (1, 1, 1) become if (1, 1) is merged?
    out, i = [], 0
    while i < len(tokens):
        found = tokens[i : i + 2] == pair
        out.append(new if found else tokens[i])
        i += 2 if found else 1
    return tuple(out)


def train(words, merges):
    """Return a list of `merges` merged pairs, or fewer if no pair is left. The merges make the tokens 256, 257, ..."""
    # your turn: Repeat: count the pairs, choose the most frequent pair (if several are equally frequent, the pair with
    # the smallest numbers), append it to the list, and merge it in all words.
    found = []
    while len(found) < merges and (counts := count_pairs(words)):
        pair = min(counts, key=lambda pair: (-counts[pair], pair))
        words = {merge(tokens, pair, 256 + len(found)): often for tokens, often in words.items()}
        found.append(pair)
    return found


def encode(tokens, merges):
    """Return the tokens of a word, given as a tuple of bytes. `merges` is the result of `train`."""
    # your turn: Apply each of the merges to the whole word, in their order. The first merge makes token 256.
    for number, pair in enumerate(merges):
        tokens = merge(tokens, pair, 256 + number)
    return tokens
