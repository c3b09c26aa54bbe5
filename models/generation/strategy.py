"""All options of a generation in one object, which the command lines of the examples fill in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np

from ..fields import Bounds, Count, NotNegative, Whole, check_fields
from .beam import EarlyStopping, beam_search
from .consensus import Compared, by_consensus
from .decoding import DecodingState
from .greedy import greedy_search
from .rules import Hypothesis, Rules
from .sampling import sample


@dataclass(frozen=True)
class Strategy:
    """The options of a generation. Each field is explained where it is used.

    Args:
        beam, alpha, coverage, n_best: options of `beam_search`; a beam of 1 (with n_best 1) is greedy search.
        sampling: sample instead, with temperature, top_k, top_p and seed as in `sample`; n_best sequences are drawn for
            each sentence.
        consensus: draw this many samples and select those most similar to the others (`by_consensus`); 0 turns it off.
        length_norm, early_stopping: options of `beam_search`.
        rules: lengths, repetition and forbidden tokens. <bos>, <eos> and the prefix come from `generate`.

    Raises ValueError for a value that its field does not allow.
    """

    beam: Count = 5
    alpha: Annotated[float, Bounds(-100, 100)] = 1.0
    coverage: NotNegative = 0.0
    n_best: Count = 1
    sampling: bool = False
    temperature: NotNegative = 1.0
    top_k: Whole = 0
    top_p: Annotated[float, Bounds(0, 1, above=True)] = 1.0
    seed: Annotated[int, Bounds(0)] = 0
    length_norm: Literal["wu", "power"] = "wu"
    early_stopping: EarlyStopping = None
    consensus: Whole = 0
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """A name for tables: "beam 5", "greedy", "sampling" or "consensus of 30"."""
        if self.consensus:
            return f"consensus of {self.consensus}"
        return "sampling" if self.sampling else f"beam {self.beam}" if self.beam > 1 else "greedy"

    @property
    def width(self) -> int:
        """The number of sequences per sentence that are computed at the same time."""
        return self.consensus or (self.n_best if self.sampling else self.beam)

    def generate(
        self,
        state: DecodingState,
        *,
        bos_id: int | None,
        eos_id: int | None,
        prefix: Sequence[Sequence[int]] | None = None,
        forbidden: tuple[int, ...] = (),
        numbers: Sequence[int] | None = None,
        compared: Compared | None = None,
        scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses for each row of the state, best first. Raises ValueError for wrong options.

        Args:
            bos_id, eos_id, prefix, forbidden: see `Rules`; `forbidden` extends the tokens that the strategy forbids.
            numbers: for sampling, a number for each row that identifies its sentence, such as the line in a file; by
                default the row's index. The same seed and number draw the same tokens in every batch.
            compared: for a consensus, see `by_consensus`.
            scores: whether scores are needed; without them, greedy search returns NaN as scores, which saves time.
        """
        rules = replace(
            self.rules, bos_id=bos_id, eos_id=eos_id, prefix=prefix, forbidden=(*self.rules.forbidden, *forbidden)
        )
        numbers = range(state.rows) if numbers is None else numbers
        if self.consensus:
            draws = self._draw(state, rules, numbers, self.consensus)
            return [by_consensus(drawn, compared)[: self.n_best] for drawn in draws]
        if self.sampling:
            return self._draw(state, rules, numbers, self.n_best)
        if self.beam == self.n_best == 1 and not self.coverage:
            return [[hypothesis] for hypothesis in greedy_search(state, rules, scores=scores)]
        return beam_search(
            state,
            rules,
            width=self.beam,
            alpha=self.alpha,
            coverage=self.coverage,
            n_best=self.n_best,
            length_norm=self.length_norm,
            early_stopping=self.early_stopping,
        )

    def _draw(self, state: DecodingState, rules: Rules, numbers: Sequence[int], n: int) -> list[list[Hypothesis]]:
        rows = state.rows
        if n > 1:
            state.select(np.repeat(np.arange(rows), n))
            if rules.prefix is not None:
                rules = replace(rules, prefix=[ids for ids in rules.prefix for _ in range(n)])
        seeds = [[self.seed, number, draw] for number in numbers for draw in range(n)]
        options: dict[str, Any] = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        drawn = sample(state, rules, seed=seeds, **options)
        return [sorted(drawn[row * n : (row + 1) * n], key=lambda one: -one.score) for row in range(rows)]
