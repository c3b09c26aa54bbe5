"""Beam search, which extends several partial sequences for each sentence."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from ...autograd.backend import to_device
from ...kinds import checked
from ..fields import NotNegative
from .decoding import DecodingState, survivors, to_host
from .penalties import LENGTH_NORMS, coverage_penalty
from .rules import Hypothesis, Rules, SearchProgress
from .top import top_k

EarlyStopping = Literal[True, False, "never"] | None
# (log-probability, number of the open sequence that it extends, token)
Candidate = tuple[float, int, int]


class BeamStep(NamedTuple):
    """The result of one step of a beam search for one sentence, before `select` changes the state."""

    sentence: int  # the row of the state in which the sentence began
    length: int  # of each sequence in tokens, including the new token
    candidates: list[Candidate]  # the continuations that were considered, best first
    kept: list[Candidate]  # those that are extended, in the order of their new rows; none if the sentence is finished
    #: For each sequence that ended: the index of the open sequence that it extends, the added tokens ([] for <eos>) and
    #: the scored hypothesis.
    complete: list[tuple[int, list[int], Hypothesis]]


@checked
def beam_search(
    state: DecodingState,
    rules: Rules,
    *,
    width: int = 5,
    alpha: float = 0.6,
    coverage: NotNegative = 0.0,
    n_best: int = 1,
    observe: Callable[[BeamStep], None] | None = None,
    length_norm: Literal["wu", "power"] = "wu",
    early_stopping: EarlyStopping = None,
) -> list[list[Hypothesis]]:
    """Run a beam search, which keeps the `width` best partial sequences of each sentence at each step.

    The score of a complete sequence is its log-probability divided by `length_penalty`, plus `coverage_penalty`. A
    sentence is finished when no open sequence can reach a higher score than the `n_best`-th complete sequence, or, with
    `width` 1, when its sequence has ended. Open sequences that reach the length limit are complete.

    Args:
        width: number of sequences kept for each sentence; 1 means greedy search, whatever `alpha` is.
        alpha: exponent of the length penalty; 0 means no penalty, and larger values favour longer sequences.
        coverage: weight of the coverage penalty; if it is above 0, the state needs `keep_attention=True`.
        n_best: number of hypotheses to return, at most `width`.
        length_norm: the divisor of the log-probability, "wu" for `length_penalty` or "power" for length^alpha.
        early_stopping: None finishes a sentence as described above. The other values mean the same as in
            `transformers`. True finishes a sentence when it has `width` complete sequences; False when, in addition,
            the best open sequence would score lower than these if it ended now; "never" when no open sequence can reach
            their scores.
        observe: function that is called with a BeamStep after each step of each sentence.

    Returns, for each row of the state, `n_best` hypotheses, best first, or fewer if the rules allow fewer sequences, as
    with one new token and `Rules.forced_last`. Raises ValueError for numbers out of range. Source: Wu et al. 2016,
    arXiv 1609.08144, section 7.
    """
    if not 1 <= n_best <= width:
        raise ValueError(f"beam_search: n_best = {n_best} must be between 1 and the beam's width = {width}")
    kept = n_best if early_stopping is None else width
    search = _BeamSearch(state, rules, width, coverage, (alpha, kept, length_norm, early_stopping), observe)
    return [hypotheses[:n_best] for hypotheses in search.run()]


class _Complete:
    """The `width` best complete hypotheses of one sentence."""

    def __init__(self, limit: int, alpha: float, kept: int, length_norm: str, early_stopping: EarlyStopping):
        self.limit, self.alpha, self.kept, self.early_stopping = limit, alpha, kept, early_stopping
        self.norm = LENGTH_NORMS[length_norm]
        self.best: list[Hypothesis] = []

    def add(self, ids: list[int], log_probability: float, length: int, coverage: float) -> Hypothesis:
        score = log_probability / self.norm(length, self.alpha) + coverage
        hypothesis = Hypothesis(ids, score)
        self.best.append(hypothesis)
        self.best.sort(key=lambda hypothesis: -hypothesis.score)
        del self.best[self.kept :]
        return hypothesis

    def settled(self, best_open: float, length: int) -> bool:
        """Return whether no open hypothesis, of `length` tokens and at most `best_open`, can become one of the best."""
        if len(self.best) < self.kept:
            return False
        if self.early_stopping is True:
            return True
        # A log-probability only falls and a coverage penalty is never above 0. The divisor is largest at the length
        # limit (alpha > 0) or at the current length.
        longest = self.limit if self.alpha > 0 and self.early_stopping is not False else length
        bound = best_open / self.norm(longest, self.alpha)
        return bound <= self.best[-1].score


class _BeamSearch:
    """The state of one search.
    The rows of the decoding state are the open sequences, one for each sentence at the start and `width` afterwards.
    Unused rows have the log-probability -inf.
    """

    def __init__(
        self,
        state: DecodingState,
        rules: Rules,
        width: int,
        coverage: float,
        ranking: tuple[Any, ...],
        observe: Callable[[BeamStep], None] | None,
    ):
        self.state, self.rules, self.width, self.coverage, self.observe = state, rules, width, coverage, observe
        self.ends = rules.ends
        # An open sequence can end in as many ways as there are end tokens, so at least `width` sequences continue.
        self.considered = (1 + max(len(self.ends), 1)) * width
        self.ended: list[tuple[int, list[int], Hypothesis]] = []  # in this step, of the current sentence
        self.progress = SearchProgress(state, rules)
        limits = self.progress.limits - self.progress.prefix_lengths
        self.complete = [_Complete(int(limit), *ranking) for limit in limits]
        self.alive = np.arange(state.rows)  # sentences that are not done, in the order of their rows
        self.scores = np.zeros((state.rows, 1))  # (alive, open): log-probabilities
        self.attended: np.ndarray | None = None  # (rows, source_length): attention so far, if coverage counts

    def run(self) -> list[list[Hypothesis]]:
        ids = self.progress.first_ids()
        while len(self.alive):
            logits = self.state.step(ids)
            if self.coverage:
                self._attend()
            kept = [self._extend(*one) for one in zip(range(len(self.alive)), *self._candidates(logits), strict=True)]
            ids = self._advance(kept)
        return [complete.best for complete in self.complete]

    def _attend(self) -> None:
        attention = getattr(self.state, "cross_attention", None)
        if attention is None:
            raise ValueError("the coverage penalty needs cross-attention: start with keep_attention=True")
        new = to_device(attention, "cpu").astype(np.float64)
        self.attended = new if self.attended is None else self.attended + new

    def _candidates(self, logits: Any) -> tuple[list[list[float]], list[list[int]], list[list[int]]]:
        """Return the log-probabilities, parents and tokens of each sentence's best continuations, best first."""
        progress, (alive, opened) = self.progress, self.scores.shape
        logits, total = progress.apply(logits, normalise=self.rules.penalise == "log-probabilities")
        values, ids = top_k(logits, self.considered)
        tokens, log_p = to_host(ids, values - total[:, None])
        k = tokens.shape[1]
        scores = (self.scores[:, :, None] + log_p.reshape(alive, opened, k)).reshape(alive, opened * k)
        # A stable sort: equal scores have the same order on every machine, and in every batch.
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.considered]
        tokens = np.take_along_axis(tokens.reshape(alive, opened * k), order, axis=1)
        return np.take_along_axis(scores, order, axis=1).tolist(), (order // k).tolist(), tokens.tolist()

    def _extend(self, index: int, scores: list[float], parents: list[int], tokens: list[int]) -> list[Candidate]:
        """Return the candidates of the sentence alive[index] to extend further, or [] if the sentence is finished."""
        progress, opened = self.progress, self.scores.shape[1]
        first = index * opened
        self.ended = []
        if progress.length < progress.prefix_lengths[first]:
            return [(0.0, 0, int(progress.history[first, progress.length]))]
        length = progress.length + 1 - int(progress.prefix_lengths[first])
        complete = self.complete[self.alive[index]]
        kept: list[Candidate] = []
        for rank, (score, parent, token) in enumerate(zip(scores, parents, tokens, strict=True)):
            if score == -np.inf or len(kept) == self.width:
                break
            if token not in self.ends:
                kept.append((score, parent, token))
            elif rank < self.width:  # an <eos> below the beam's width would not be kept if it were any other token
                self._add(complete, first + parent, [], score, length)
        if not kept and not complete.best:  # no token is allowed: the open sequences end as they are
            for parent in np.flatnonzero(self.scores[index] > -np.inf).tolist():
                self._add(complete, first + parent, [], self.scores[index, parent], length - 1)
        if self.width == 1 and complete.best:  # <eos> was the likeliest: the one sequence kept has ended
            kept = []
        elif length >= complete.limit:
            for score, parent, token in kept:
                self._add(complete, first + parent, [token], score, length)
            kept = []
        elif kept and complete.settled(kept[0][0], length):
            kept = []
        if self.observe is not None:
            candidates = list(zip(scores, parents, tokens, strict=True))
            self.observe(BeamStep(int(self.alive[index]), progress.length + 1, candidates, kept, self.ended))
        return kept

    def _add(self, complete: _Complete, row: int, last: list[int], log_probability: float, length: int) -> None:
        ids = self.progress.history[row, : self.progress.length].tolist() + last
        coverage = 0.0
        if self.attended is not None:
            real = self.attended[row] > 0  # the rest is padding
            coverage = float(coverage_penalty(self.attended[row][real], self.coverage))
        hypothesis = complete.add(ids, log_probability, length, coverage)
        if self.observe is not None:
            self.ended.append((row % self.scores.shape[1], last, hypothesis))

    def _advance(self, kept: list[list[Candidate]]) -> np.ndarray:
        """Select the sequences to keep, remove finished sentences, and return the ids to feed in the next step."""
        indices = survivors(np.array([bool(candidates) for candidates in kept], dtype=bool))
        self.alive = self.alive[indices]
        if not len(indices):
            return np.empty((0, 1), np.int64)
        opened, width = self.scores.shape[1], self.width
        self.scores = np.full((len(indices), width), -np.inf)
        rows, tokens = np.empty((2, len(indices), width), np.int64)
        for new, index in enumerate(indices.tolist()):
            candidates = kept[index]
            # Unused sequences repeat the best one; their score keeps them out.
            scores, parents, next_tokens = zip(*candidates, *candidates[:1] * (width - len(candidates)), strict=True)
            self.scores[new, : len(candidates)] = scores[: len(candidates)]
            rows[new], tokens[new] = np.array(parents) + index * opened, next_tokens
        rows, tokens = rows.reshape(-1), tokens.reshape(-1)
        self.state.select(rows, width)
        self.progress.select(rows)
        self.progress.append(tokens)
        if self.attended is not None:
            self.attended = self.attended[rows]
        return tokens[:, None]
