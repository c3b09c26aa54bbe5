"""Chapter 6, the exercises: one attention head, the causal mask, the padding mask, and the head with a mask."""

from typing import Any

import numpy as np

from ...autograd import ops
from ...autograd.ops.attention import MaskSpec
from ..exercise import normal


def probe_attend(attend: Any) -> dict[str, Any]:
    q, k, v = normal(6, (3, 4), (5, 4), (5, 2))
    return {
        "the output for one query, which sees one key": attend(q[:1], k[:1], v[:1]),
        "the output for 3 queries and 5 keys": attend(q, k, v),
        "the output with scores near 1000": attend(q * 40, k * 40, v),
    }


def real_attend(q: Any, k: Any, v: Any) -> np.ndarray:
    return real_masked_attend(q, k, v, None)


def probe_causal_mask(causal_mask: Any) -> dict[str, Any]:
    return {
        "the mask of 4 queries and 4 keys": causal_mask(4, 4),
        "the mask of 2 queries and 5 keys": causal_mask(2, 5),
    }


def real_causal_mask(queries: int, keys: int) -> np.ndarray:
    return MaskSpec(queries, keys, causal=True).as_mask()[0, 0]


def probe_padding_mask(padding_mask: Any) -> dict[str, Any]:
    return {"the mask of the lengths 3, 5 and 1 with 5 keys": padding_mask(np.array([3, 5, 1]), 5)}


def real_padding_mask(lengths: Any, keys: int) -> np.ndarray:
    return MaskSpec(1, keys, key_lengths=lengths).as_mask()[:, 0, 0]


def probe_masked_attend(masked_attend: Any) -> dict[str, Any]:
    q, k, v = normal(6, (4, 3), (4, 3), (4, 2))
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
