"""Turning a trained model into text: greedy and beam search.

Both decode a batch of sentences of different lengths together, keep keys and values in a cache, and drop sentences
that are finished from the batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd import Tensor, no_grad
from ..seq2seq import Seq2SeqTransformer


class Hypothesis(NamedTuple):
    """One translation: ids without <bos> and <eos>, and its score (log-probability over the length penalty)."""

    ids: list[int]
    score: float


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha. Source: Wu et al. 2016, arXiv 1609.08144, equation 14."""
    return ((5.0 + length) / 6.0) ** alpha


def greedy_search(
    model: Seq2SeqTransformer,
    source: np.ndarray,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | None = None,
    source_lengths: Any = None,
) -> list[Hypothesis]:
    """The likeliest token at each step, until <eos> or `max_length` tokens.

    Args:
        source: (batch, source_length) ids, padded at the end.
        max_length: most tokens of a translation, its <eos> included; by default twice the source's length plus 10.
            The model's positions bound both. Raises ValueError below 1.
        source_lengths: (batch,) lengths without padding; found from the padding if None.

    Returns one Hypothesis a sentence; its score is the log-probability of its tokens, <eos> included.
    """
    batch = source.shape[0]
    ids: list[list[int]] = [[] for _ in range(batch)]
    scores = np.zeros(batch)
    with no_grad():
        memory, lengths = model.encode(source, source_lengths)
        limits = _limits(model, lengths, max_length)
        cache = model.decoder.new_cache()
        alive = np.arange(batch)
        last = np.full(batch, bos_id)
        for step in range(1, limits.max(initial=0) + 1):
            log_p = model.log_probabilities(last[:, None], memory, lengths, cache=cache)
            last = log_p.argmax(axis=1)
            scores[alive] += log_p[np.arange(len(alive)), last]
            for sentence, token in zip(alive, last, strict=True):
                if token != eos_id:
                    ids[sentence].append(int(token))
            going = (last != eos_id) & (step < limits[alive])
            if not going.all():
                alive, last, lengths, memory = alive[going], last[going], lengths[going], Tensor(memory.data[going])
                for layer in cache:
                    layer.select(going)
            if not len(alive):
                break
    return [Hypothesis(tokens, float(score)) for tokens, score in zip(ids, scores, strict=True)]


def beam_search(
    model: Seq2SeqTransformer,
    source: np.ndarray,
    *,
    bos_id: int,
    eos_id: int,
    beam: int = 5,
    alpha: float = 0.6,
    max_length: int | None = None,
    source_lengths: Any = None,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The best complete translations found when `beam` partial ones are kept at each step.

    A hypothesis' score is its log-probability (<eos> included) divided by `length_penalty`. A sentence is finished
    when no open hypothesis can still beat its worst kept one; at `max_length` the open ones count as they are.
    Arguments as in `greedy_search`; `alpha` is the exponent of the length penalty. Returns, for each sentence,
    `n_best` (at most `beam`) hypotheses, best first. Raises ValueError unless 1 <= n_best <= beam.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"beam_search: n_best = {n_best} must lie between 1 and beam = {beam}")
    with no_grad():
        memory, lengths = model.encode(source, source_lengths)
        search = [_Beam(bos_id, eos_id, beam, alpha, int(n)) for n in _limits(model, lengths, max_length)]
        cache = model.decoder.new_cache()
        # Row r of the batch is a hypothesis of sentence owner[r]; each sentence starts with one, <bos>.
        owner = np.arange(source.shape[0])
        while len(owner):
            last = np.array([token for s in np.unique(owner) for token in search[s].last_tokens()])
            log_p = model.log_probabilities(last[:, None], memory, lengths, cache=cache)
            rows: list[int] = []
            next_owner: list[int] = []
            for sentence in np.unique(owner):
                own_rows = np.flatnonzero(owner == sentence)
                parents = search[sentence].step(log_p[own_rows])
                rows += [int(own_rows[parent]) for parent in parents]
                next_owner += [int(sentence)] * len(parents)
            owner = np.array(next_owner, dtype=np.int64)
            if len(owner):
                memory, lengths = Tensor(memory.data[rows]), lengths[rows]
                for layer in cache:
                    layer.select(rows)
    return [one.best(n_best) for one in search]


class _Beam:
    """The search for one sentence: open hypotheses, and the best finished ones."""

    def __init__(self, bos_id: int, eos_id: int, width: int, alpha: float, limit: int):
        self.eos_id, self.width, self.alpha, self.limit = eos_id, width, alpha, limit
        self.open: list[list[int]] = [[bos_id]]
        self.scores = np.zeros(1)
        self.finished: list[Hypothesis] = []

    def last_tokens(self) -> list[int]:
        return [tokens[-1] for tokens in self.open]

    def step(self, log_p: np.ndarray) -> list[int]:
        """Extend every open hypothesis by one token, given log-probabilities (open, vocabulary).

        Returns, for each hypothesis that stays open, the one it extends; none when the sentence is finished.
        """
        total = self.scores[:, None] + log_p
        vocabulary = total.shape[1]
        # Each open hypothesis has one <eos>, so twice the width always leaves `width` that go on.
        count = min(2 * self.width, total.size)
        flat = total.reshape(-1)
        top = np.argpartition(-flat, count - 1)[:count]
        top = top[np.lexsort((top, -flat[top]))]  # by score, equal scores by position: the same on every machine
        length = len(self.open[0])  # of a hypothesis that ends here, <eos> included
        open_next: list[list[int]] = []
        scores: list[float] = []
        parents: list[int] = []
        for rank, place in enumerate(top):
            parent, token = divmod(int(place), vocabulary)
            if token == self.eos_id:
                # An <eos> below the beam's width would not be kept if it were any other token.
                if rank < self.width:
                    self._finish(self.open[parent][1:], float(flat[place]), length)
            elif len(open_next) < self.width:
                open_next.append([*self.open[parent], token])
                scores.append(float(flat[place]))
                parents.append(parent)
        self.open, self.scores = open_next, np.array(scores)
        if length >= self.limit:
            for tokens, score in zip(self.open, scores, strict=True):
                self._finish(tokens[1:], score, length)
            return []
        return [] if self._settled() else parents

    def _finish(self, ids: list[int], log_probability: float, length: int) -> None:
        self.finished.append(Hypothesis(ids, log_probability / length_penalty(length, self.alpha)))
        self.finished.sort(key=lambda h: -h.score)
        del self.finished[self.width :]

    def _settled(self) -> bool:
        """Whether no open hypothesis can still beat the worst of a full set of finished ones."""
        if len(self.finished) < self.width or not len(self.scores):
            return not len(self.scores)
        # A log-probability only falls; the penalty that divides it is largest at the limit (alpha > 0) or now.
        best_length = self.limit if self.alpha > 0 else len(self.open[0])
        return float(self.scores.max()) / length_penalty(best_length, self.alpha) <= self.finished[-1].score

    def best(self, count: int) -> list[Hypothesis]:
        return self.finished[:count]


def _limits(model: Seq2SeqTransformer, source_lengths: Any, max_length: int | None) -> np.ndarray:
    """Most steps for each sentence, <eos> included; from its own length, whatever it is batched with."""
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length = {max_length} must be at least 1: <eos> counts")
    wanted = 2 * np.asarray(source_lengths) + 10 if max_length is None else np.full(len(source_lengths), max_length)
    return np.minimum(wanted, model.config.max_length)
