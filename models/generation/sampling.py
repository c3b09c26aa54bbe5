"""Sampling: temperature, top-k, nucleus."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ...autograd.backend import array_module
from ...kinds import checked
from ..fields import Bounds, NotNegative, Whole, check_fields
from .decoding import DecodingState
from .greedy import decode, likeliest
from .rules import Hypothesis, Rules
from .top import refuse_nan
from .top import top_k as largest


@dataclass(kw_only=True)
class Sampler:
    """A Choice that draws each token from the model's distribution after temperature, top-k and top-p.

    Args:
        temperature: number by which the logits are divided. Below 1, probable tokens become more probable; above 1,
            less probable. 0 always chooses the most probable token.
        top_k: draw only from the k most probable tokens; 0 draws from all. Source: Fan et al. 2018, arXiv 1805.04833.
        top_p: draw only from the nucleus, the smallest set of most probable tokens whose total probability (after
            temperature and top_k) is at least `top_p`; 1 means all tokens. Source: Holtzman et al. 2019, arXiv
            1904.09751.
        seed: an integer, from which each sequence gets a separate stream of random numbers; or a list with a seed, or a
            list of seeds, for each sequence.

    The random numbers continue from call to call, so each generation needs a new Sampler. Raises ValueError for numbers
    out of range.
    """

    temperature: NotNegative = 1.0
    top_k: Whole = 0
    top_p: Annotated[float, Bounds(0, 1, above=True)] = 1.0
    seed: Any = 0

    def __post_init__(self) -> None:
        check_fields(self)
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, logits: Any, sequences: np.ndarray, wanted: np.ndarray) -> Any:
        """Draw an id for each row of logits (rows, vocab_size). Rows that are not `wanted` consume no random number."""
        if self.temperature == 0:
            return likeliest(logits, sequences, wanted)
        xp = array_module(logits)
        uniform = np.array([self._draw(int(s)) if w else 0.0 for s, w in zip(sequences, wanted, strict=True)])
        if not self.top_k and self.top_p == 1.0:
            return _first_above(xp.cumsum(self._weights(logits), axis=1), xp.asarray(uniform))
        values, ids = largest(logits, self.top_k or logits.shape[1])
        total = xp.cumsum(self._weights(values), axis=1)
        if self.top_p < 1.0:
            # The nucleus ends with the first token at which the sum reaches top_p.
            size = (total < self.top_p * total[:, -1:]).sum(axis=1) + 1
            last = xp.minimum(size, total.shape[1]) - 1
            total = xp.minimum(total, xp.take_along_axis(total, last[:, None], axis=1))
        index = _first_above(total, xp.asarray(uniform))
        return xp.take_along_axis(ids, index[:, None], axis=1)[:, 0]

    def _weights(self, logits: Any) -> Any:
        """Compute exp((x - max x) / temperature) in float64, the unnormalised probabilities."""
        xp = array_module(logits)
        x = logits.astype(np.float64)
        top = x.max(axis=1, keepdims=True)
        refuse_nan(top)
        return xp.exp((x - xp.where(xp.isfinite(top), top, 0)) / self.temperature)

    def _draw(self, sequence: int) -> float:
        if sequence not in self._streams:
            if isinstance(self.seed, Sequence):
                entropy: Any = np.random.SeedSequence(self.seed[sequence])
            else:
                entropy = np.random.SeedSequence(self.seed, spawn_key=(sequence,))
            self._streams[sequence] = np.random.Generator(np.random.SFC64(entropy))
        return float(self._streams[sequence].random())


def _first_above(total: Any, uniform: Any) -> Any:
    """Return the first index at which a row of cumulative sums (rows, n) exceeds `uniform`, below 1, of the total."""
    whole = total[:, -1]
    # The product, if rounded up, could equal the total, which no sum exceeds.
    threshold = array_module(total).minimum(uniform * whole, whole * (1 - 2.0**-52))
    return (total > threshold[:, None]).argmax(axis=1)


@checked
def sample(state: DecodingState, rules: Rules, **options: Any) -> list[Hypothesis]:
    """Sample a sequence for each row of the state. The options are the arguments of `Sampler`. The score of a
    hypothesis is the model's log-probability, before temperature, top-k and top-p are applied.
    """
    return decode(state, rules, Sampler(**options))
