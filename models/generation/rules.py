"""Rules for every strategy: how a sequence begins and ends, how long it may be, what it may not repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...autograd.backend import array_module
from .decoding import DecodingState
from .penalties import apply_repetition_penalty, repeated_ngrams


class Hypothesis(NamedTuple):
    """One generated sequence: its ids, the prefix first, without <bos> and <eos>; and its score.

    The score is the log-probability in nats of the tokens generated, <eos> included and the prefix not; beam search
    divides it by the length penalty and adds the coverage penalty.
    """

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Rules:
    """The rules of one generation. Lengths count generated tokens, <eos> included, without the prefix.

    Args:
        bos_id: first token of each sequence, before its prefix; None for none, then a prefix is needed.
        eos_id: ends a sequence; None if only the length does.
        prefix: for each row of the state, the ids with which its output must begin (the prompt of a language model).
        min_length: no <eos> before this many tokens.
        max_length: maximum number of tokens; by default what the model's state suggests. Its `positions` limit both.
        repetition_penalty: divides (where positive) or multiplies (where negative) the logits of tokens that the
            output already has; 1 changes nothing. Source: Keskar et al. 2019, arXiv 1909.05858, section 4.1.
        no_repeat_ngram: no n-gram of this length occurs twice in an output; 0 allows all.
        forbidden: ids that are never generated.
        forced_last: the last token, with probability 1, of a sequence that reaches its maximum length: usually <eos>.
        penalise: to what beam search applies the repetition penalty: "logits", or "log-probabilities" as `transformers`
            does. The other strategies apply it to the logits.

    Ruling out a token does not change the log-probabilities of the others. A sequence that no token may extend ends as
    it is. Raises ValueError for a number out of range.
    """

    bos_id: int | None
    eos_id: int | None
    prefix: Sequence[Sequence[int]] | None = None
    min_length: int = 0
    max_length: int | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    forbidden: tuple[int, ...] = ()
    forced_last: int | None = None
    penalise: str = "logits"

    @property
    def ruled_out(self) -> tuple[int, ...] | None:
        """All tokens that these rules may ever rule out; None if they can be any, or if rules change logits."""
        if self.no_repeat_ngram or self.repetition_penalty != 1.0:
            return None
        return (*self.forbidden, self.eos_id) if self.eos_id is not None and self.min_length else self.forbidden

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length = {self.max_length} must be at least 1: <eos> counts")
        if self.min_length < 0 or (self.max_length is not None and self.min_length > self.max_length):
            raise ValueError(f"min_length = {self.min_length} must lie between 0 and max_length = {self.max_length}")
        if not self.repetition_penalty > 0:
            raise ValueError(f"repetition_penalty = {self.repetition_penalty} must be above 0; 1 changes nothing")
        if self.penalise not in ("logits", "log-probabilities"):
            raise ValueError(f"penalise = {self.penalise!r} is neither 'logits' nor 'log-probabilities'")
        if self.no_repeat_ngram < 0:
            raise ValueError(f"no_repeat_ngram = {self.no_repeat_ngram} must not be negative; 0 allows all repetitions")


class Progress:
    """The tokens of the sequences that are still being generated, and what the rules say about the next token.

    Attributes:
        history: (rows, capacity) host integers; the first `length` columns are prefix and generated tokens.
        length: current number of tokens of each sequence.
        prefix_lengths, limits: (rows,) tokens of its prefix, and its maximum length including the prefix.
    """

    def __init__(self, state: DecodingState, rules: Rules):
        rows = state.rows
        prefix = [list(ids) for ids in rules.prefix] if rules.prefix is not None else [[] for _ in range(rows)]
        if len(prefix) != rows:
            raise ValueError(f"{len(prefix)} prefixes don't fit a state of {rows} sequences: give one for each")
        self.rules = rules
        self.prefix_lengths = np.array([len(ids) for ids in prefix], dtype=np.int64)
        self.start = [] if rules.bos_id is None else [rules.bos_id]
        self.length = int(self.prefix_lengths.min()) if rows else 0  # the prefix part common to all is fed at once
        if rows and not self.start and not self.length:
            raise ValueError("without bos_id there must be a prefix: the model needs a token to begin with")
        self.limits = self._limits(state)
        self.history = np.zeros((rows, int(self.limits.max(initial=1))), np.int64)
        for row, ids in enumerate(prefix):
            self.history[row, : len(ids)] = ids

    def _limits(self, state: DecodingState) -> np.ndarray:
        rules, most = self.rules, np.iinfo(np.int64).max
        # The last generated token is not fed.
        room = (most if state.positions is None else state.positions + 1 - len(self.start)) - self.prefix_lengths
        if (room < 1).any():
            raise ValueError(
                f"a prefix of {int(self.prefix_lengths.max())} tokens leaves no room for new ones: the model has "
                f"{state.positions} positions"
            )
        if rules.max_length is not None:
            wanted = np.full(len(room), rules.max_length)
        elif state.suggested_lengths is not None:
            wanted = np.maximum(state.suggested_lengths, rules.min_length)
        elif state.positions is not None:
            wanted = room
        else:
            raise ValueError("this model has no maximum length of its own: give max_length")
        return self.prefix_lengths + np.minimum(wanted, room)

    def first_ids(self) -> np.ndarray:
        """The ids to feed first, (rows, at least 1): <bos> and as much of the prefix as all sequences have."""
        start = np.tile(np.array(self.start, np.int64), (len(self.history), 1))
        return np.concatenate([start, self.history[:, : self.length]], axis=1)

    def forced(self) -> np.ndarray:
        """(rows,) whether the next token still belongs to the prefix."""
        return self.length < self.prefix_lengths

    def next_of_prefix(self) -> np.ndarray:
        """(rows,) the next token where it is `forced`, anything elsewhere."""
        return self.history[:, self.length]

    def penalise(self, logits: Any) -> None:
        """Apply the repetition penalty to logits (rows, vocab_size) of the next token; modifies them."""
        if self.rules.repetition_penalty != 1.0 and self.length:
            apply_repetition_penalty(logits, self.history[:, : self.length], self.rules.repetition_penalty)

    def rule_out(self, logits: Any, total: Any = 0.0) -> None:
        """Set the logits of tokens that may not come next to -inf; `total` (rows,) is their log-sum-exp."""
        rules, xp = self.rules, array_module(logits)
        if rules.forbidden:
            logits[:, list(rules.forbidden)] = -np.inf
        if rules.eos_id is not None:
            early = np.flatnonzero(self.length + 1 - self.prefix_lengths < rules.min_length)
            if len(early):
                logits[xp.asarray(early), rules.eos_id] = -np.inf
        if rules.no_repeat_ngram:
            rows, tokens = repeated_ngrams(self.history[:, : self.length], rules.no_repeat_ngram)
            if len(rows):
                logits[xp.asarray(rows), xp.asarray(tokens)] = -np.inf
        if rules.forced_last is not None:
            last = np.flatnonzero(self.limits == self.length + 1)
            if len(last):
                rows = xp.asarray(last)
                logits[rows] = -np.inf
                logits[rows, rules.forced_last] = total[rows] if np.ndim(total) else total

    def select(self, rows: np.ndarray) -> None:
        """Keep these sequences, in this order."""
        self.history = self.history[rows]
        self.prefix_lengths, self.limits = self.prefix_lengths[rows], self.limits[rows]

    def append(self, tokens: np.ndarray) -> None:
        """Append one token (rows,) to each sequence."""
        self.history[:, self.length] = tokens
        self.length += 1
