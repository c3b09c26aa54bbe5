"""All generation options in one object, which the examples create from their command lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np

from ...errors import short
from ...kinds import checked
from ...nn import Module
from ..fields import Bounds, Count, NotNegative, Whole, changed_fields, check_fields
from .beam import EarlyStopping, beam_search
from .consensus import Compared, by_consensus
from .decoding import DecodingState, Uncached, last_logits
from .greedy import greedy_search
from .rules import Functions, Hypothesis, Rules, as_functions
from .sampling import sample


@dataclass(frozen=True)
class Strategy:
    """Generation options: the search method, its options, and the rules for sequences.

    Args:
        beam, alpha, coverage, n_best: options of `beam_search`; a `beam` of 1 with an `n_best` of 1 means greedy
            search.
        sampling: whether to sample instead of searching, with the arguments temperature, top_k, top_p and seed of
            `sample`; `n_best` sequences are drawn for each sentence.
        consensus: number of samples to draw for each sentence, from which `by_consensus` selects those most similar to
            the others; 0 means no consensus.
        length_norm, early_stopping: options of `beam_search`.
        rules: lengths, repetition and forbidden tokens. `generate` adds <bos>, <eos> and the prefix.

    Raises ValueError for an invalid value.
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

    __repr__ = changed_fields

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """The strategy's name in tables, such as "beam 5", "greedy", "sampling" or "consensus of 30"."""
        if self.consensus:
            return f"consensus of {self.consensus}"
        return "sampling" if self.sampling else f"beam {self.beam}" if self.beam > 1 else "greedy"

    @property
    def width(self) -> int:
        """The number of sequences that are generated at the same time for each sentence."""
        return self.consensus or (self.n_best if self.sampling else self.beam)

    def generate(
        self,
        state: DecodingState,
        *,
        bos_id: int | None,
        eos_id: int | None,
        prefix: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
        compared: Compared | None = None,
        scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses for each row of the state, best first. Raises ValueError for invalid options.

        Args:
            bos_id, eos_id, prefix: see `Rules`.
            numbers: for sampling, a number for each row that identifies the row's sentence, such as its line number; by
                default the row's index. With the same seed and number, the same tokens are drawn whatever the batch.
            compared: how a consensus compares sequences; see `by_consensus`.
            scores: whether to compute scores; if false, greedy search is faster and its scores are NaN.
        """
        rules = replace(self.rules, bos_id=bos_id, eos_id=eos_id, prefix=prefix)
        numbers = range(state.rows) if numbers is None else numbers
        if len(numbers) != state.rows:
            raise ValueError(f"got {len(numbers)} numbers for {state.rows} sequences: give one for each sequence")
        if self.consensus:
            draws = self._draw(state, rules, numbers, self.consensus)
            return [by_consensus(drawn, compared)[: self.n_best] for drawn in draws]
        if self.sampling:
            return self._draw(state, rules, numbers, self.n_best)
        if self.beam == self.n_best == 1 and not self.coverage:
            return [[hypothesis] for hypothesis in greedy_search(state, rules, scores=scores)]
        names = ("alpha", "coverage", "n_best", "length_norm", "early_stopping")
        return beam_search(state, rules, width=self.beam, **{name: getattr(self, name) for name in names})

    def with_rules(self, functions: Functions) -> Self:
        """Return this strategy with further rules: functions as in `Rules.functions`."""
        if not isinstance(self, Strategy):
            raise TypeError(f"strategy is {short(self)}, but it must be a Strategy")
        if not functions:
            return self
        both = [*self.rules.functions, *as_functions(functions)]
        return replace(self, rules=replace(self.rules, functions=tuple(both)))

    def _draw(self, state: DecodingState, rules: Rules, numbers: Sequence[int], n: int) -> list[list[Hypothesis]]:
        rows = state.rows
        if n > 1:
            state.select(np.repeat(np.arange(rows), n))
            if rules.prefix is not None:
                rules = replace(rules, prefix=[ids for ids in rules.prefix for _ in range(n)])
        seeds = [[self.seed, number, draw] for number in numbers for draw in range(n)]
        drawn = sample(state, rules, seed=seeds, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
        return [sorted(drawn[row * n : (row + 1) * n], key=lambda one: -one.score) for row in range(rows)]


@checked
def generate(
    model: Callable[..., Any],
    ids: Sequence[Sequence[int]],
    max_length: int,
    *,
    eos_id: int | None = None,
    strategy: Strategy | None = None,
    rules: Functions = (),
    context: int = 0,
) -> list[list[int]]:
    """Continue sequences of ids with any model, and return the whole sequences without `eos_id`.

    Args:
        model: a language model of handloom; or any function from ids (rows, length) to logits (rows, length,
            vocab_size), which is called with all ids for each new one. A Module runs in evaluation mode.
        ids: the beginning of each sequence, at least one id; their lengths can differ.
        max_length: maximum number of new ids.
        eos_id: the id that ends a sequence.
        strategy: the search and its options; None means greedy search.
        rules: functions of the ids so far and the log-probabilities of the next id; see `Rules.functions`.
        context: the number of last ids that the function needs; 0 means all.

    Raises ValueError for a sequence without ids or an id that is out of range, for logits of another shape, and for a
    strategy with several results.
    """
    if any(np.ndim(row) != 1 for row in ids):
        raise TypeError("generate: ids must be a list of sequences, [[1, 2], [3]]; give [ids] for one sequence")
    strategy = Strategy.with_rules(strategy or Strategy(beam=1), rules)
    if strategy.n_best > 1:
        raise ValueError(
            f"generate returns one sequence for each: n_best={strategy.n_best} has no effect; leave it out"
        )
    strategy = replace(strategy, rules=replace(strategy.rules, max_length=max_length))
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, Module) else []
    try:
        for module, _ in modes:
            module.training = False
        start = None if context else getattr(model, "start", None)
        own = Uncached(lambda ids, _: last_logits(model(ids[:, -context:])), len(ids))
        state = own if start is None else start(len(ids))
        found = strategy.generate(state, bos_id=None, eos_id=eos_id, prefix=ids, scores=False)
    finally:
        for module, mode in modes:
            module.training = mode
    return [hypotheses[0].ids for hypotheses in found]
