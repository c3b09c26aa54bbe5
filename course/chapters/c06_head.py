"""Chapter 6, the exercises: one attention head, the causal mask, the padding mask, and the head with a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import ops
from ...autograd.ops.attention import MaskSpec
from ..exercise import Exercise
from .c06_head_solution import attend, causal_mask, masked_attend, padding_mask

RNG_SEED = 6


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(RNG_SEED)
    return [rng.standard_normal(shape) for shape in shapes]


# -- attend ------------------------------------------------------------------------------------------------------------


def probe_attend(attend: Any) -> dict[str, Any]:
    q, k, v = numbers((3, 4), (5, 4), (5, 2))
    return {
        "the output for one query, which sees one key": attend(q[:1], k[:1], v[:1]),
        "the output for 3 queries and 5 keys": attend(q, k, v),
        "the output with scores near 1000": attend(q * 40, k * 40, v),
    }


def real_attend(q: Any, k: Any, v: Any) -> np.ndarray:
    return real_masked_attend(q, k, v, None)


ATTEND = Exercise(
    attend,
    probe_attend,
    real_attend,
    source="autograd.ops.attention.attention_plain",
    hints=(
        "All scores at once are one product of matrices: row i of q with row j of k, for all i and j. Which of the "
        "two must be transposed?",
        "3 queries and 5 keys have 15 scores, a table (3, 5), in which each of the 3 rows sums to 1 after the "
        "softmax. In the picture it is the right half.",
        "scores = q @ k.T / np.sqrt(q.shape[1]); e = np.exp(scores - scores.max(axis=1, keepdims=True)); e / "
        "e.sum(axis=1, keepdims=True) @ v.",
    ),
    changes="""
        The scores are not divided by sqrt(d), so the weights are too sharp.
        - / np.sqrt(q.shape[1])
        +
        The scores are divided by d, but the text divides by the square root of d: the spread of a sum of d products
        grows as sqrt(d), not as d.
        - np.sqrt(q.shape[1])
        + q.shape[1]
        len(q) is the number of queries. d is the number of features of one query: q.shape[1].
        - q.shape[1]
        + len(q)
        The softmax runs down the columns (axis 0), so the weights of each key sum to 1. Each query should distribute
        its attention over the keys: the rows sum to 1, axis 1.
        - axis=1
        + axis=0
        All weights together sum to 1. Each row should sum to 1: sum with axis=1, keepdims=True.
        - axis=1, keepdims=True
        +
        The formula is right, but exp(1000) is infinity, and infinity over infinity is NaN. Subtract the largest score
        of each row first: the weights stay the same.
        - scores - scores.max(axis=1, keepdims=True)
        + scores
    """,
)


@ATTEND.right
def query_by_query(q, k, v):
    rows = []
    for query in q:
        scores = np.array([query @ key for key in k]) / len(query) ** 0.5
        weights = np.exp(scores - np.logaddexp.reduce(scores))
        rows.append(sum(weight * value for weight, value in zip(weights, v, strict=True)))
    return np.stack(rows)


# -- causal_mask -------------------------------------------------------------------------------------------------------


def probe_causal_mask(causal_mask: Any) -> dict[str, Any]:
    return {
        "the mask of 4 queries and 4 keys": causal_mask(4, 4),
        "the mask of 2 queries and 5 keys": causal_mask(2, 5),
    }


def real_causal_mask(queries: int, keys: int) -> np.ndarray:
    return MaskSpec(queries, keys, causal=True).as_mask()[0, 0]


CAUSAL_MASK = Exercise(
    causal_mask,
    probe_causal_mask,
    real_causal_mask,
    source="autograd.ops.attention.MaskSpec.as_mask",
    hints=(
        "Draw the mask for 2 queries and 5 keys on paper. The last query is the last word: what may it see, and "
        "what may the one before it see?",
        "Of 5 keys the last query, number 1, sees 5, and query 0 sees 4: it is at position 0 + 5 - 2 = 3 and sees "
        "the keys 0 to 3.",
        "position = np.arange(queries)[:, None] + keys - queries is a column, np.arange(keys) is a row: "
        "np.arange(keys) <= position makes the whole table.",
    ),
    changes="""
        Each query sees only the positions before it, so the first query sees nothing at all. A query may also see its
        own position: use <= instead of <.
        - <=
        + <
        This is right for as many queries as keys. With 2 queries and 5 keys the queries are the *last* two words, but
        yours are the first two: query i is at position i + keys - queries.
        - + keys - queries
        +
        This is the other half: each query sees itself and what comes after it.
        - <=
        + >=
        True marks the forbidden keys here. In handloom True means that the query may look at the key.
        - <=
        + >
    """,
)


@CAUSAL_MASK.right
def triangle(queries, keys):
    return np.tri(queries, keys, keys - queries, dtype=bool)


# -- padding_mask ------------------------------------------------------------------------------------------------------


def probe_padding_mask(padding_mask: Any) -> dict[str, Any]:
    return {"the mask of the lengths 3, 5 and 1 with 5 keys": padding_mask(np.array([3, 5, 1]), 5)}


def real_padding_mask(lengths: Any, keys: int) -> np.ndarray:
    return MaskSpec(1, keys, key_lengths=lengths).as_mask()[:, 0, 0]


PADDING_MASK = Exercise(
    padding_mask,
    probe_padding_mask,
    real_padding_mask,
    source="autograd.ops.attention.MaskSpec.as_mask",
    hints=(
        "Which positions are words in a sentence of length 3, if positions count from 0?",
        "The row for the length 3 and 5 keys is True, True, True, False, False: which of 0, 1, 2, 3, 4 is below 3.",
        "np.arange(keys) < lengths[:, None]: comparing a row (keys,) with a column (batch, 1) gives (batch, keys).",
    ),
    changes="""
        Each row has one True too many: positions count from 0, so the length 3 means the positions 0, 1 and 2.
        - <
        + <=
        True marks the padding here. In handloom True means that the key may be looked at.
        - <
        + >=
        Positions and lengths are both rows here, and NumPy lines them up with each other. Make the lengths a column
        (chapter 2).
        - [:, None]
        +
        The table is transposed: its rows should be sentences and its columns should be keys. Put [:, None] on the
        lengths.
        - np.arange(keys) < np.asarray(lengths)[:, None]
        + np.arange(keys)[:, None] < np.asarray(lengths)
    """,
)


@PADDING_MASK.right
def row_by_row(lengths, keys):
    return np.array([[position < length for position in range(keys)] for length in lengths])


# -- masked_attend -----------------------------------------------------------------------------------------------------


def probe_masked_attend(masked_attend: Any) -> dict[str, Any]:
    q, k, v = numbers((4, 3), (4, 3), (4, 2))
    causal = np.tri(4, dtype=bool)
    nothing = causal.copy()
    nothing[2] = False
    return {
        "the output where all is allowed": masked_attend(q, k, v, np.ones((4, 4), dtype=bool)),
        "the output under a causal mask": masked_attend(q, k, v, causal),
        "the output where the third query may look at nothing": masked_attend(q, k, v, nothing),
        "the output with scores near 1000": masked_attend(q * 40, k * 40, v, causal),
    }


def real_masked_attend(q: Any, k: Any, v: Any, mask: Any) -> np.ndarray:
    out = ops.attention(*(x[None, None] for x in (q, k, v)), mask=None if mask is None else mask[None, None])
    return out.data[0, 0]


MASKED_ATTEND = Exercise(
    masked_attend,
    probe_masked_attend,
    real_masked_attend,
    source="autograd.ops.attention.attention_plain",
    hints=(
        "Which score has the weight 0 after the softmax, however small the others are? And what is the largest score "
        "of a row that has only such scores?",
        "exp(-infinity) is 0. In a row with no key left the maximum is -infinity and the sum is 0: these 2 places need "
        "a special case.",
        "scores = np.where(mask, scores, -np.inf); top = np.where(np.isfinite(top), top, 0.0) for the maximum; "
        "divide by np.where(total == 0, 1.0, total).",
    ),
    changes="""
        The weights are masked after the softmax. Then the remaining weights no longer sum to 1, because the forbidden
        keys have already taken their share. Mask the scores instead.
        - np.where(mask, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
        + q @ k.T / np.sqrt(q.shape[1])
        - @ v
        + * mask @ v
        A masked score of 0 is a score like any other: exp(0) = 1. Which score has the weight 0?
        - np.where(mask, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
        + q @ k.T / np.sqrt(q.shape[1]) * mask
        This is right wherever the query may see a key. But in a row that has only -1e9 all scores are equal, and the
        query gets the mean of all forbidden values. With -np.inf, and a special case for such a row, it gets zeros.
        - -np.inf
        + -1e9
        This is right wherever the query may see a key. In a row without any key the maximum is -inf, and -inf - (-inf)
        is NaN: subtract 0 in such a row, and don't divide by a sum of 0.
        - np.where(np.isfinite(top), top, 0.0)
        + top
        - np.where(total == 0, 1.0, total)
        + total
        The formula is right, but exp(1000) is infinite, and infinity over infinity is NaN. Subtract the largest score
        of each row first, as in `attend`.
        - scores - np.where(np.isfinite(top), top, 0.0)
        + scores
        The mask has no effect yet: forbidden keys keep their weights.
        - np.where(mask, q
        + np.where(True, q
        The softmax runs down the columns (axis 0). Each query distributes its attention over the keys: compute the
        maximum and the sum along each row, axis 1.
        - axis=1
        + axis=0
    """,
)


@MASKED_ATTEND.right
def seen_keys_only(q, k, v, mask):
    out = np.zeros((len(q), v.shape[1]))
    for i, seen in enumerate(mask):
        if seen.any():
            out[i] = query_by_query(q[i : i + 1], k[seen], v[seen])[0]
    return out
