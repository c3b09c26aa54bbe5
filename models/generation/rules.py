"""Rules about a sequence's beginning, end, length and repetitions, for all generation strategies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ...autograd.backend import array_module
from ...autograd.ops.indexing import integers
from ...autograd.tensor import array_of
from ...errors import short
from ..fields import Count, Rate, Whole, changed_fields, check_fields
from .decoding import DecodingState
from .penalties import apply_repetition_penalty, repeated_ngrams
from .top import log_sum_exp

#: A rule of one's own, which maps the ids so far and the log-probabilities of the next token to new log-probabilities.
Function = Callable[[np.ndarray, Any], Any]
Functions = Function | Sequence[Function]


def as_functions(given: Functions) -> tuple[Function, ...]:
    """Return one function or several as a tuple. Raises TypeError for another value."""
    found = (given,) if callable(given) else tuple(given) if isinstance(given, Sequence) else (given,)
    if not all(map(callable, found)):
        raise TypeError(f"a rule must be a function of ids and log-probabilities, not {short(given)}")
    return found


class Hypothesis(NamedTuple):
    """A generated sequence and its score. Its ids begin with the prefix and contain neither <bos> nor <eos>.

    The score is the log-probability, in nats, of the generated tokens, which include <eos> but not the prefix. Beam
    search divides the log-probability by the length penalty and adds the coverage penalty.
    """

    ids: list[int]
    score: float


@dataclass(frozen=True)
class Rules:
    """Rules for generated sequences. A length is the number of generated tokens, including <eos> but not the prefix.

    Args:
        bos_id: first token of each sequence, before its prefix; if None, every sequence needs a prefix.
        eos_id: the token that ends a sequence; if None, a sequence ends at its maximum length.
        prefix: for each row of the state, the ids with which the output must begin (a language model's prompt).
        min_length: minimum number of tokens, before which <eos> is not allowed.
        max_length: maximum number of tokens; by default the state's `suggested_lengths`. The maximum is never above the
            state's `positions`.
        repetition_penalty: the logits of tokens that already occur in the sequence, including `bos_id`, are divided by
            this number if positive and multiplied by it if negative; 1 means no penalty. Source: Keskar et al. 2019,
            arXiv 1909.05858, section 4.1.
        no_repeat_ngram: an n-gram of this length occurs at most once in a sequence; 0 means no limit.
        forbidden: ids that are never generated.
        forced_last: the last token, usually <eos>, of a sequence that reaches its maximum length; it gets probability
            1.
        penalise: whether beam search applies the repetition penalty to "logits" or, as `transformers` does, to
            "log-probabilities". Other strategies always apply it to the logits.
        stop: ids that end a sequence in addition to `eos_id`.
        min_total, max_total: minimum and maximum length including `bos_id` and the prefix, as in `transformers`;
            min_total does not count <eos>.
        functions: rules of one's own. Each is called with the ids so far (rows, tokens), including `bos_id` and the
            prefix, and the log-probabilities (rows, vocab_size) of the next token, which it may change, and returns new
            log-probabilities. They are not normalised again, and count in the score. Beam search assumes that they only
            fall.

    Excluding a token does not change the log-probabilities of other tokens. If all tokens are excluded, the sequence
    ends unchanged. Raises ValueError for a number out of range.
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
    functions: tuple[Function, ...] = ()

    __repr__ = changed_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", as_functions(self.functions))
        check_fields(self)
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length is {self.min_length}, but it must be at most max_length = {self.max_length}")

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a sequence."""
        return self.stop if self.eos_id is None else tuple(dict.fromkeys((self.eos_id, *self.stop)))

    def check_vocabulary(self, size: int) -> None:
        """Raise ValueError if a rule contains a token that is not in a vocabulary of `size` tokens."""
        largest = max((*self.forbidden, *self.ends, -1 if self.forced_last is None else self.forced_last))
        if largest >= size:
            raise ValueError(f"a rule contains the token {largest}, but the model has only {size} tokens")

    @property
    def ruled_out(self) -> tuple[int, ...] | None:
        """All tokens that these rules can exclude; None if they can exclude any token or change logits."""
        if self.no_repeat_ngram or self.repetition_penalty != 1.0 or self.functions:
            return None
        return (*self.forbidden, *self.ends) if self.min_length or self.min_total else self.forbidden


class SearchProgress:
    """The tokens of the unfinished sequences, and the rules for their next tokens.

    The first `length` columns of `history` (rows, capacity) are the prefix and the generated tokens; `prefix_lengths`
    and `limits` (rows,) are the numbers of prefix tokens, and the maximum lengths including the prefix.
    """

    def __init__(self, state: DecodingState, rules: Rules):
        rows = state.rows
        prefix = [integers("prefix ids", list(ids)) for ids in ([()] * rows if rules.prefix is None else rules.prefix)]
        if len(prefix) != rows:
            raise ValueError(f"got {len(prefix)} prefixes for a state of {rows} sequences: give one for each")
        self.rules = rules
        self.prefix_lengths = np.array([len(ids) for ids in prefix], dtype=np.int64)
        self.start = [] if rules.bos_id is None else [rules.bos_id]
        self.length = int(self.prefix_lengths.min()) if rows else 0  # the prefix part common to all is fed at once
        if rows and not self.start and not self.length:
            raise ValueError("without bos_id every sequence needs a prefix, because the model needs a first token")
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
            raise ValueError("max_length is needed, because this model has no maximum length")
        return self.prefix_lengths + np.minimum(wanted, room)

    def first_ids(self) -> np.ndarray:
        """Return the ids (rows, 1 or more) of the first step: <bos>, and as many tokens as the shortest prefix has."""
        start = np.tile(np.array(self.start, np.int64), (len(self.history), 1))
        return np.concatenate([start, self.history[:, : self.length]], axis=1)

    def forced(self) -> np.ndarray:
        """Return booleans (rows,): whether the row's next token is a token of its prefix."""
        return self.length < self.prefix_lengths

    def apply(self, logits: Any, *, scores: bool = True, normalise: bool = False) -> tuple[Any, Any]:
        """Apply the rules to the logits (rows, vocab_size) of the next token, which may change in place.

        Return them, and the numbers (rows,) that are subtracted from them to get log-probabilities, 0 without `scores`.
        `normalise` lets the repetition penalty see log-probabilities.
        """
        rules = self.rules
        total: Any = 0.0
        if normalise:
            total = log_sum_exp(logits)
            logits -= total[:, None]
        if rules.repetition_penalty != 1.0:
            apply_repetition_penalty(logits, self.sequences(), rules.repetition_penalty)
        if normalise:
            total = total * 0
        elif scores or rules.functions:
            total = log_sum_exp(logits)
        if rules.functions:
            log_p = self._apply_functions(logits - total[:, None])
            logits, total = log_p.astype(logits.dtype), total * 0  # a copy: the function may keep its result
        self._rule_out(logits, total)
        return logits, total

    def _apply_functions(self, log_p: Any) -> Any:
        for function in self.rules.functions:
            changed = array_of(function(self.sequences(), log_p))
            if getattr(changed, "shape", None) != log_p.shape:
                name, shape = getattr(function, "__name__", type(function).__name__), getattr(changed, "shape", changed)
                raise ValueError(f"the rule {name} must return log-probabilities {log_p.shape}, not {shape}")
            log_p = changed
        return log_p

    def sequences(self) -> np.ndarray:
        """Return the tokens of each sequence, (rows, tokens), including <bos>."""
        so_far = self.history[:, : self.length]
        return np.insert(so_far, 0, self.start[0], axis=1) if self.start else so_far

    def _rule_out(self, logits: Any, total: Any) -> None:
        """Set the logits (rows, vocab_size) of forbidden next tokens to -inf; `total` (rows,) is their log-sum-exp.

        At the maximum length only `forced_last` is allowed, with probability 1. The tokens of a new rule must be added
        to `Rules.ruled_out`.
        """
        xp, rules = array_module(logits), self.rules
        rules.check_vocabulary(logits.shape[1])
        if rules.forbidden:
            logits[:, list(rules.forbidden)] = -np.inf
        if rules.min_length or rules.min_total:
            early = self.length + 1 - self.prefix_lengths < rules.min_length
            early |= self.length + len(self.start) < rules.min_total
            rows = xp.asarray(np.flatnonzero(early))
            for end in rules.ends:
                logits[rows, end] = -np.inf
        if rules.no_repeat_ngram:
            repeating, tokens = map(xp.asarray, repeated_ngrams(self.sequences(), rules.no_repeat_ngram))
            logits[repeating, tokens] = -np.inf
        if rules.forced_last is not None:
            last = xp.asarray(np.flatnonzero(self.limits == self.length + 1))
            logits[last] = -np.inf
            logits[last, rules.forced_last] = total[last] if np.ndim(total) else total

    def ended(self, tokens: np.ndarray) -> np.ndarray:
        """Return whether the token ends its sequence, for each row: (rows,)."""
        ended = np.zeros(len(tokens), bool)
        for end in self.rules.ends:
            ended |= tokens == end
        return ended

    def select(self, rows: np.ndarray) -> None:
        """Keep only the sequences `rows`, in this order."""
        self.history = self.history[rows]
        self.prefix_lengths, self.limits = self.prefix_lengths[rows], self.limits[rows]

    def append(self, tokens: np.ndarray) -> None:
        """Append a token to each sequence; `tokens` is (rows,)."""
        self.history[:, self.length] = tokens
        self.length += 1
