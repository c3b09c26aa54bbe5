"""What chapter 11 builds: greedy search, a case that it loses, and beam search; the learner's file is cut from this."""

import numpy as np

# A model is here a function next_log_p(ids): given the words so far, a list of ids that begins with bos, it returns the
# log-probabilities (vocabulary,) of the next word.


def from_table(table):
    """The model of a table of probabilities: table[a, b] is how likely word b comes after word a."""
    return lambda ids: np.log(table[ids[-1]])


def greedy(next_log_p, bos, eos, limit):
    """Take the likeliest word at each step, up to eos or `limit` words: (ids without bos and eos, log-probability).

    eos counts as a word, in the limit and in the log-probability.
    """
    # your turn: Ask the model, take the largest, add its log-probability to the sum; stop at eos. The probability of a
    # sentence is a product, so its logarithm is a sum.
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
    """A table (4, 4) of probabilities, for the words 0 (bos), 1 (eos), 2 and 3, that greedy search walks into.

    The sentence that greedy finds is less than half as likely as the likeliest one; at most 6 words, eos included.
    """
    # your turn: Which first word is likelier, and what comes after it? After the less likely first word the rest should
    # be almost certain. Each row sums to 1; the row of eos does not matter.
    return np.array(
        [[0.00, 0.00, 0.55, 0.45], [0.25, 0.25, 0.25, 0.25], [0.0, 0.34, 0.33, 0.33], [0.0, 0.98, 0.01, 0.01]]
    )


def score(log_p, length, alpha):
    """Return the score of a sentence: its log-probability divided by ((5 + length) / 6)^alpha. `length` counts eos."""
    # your turn: alpha = 0 leaves the log-probability as it is. What does the sign of a logarithm say about longer
    # sentences, and so about what you should do with the penalty: multiply or divide?
    return log_p / ((5 + length) / 6) ** alpha


def extended(sentences, next_log_p, bos):
    """Return all continuations of some unfinished sentences by one word, best first.

    sentences: list of (log-probability, ids without bos). Returns such a list, of len(sentences) times the vocabulary.
    """
    # your turn: A new sentence for each sentence and each word: the log-probabilities add up. Sort the list of all by
    # them, not each sentence's for itself.
    longer = [
        (total + log_p, [*ids, word]) for total, ids in sentences for word, log_p in enumerate(next_log_p([bos, *ids]))
    ]
    return sorted(longer, key=lambda sentence: -sentence[0])


def beam_search(next_log_p, bos, eos, width, limit, alpha=0.0):
    """Return the best sentence of a beam search of this width: (ids without bos and eos, score).

    A sentence is finished with eos, which counts as a word. At `limit` words the unfinished ones count as they are.
    """
    # your turn: At each length go through `extended`, best first. A sentence that ends in eos is finished if it is
    # among the first `width`: note its score. Of the other sentences the first `width` go on. At the end take the best
    # score.
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
