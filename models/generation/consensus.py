"""Minimum Bayes risk decoding, which selects the sampled sequence that is most similar to the others.

The most probable sequence of an uncertain model is often bad: short, or a common phrase. This method draws n sequences
instead, and selects the one with the highest mean similarity to the others:

    argmax over y of  1/(n-1) sum over y' != y of F(y, y'),    F(y, y') = 2 lcs(y, y') / (|y| + |y'|)

with lcs the length of the longest common subsequence of words (or of token ids). F is the metric ROUGE-L (Lin 2004).
Source: Kumar and Byrne 2004, "Minimum Bayes-risk decoding for statistical machine translation"; with samples: Eikema
and Aziz 2020, arXiv 2005.10283, section 6.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from .rules import Hypothesis

#: A function from the ids of a sequence to the units that are compared, such as the words that the ids represent.
Compared = Callable[[list[int]], Sequence[Hashable]]


def by_consensus(drawn: Sequence[Hypothesis], compared: Compared | None = None) -> list[Hypothesis]:
    """Return the distinct sequences sampled for one text, starting with the one that is most similar to the others.

    The score of each sequence becomes its mean similarity to the other samples, from 0 to 1. A sequence that was
    sampled twice is also compared with its copy. Sequences are compared by their ids if `compared` is None.
    """
    numbers: dict[Hashable, int] = {}
    parts = [one.ids if compared is None else compared(one.ids) for one in drawn]
    units = [[numbers.setdefault(unit, len(numbers)) for unit in part] for part in parts]
    lengths = np.array([len(one) for one in units])
    both = lengths[:, None] + lengths
    similar = np.where(both == 0, 1.0, 2 * common_lengths(units) / np.maximum(both, 1))
    means = (similar.sum(axis=1) - 1) / max(len(drawn) - 1, 1)
    found: dict[tuple[int, ...], Hypothesis] = {}
    for index in np.argsort(-means, kind="stable"):
        found.setdefault(tuple(drawn[index].ids), Hypothesis(drawn[index].ids, float(means[index])))
    return list(found.values())


def common_lengths(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the lengths of the longest common subsequences of all pairs of n sequences of numbers >= 0. The result is
    an (n, n) integer array. The dynamic program's table is computed row by row, for all pairs at once.
    """
    n, longest = len(sequences), max(map(len, sequences))
    ids = np.full((n, longest), -1)
    for row, one in zip(ids, sequences, strict=True):
        row[: len(one)] = one
    table = np.zeros((longest + 1, n, n), np.int32)  # entry j: with the first j ids of the second sequence
    for i in range(longest):
        same = (ids[:, i, None, None] == ids) & (ids[:, i, None, None] >= 0)  # (n, n, longest)
        diagonal = table[0].copy()
        for j in range(longest):
            above = table[j + 1].copy()
            table[j + 1] = np.where(same[:, :, j], diagonal + 1, np.maximum(above, table[j]))
            diagonal = above
    return table[-1]
