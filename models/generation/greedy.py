"""Greedy search and sampling, which choose one token per step, and a stream of the tokens."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...autograd.backend import array_module
from ...kinds import checked
from .decoding import DecodingState, survivors, to_host
from .rules import Hypothesis, Rules, SearchProgress
from .top import refuse_nan

# A function of logits (rows, vocab_size), the `sequence` (rows,) of each row, and `wanted` (rows,), which marks the
# rows whose result is used. It returns ids (rows,).
Choice = Callable[[Any, np.ndarray, np.ndarray], Any]


class DecodingStep(NamedTuple):
    """The result of one step, as host arrays with one entry for each incomplete sequence."""

    sequences: np.ndarray  # integers: the row in which each sequence began
    tokens: np.ndarray
    log_probabilities: np.ndarray  # 0 for tokens of the prefix
    ended: np.ndarray  # whether the token is not in the output: <eos>, or nothing was allowed


def likeliest(logits: Any, sequences: np.ndarray, wanted: np.ndarray) -> Any:
    """Return the id of the largest logit in each row, or the smallest such id. This is the Choice of greedy search."""
    return logits.argmax(axis=1)


@checked
def greedy_search(state: DecodingState, rules: Rules, *, scores: bool = True) -> list[Hypothesis]:
    """Run a greedy search, which takes the most probable token at each step. Returns a Hypothesis for each row of the
    state. If `scores` is false, the scores are NaN, which saves the time of a sum over the vocabulary.
    """
    return decode(state, rules, likeliest, scores=scores)


@checked
def stream(state: DecodingState, rules: Rules, choose: Choice = likeliest) -> Iterator[int]:
    """Yield each token of one sequence as soon as it is known, beginning with the prefix; <eos> is not yielded.

    Args:
        choose: `likeliest`, or a Sampler.

    Raises ValueError unless the state has one row.
    """
    if state.rows != 1:
        raise ValueError(f"a stream generates one sequence, but the state has {state.rows} rows: start it with one")
    return (int(step.tokens[0]) for step in steps(state, rules, choose, scores=False) if not step.ended[0])


def decode(state: DecodingState, rules: Rules, choose: Choice, *, scores: bool = True) -> list[Hypothesis]:
    """Extend every sequence with the tokens that `choose` returns, until all sequences have ended. A sequence that has
    ended is removed from the batch. Raises ValueError if a logit is NaN.
    """
    ids: list[list[int]] = [[] for _ in range(state.rows)]
    total = np.zeros(state.rows)
    for step in steps(state, rules, choose, scores=scores):
        total[step.sequences] += step.log_probabilities
        for sequence, token, ended in zip(step.sequences, step.tokens.tolist(), step.ended, strict=True):
            if not ended:
                ids[sequence].append(token)
    return [Hypothesis(tokens, float(score)) for tokens, score in zip(ids, total, strict=True)]


def steps(state: DecodingState, rules: Rules, choose: Choice, *, scores: bool = True) -> Iterator[DecodingStep]:
    """Yield a DecodingStep for each token position, beginning with the prefix that all sequences share. If `scores` is
    false, the log-probabilities are NaN.
    """
    progress = SearchProgress(state, rules)
    may_ban = rules.ruled_out if choose is likeliest and not scores else None
    sequences, zeros = np.arange(state.rows), np.zeros(state.rows)
    for position in range(progress.length):
        yield DecodingStep(sequences, progress.history[:, position], zeros, zeros.astype(bool))
    ids = progress.first_ids()
    while len(sequences):
        step = _next_step(state.step(ids, may_ban), progress, sequences, choose, scores)
        yield step
        rows = survivors(~step.ended & (progress.length < progress.limits))
        if len(rows) < len(sequences):
            state.select(rows)
            progress.select(rows)
            sequences = sequences[rows]
        ids = step.tokens[rows, None]


def _next_step(
    logits: Any, progress: SearchProgress, sequences: np.ndarray, choose: Choice, scores: bool
) -> DecodingStep:
    logits, total = progress.apply(logits, scores=scores)
    forced = progress.forced()
    chosen = choose(logits, sequences, ~forced)
    chances = logits[array_module(logits).arange(len(sequences)), chosen] - total
    tokens, log_p = to_host(chosen, chances)
    refuse_nan(log_p)  # a row's largest is NaN if any is
    stuck = log_p == -np.inf
    log_p = np.where(forced | stuck, 0.0, log_p) if scores else np.full(len(sequences), np.nan)
    if forced.any():
        tokens = np.where(forced, progress.history[:, progress.length], tokens)
    progress.append(tokens)
    return DecodingStep(sequences, tokens, log_p, ~forced & (stuck | progress.ended(tokens)))
