"""The solution of chapter 11: greedy search, a model for which greedy search fails, and beam search."""

import numpy as np

# A model is a function next_log_p(ids). ids is the list of the words so far, beginning with bos. The function returns
# the log-probabilities (vocabulary,) of the next word.


def from_table(table):
    """Return the model of a table of probabilities: table[a, b] is the probability of word b after word a."""
    return lambda ids: np.log(table[ids[-1]])


def greedy(next_log_p, bos, eos, limit):
    """Choose the most probable word at each step; return (ids without bos and eos, log-probability).

    The search stops at eos or after `limit` words. eos counts as a word in `limit` and in the log-probability.
    """
    # your turn: Call the model, choose the most probable word, and add its log-probability to the sum. Stop at eos. The
    # probability of a sentence is a product, so its logarithm is a sum.
    ids, total = [], 0.0
    for _ in range(limit):
        log_p = next_log_p([bos, *ids])
        word = int(log_p.argmax())
        total += log_p[word]
        if word == eos:
            break
        ids.append(word)
    return ids, total


def trap():
    """Return a table (4, 4) of probabilities, for the words 0 (bos), 1 (eos), 2 and 3, for which greedy search fails.

    The sentence that greedy search finds is less than half as probable as the best sentence of at most 6 words,
    including eos.
    """
    # your turn: Which first word is more probable, and which words come after it? After the less likely first word the
    # rest should be almost certain. Each row sums to 1; the row of eos does not matter.
    return np.array(
        [[0.00, 0.00, 0.55, 0.45], [0.25, 0.25, 0.25, 0.25], [0.0, 0.34, 0.33, 0.33], [0.0, 0.98, 0.01, 0.01]]
    )


def score(log_p, length, alpha):
    """Return the score of a sentence: its log-probability divided by ((5 + length) / 6)^alpha. `length` counts eos."""
    # your turn: alpha = 0 does not change the log-probability. Log-probabilities are negative. To help longer
    # sentences, should you multiply or divide by the penalty?
    return log_p / ((5 + length) / 6) ** alpha


def extended(sentences, next_log_p, bos):
    """Return all continuations of the unfinished `sentences` by one word, best first.

    sentences: list of (log-probability, ids without bos). Returns a list of the same form with len(sentences) *
    vocabulary elements.
    """
    # your turn: Make a new sentence for each sentence and each word, and add the log-probabilities. Sort all new
    # sentences together by log-probability.
    longer = [
        (total + log_p, [*ids, word]) for total, ids in sentences for word, log_p in enumerate(next_log_p([bos, *ids]))
    ]
    return sorted(longer, key=lambda sentence: -sentence[0])


def beam_search(next_log_p, bos, eos, width, limit, alpha=0.0):
    """Return the best sentence of a beam search of this width: (ids without bos and eos, score).

    A sentence is finished with eos, which counts as a word. At `limit` words, unfinished sentences also count as
    results.
    """
    # your turn: At each length go through `extended`, best first. A sentence that ends in eos is finished if it is
    # among the first `width`: record its score. Of the sentences without eos, keep the first `width`. At the end return
    # the sentence with the best score.
    sentences, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        going_on = []
        for rank, (log_p, ids) in enumerate(extended(sentences, next_log_p, bos)):
            if ids[-1] != eos:
                going_on.append((log_p, ids))
            elif rank < width:
                finished.append((score(log_p, length, alpha), ids[:-1]))
        sentences = going_on[:width]
    finished += [(score(log_p, limit, alpha), ids) for log_p, ids in sentences]
    best, ids = max(finished)
    return ids, best
