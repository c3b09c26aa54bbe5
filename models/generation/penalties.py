"""Penalties on generated sequences: length, coverage, repetition."""

from typing import Any

import numpy as np

from ...autograd.backend import array_module
from ...kinds import checked


@checked
def length_penalty(length: Any, alpha: float) -> Any:
    """Compute ((5 + length) / 6)^alpha. Source: Wu et al. 2016, arXiv 1609.08144, equation 14."""
    return ((5.0 + length) / 6.0) ** alpha


#: The divisor of a log-probability, from the number of tokens and the exponent.
LENGTH_NORMS = {"wu": length_penalty, "power": lambda length, alpha: float(max(length, 1)) ** alpha}


def coverage_penalty(attention: np.ndarray, beta: float) -> np.ndarray:
    """Compute beta sum_i log(min(sum_j p_ij, 1)), where p_ij is the attention of target token j to source token i.

    `attention` (..., source_length) are the sums over j, without padding. The penalty is zero if every source token has
    received attention 1, and negative otherwise. Source: Wu et al. 2016, arXiv 1609.08144, equation 14.
    """
    tiny = np.finfo(np.float64).tiny  # a token without any attention has a large cost, but a finite one
    return beta * np.log(np.clip(attention.astype(np.float64), tiny, 1.0)).sum(axis=-1)


def apply_repetition_penalty(logits: Any, history: np.ndarray, penalty: float) -> None:
    """Make the tokens of `history` (rows, length) less likely by changing `logits` (rows, vocab_size) in place.

    Positive logits are divided by `penalty`, and negative logits are multiplied by it. A token that occurs repeatedly
    is penalised once. Source: Keskar et al. 2019, arXiv 1909.05858, section 4.1, which divides all logits; multiplying
    negative logits makes these tokens less likely too.
    """
    xp = array_module(logits)
    rows, tokens = xp.arange(len(history))[:, None], xp.asarray(history)
    chosen = logits[rows, tokens]
    logits[rows, tokens] = xp.where(chosen > 0, chosen / penalty, chosen * penalty)


def repeated_ngrams(history: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and ids of the next tokens that would repeat an n-gram of `history` (rows, length). Source:
    Paulus et al. 2017, arXiv 1705.04304, section 2.5 (with n = 3).
    """
    length = history.shape[1]
    if length < n:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = length - n + 1  # number of n-grams in the history
    same = np.ones((len(history), starts), bool)
    for offset in range(n - 1):
        same &= history[:, offset : offset + starts] == history[:, length - n + 1 + offset, None]
    rows, positions = np.nonzero(same)
    return rows, history[rows, positions + n - 1]
