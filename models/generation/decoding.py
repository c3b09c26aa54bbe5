"""The interface between searches and models: a state that receives tokens and returns the logits of the next token.

A model that can generate has a method `start(...)`, which returns a DecodingState. For an encoder-decoder,
`start(source, source_lengths)` runs the encoder. For a language model, `start(rows)` computes nothing. The
DecodingState contains everything that changes during generation; the model does not change.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...autograd import no_grad
from ...autograd.backend import array_module, to_device
from ...autograd.tensor import array_of


class DecodingState(Protocol):
    """The state of a batch of `rows` sequences that a model generates.

    All sequences have the same length. If some have a longer prompt, the search feeds the rest of it token by token.
    In a beam search several sequences belong to one sentence; they have consecutive rows.

    Attributes:
        rows: current number of sequences.
        positions: maximum number of tokens fed to a sequence, or None if there is no such limit.
        suggested_lengths: the default maximum length of each sequence, (rows,) host integers; None means `positions`.
    """

    @property
    def rows(self) -> int: ...

    positions: int | None
    suggested_lengths: np.ndarray | None

    def step(self, ids: np.ndarray, may_ban: Sequence[int] | None = None) -> Any:
        """Feed each sequence its next tokens.

        Args:
            ids: (rows, new) host integers; more than one new token is allowed only while each sentence has one
                sequence.
            may_ban: tokens that the caller may ban before it takes the largest logit. If given, the caller needs only
                the largest logit, and the state can return -inf instead of smaller logits.

        Returns the logits (rows, vocab_size) of the next token, an array on the model's device. The caller may modify
        the array, and the next step may overwrite it. Raises ValueError if more than `positions` tokens are fed.
        """
        ...

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        """Keep only the sequences `rows`, in this order.

        Args:
            rows: host integers, the indices of the sequences; an index can occur several times, and sequences that do
                not occur are removed.
            width: number of consecutive sequences that belong to one sentence; it divides len(rows).
        """
        ...


class Uncached:
    """A DecodingState that recomputes every sequence from its start at each step: slow and simple.

    It is used for models without a cache, and tests compare cached states with it. `logits` is a function of ids (rows,
    length) and of the row in which each sequence began, which returns the logits (rows, vocab_size) of the next token.
    """

    def __init__(
        self,
        logits: Callable[[np.ndarray, np.ndarray], Any],
        rows: int,
        *,
        positions: int | None = None,
        suggested_lengths: np.ndarray | None = None,
    ):
        self.logits, self.positions, self.suggested_lengths = logits, positions, suggested_lengths
        self.ids, self.origin = np.empty((rows, 0), np.int64), np.arange(rows)

    @property
    def rows(self) -> int:
        return len(self.origin)

    def step(self, ids: np.ndarray, may_ban: Sequence[int] | None = None) -> Any:
        with no_grad():
            logits = self.logits(fed := np.concatenate([self.ids, ids], axis=1), self.origin)
        self.ids = fed  # only now: an interrupt while the logits are computed must leave the old ids
        return logits

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        self.ids, self.origin = self.ids[rows], self.origin[rows]
        if self.suggested_lengths is not None:
            self.suggested_lengths = self.suggested_lengths[rows]


def last_logits(output: Any) -> Any:
    """Return the logits (rows, vocab_size) of the last position of a model's output (rows, length, vocab_size)."""
    logits = array_of(output)
    if getattr(logits, "ndim", 0) != 3:
        kind = getattr(logits, "shape", type(logits).__name__)
        raise ValueError(f"a model must return logits (rows, length, vocab_size) for ids (rows, length), not {kind}")
    return logits[:, -1].copy()


def survivors(going: np.ndarray) -> np.ndarray:
    """Return the argument of `select` that keeps only the rows for which `going` (rows,) is true. The last rows replace
    the removed rows, so that most rows keep their index and need not be copied.
    """
    rows = np.arange(int(going.sum()))
    rows[~going[: len(rows)]] = len(rows) + np.flatnonzero(going[len(rows) :])
    return rows


def to_host(ids: Any, numbers: Any) -> tuple[np.ndarray, np.ndarray]:
    """Convert integers below 2^53 and floats of equal shape to int64 and float64 NumPy arrays, in one transfer."""
    xp = array_module(ids)
    if xp is not np:
        ids, numbers = to_device(xp.stack([ids.astype(np.float64), numbers.astype(np.float64)]), "cpu")
    return ids.astype(np.int64, copy=False), numbers.astype(np.float64)
