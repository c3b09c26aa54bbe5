"""Rules for all strategies: the beginning, end, length and repetitions of a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ...autograd.backend import array_module
from ..fields import Count, Rate, Whole, check_fields
from .decoding import DecodingState
from .penalties import apply_repetition_penalty, repeated_ngrams


class Hypothesis(NamedTuple):
    """A generated sequence and its score. Its ids begin with the prefix and contain neither <bos> nor <eos>.

    The score is the log-probability in nats of the generated tokens, including <eos> and without the prefix. Beam
    search divides it by the length penalty and adds the coverage penalty.
    """

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Rules:
    """The rules of one generation. Lengths count generated tokens, <eos> included, without the prefix.

    Args:
        bos_id: first token of each sequence, before its prefix; with None a prefix is needed.
        eos_id: the token that ends a sequence; None if only the length ends it.
        prefix: for each row of the state, the ids with which its output must begin (the prompt of a language model).
        min_length: no <eos> before this many tokens.
        max_length: maximum number of tokens; by default the state suggests it. The state's `positions` limit both.
        repetition_penalty: divides (where positive) or multiplies (where negative) the logits of tokens that the
            sequence already has, `bos_id` included; 1 changes nothing. Source: Keskar et al. 2019, arXiv 1909.05858,
            section 4.1.
        no_repeat_ngram: no n-gram of this length occurs twice in a sequence; 0 allows all.
        forbidden: ids that are never generated.
        forced_last: the last token, with probability 1, of a sequence that reaches its maximum length: usually <eos>.
        penalise: the numbers to which beam search applies the repetition penalty: "logits", or "log-probabilities" as
            `transformers` does. The other strategies apply it to the logits.
        stop: more ids that end a sequence, as `eos_id` does.
        min_total, max_total: like min_length (without <eos>) and max_length, but including `bos_id` and the prefix, as
            `transformers` counts its min_length and max_length.

    Ruling out a token does not change the log-probabilities of the others. If no token may extend a sequence, it ends
    unchanged. Raises ValueError for a number out of range.
    """

    bos_id: Whole | None = None
    eos_id: Whole | None = None
    prefix: Any = None
    min_length: Whole = 0
    max_length: Count | None = None
    repetition_penalty: Rate = 1.0
    no_repeat_ngram: Whole = 0
    forbidden: tuple[Whole, ...] = ()
    forced_last: Whole | None = None
    penalise: Literal["logits", "log-probabilities"] = "logits"
    stop: tuple[Whole, ...] = ()
    min_total: Whole = 0
    max_total: Count | None = None

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a sequence."""
        return self.stop if self.eos_id is None else tuple(dict.fromkeys((self.eos_id, *self.stop)))

    @property
    def ruled_out(self) -> tuple[int, ...] | None:
        """All tokens that these rules may rule out; None if any token may be, or if the rules change logits."""
        if self.no_repeat_ngram or self.repetition_penalty != 1.0:
            return None
        return (*self.forbidden, *self.ends) if self.min_length or self.min_total else self.forbidden

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length is {self.min_length}, it must be at most max_length, {self.max_length}")


class SearchProgress:
    """The tokens of the unfinished sequences, and the rules for their next tokens.

    Attributes:
        history: (rows, capacity) host integers; the first `length` columns are prefix and generated tokens.
        length: current number of tokens of each sequence.
        prefix_lengths, limits: (rows,) tokens of its prefix, and its maximum length including the prefix.
    """

    def __init__(self, state: DecodingState, rules: Rules):
        rows = state.rows
        prefix = [list(ids) for ids in rules.prefix] if rules.prefix is not None else [[] for _ in range(rows)]
        if len(prefix) != rows:
            raise ValueError(f"{len(prefix)} prefixes don't fit a state of {rows} sequences: give one for each row")
        self.rules = rules
        self.largest = max((*rules.forbidden, *rules.stop, -1 if rules.forced_last is None else rules.forced_last))
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
        elif rules.max_total is not None:
            wanted = np.maximum(rules.max_total - len(self.start) - self.prefix_lengths, 1)
        elif state.suggested_lengths is not None:
            wanted = np.maximum(state.suggested_lengths, rules.min_length)
        elif state.positions is not None:
            wanted = room
        else:
            raise ValueError("this model does not set a maximum length: give max_length")
        return self.prefix_lengths + np.minimum(wanted, room)

    def first_ids(self) -> np.ndarray:
        """Return the ids to feed first, (rows, at least 1).
        They are <bos> and the part of the prefix that all sequences have.
        """
        start = np.tile(np.array(self.start, np.int64), (len(self.history), 1))
        return np.concatenate([start, self.history[:, : self.length]], axis=1)

    def forced(self) -> np.ndarray:
        """Return whether the next token of each row still belongs to the prefix, (rows,)."""
        return self.length < self.prefix_lengths

    def next_of_prefix(self) -> np.ndarray:
        """Return the next token of each row where it is `forced`, and any number elsewhere, (rows,)."""
        return self.history[:, self.length]

    def penalise(self, logits: Any) -> None:
        """Apply the repetition penalty to the logits (rows, vocab_size) of the next token, in place."""
        if self.rules.repetition_penalty != 1.0:
            apply_repetition_penalty(logits, self.sequences(), self.rules.repetition_penalty)

    def sequences(self) -> np.ndarray:
        """Return the tokens so far, <bos> included, (rows, tokens)."""
        so_far = self.history[:, : self.length]
        return np.insert(so_far, 0, self.start[0], axis=1) if self.start else so_far

    def rule_out(self, logits: Any, total: Any = 0.0) -> None:
        """Set the logits of forbidden next tokens to -inf; `total` (rows,) is their log-sum-exp.

        Raises ValueError for a rule about a token that the model does not have.
        """
        rules = self.rules
        if self.largest >= logits.shape[1]:
            raise ValueError(f"a rule names the token {self.largest}, but the model has {logits.shape[1]} tokens")
        for ban in BANS:
            ban(self, rules, logits, total)

    def ended(self, tokens: np.ndarray) -> np.ndarray:
        """Return whether the token ends its sequence, for each row: (rows,)."""
        ended = np.zeros(len(tokens), bool)
        for end in self.rules.ends:
            ended |= tokens == end
        return ended

    def select(self, rows: np.ndarray) -> None:
        """Keep these sequences, in this order."""
        self.history = self.history[rows]
        self.prefix_lengths, self.limits = self.prefix_lengths[rows], self.limits[rows]

    def append(self, tokens: np.ndarray) -> None:
        """Append one token (rows,) to each sequence."""
        self.history[:, self.length] = tokens
        self.length += 1


def ban_forbidden(search: SearchProgress, rules: Rules, logits: Any, total: Any) -> None:
    if rules.forbidden:
        logits[:, list(rules.forbidden)] = -np.inf


def ban_early_ends(search: SearchProgress, rules: Rules, logits: Any, total: Any) -> None:
    """Forbid the end of a sequence before the minimum length."""
    if rules.min_length or rules.min_total:
        early = search.length + 1 - search.prefix_lengths < rules.min_length
        early |= search.length + len(search.start) < rules.min_total
        rows = array_module(logits).asarray(np.flatnonzero(early))
        for end in rules.ends:
            logits[rows, end] = -np.inf


def ban_repeated_ngrams(search: SearchProgress, rules: Rules, logits: Any, total: Any) -> None:
    if rules.no_repeat_ngram:
        xp = array_module(logits)
        rows, tokens = repeated_ngrams(search.sequences(), rules.no_repeat_ngram)
        if len(rows):
            logits[xp.asarray(rows), xp.asarray(tokens)] = -np.inf


def force_last(search: SearchProgress, rules: Rules, logits: Any, total: Any) -> None:
    """Allow only `forced_last` at the maximum length, with probability 1."""
    if rules.forced_last is not None:
        last = np.flatnonzero(search.limits == search.length + 1)
        if len(last):
            rows = array_module(logits).asarray(last)
            logits[rows] = -np.inf
            logits[rows, rules.forced_last] = total[rows] if np.ndim(total) else total


#: The functions that rule out tokens, in this order. Each sets logits (rows, vocab_size) of the next token to -inf;
#: `total` (rows,) is their log-sum-exp. A new rule needs a field of `Rules`, its tokens in `ruled_out`, and a function.
BANS = (ban_forbidden, ban_early_ends, ban_repeated_ngrams, force_last)
