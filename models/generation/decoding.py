"""The interface between searches and models: a state that takes tokens and gives the logits of the next ones.

A model that can generate has a method `start(...)`, which returns a DecodingState. `start(source, source_lengths)` of
an encoder-decoder runs the encoder; `start(rows)` of a language model computes nothing. The state holds everything that
changes during generation; the model and its layers hold no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...autograd.backend import array_module, to_device


class DecodingState(Protocol):
    """A state of `rows` sequences of equal length that a model generates together.

    All sequences are at the same position. If some have a longer prompt, the search feeds its tokens one by one.
    Several sequences may belong to one sentence (beams); these have consecutive rows.

    Attributes:
        rows: current number of sequences.
        positions: maximum number of tokens fed to a sequence, or None if there is no such limit.
        suggested_lengths: (rows,) host integers, the default maximum length of each sequence; None means `positions`.
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
            may_ban: tokens that may be banned before the largest logit is taken. If given, only this logit is needed,
                and a state may return -inf instead of smaller logits.

        Returns logits (rows, vocab_size) of the token after the last one fed, an array on the model's device. The
        caller may modify it; the next step may reuse its memory. Raises ValueError beyond `positions`.
        """
        ...

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        """Keep only these sequences, in this order.

        Args:
            rows: host integers. Rows that are left out are dropped; a row may occur several times.
            width: each group of `width` consecutive sequences belongs to one sentence; divides len(rows).
        """
        ...


class Uncached:
    """A DecodingState that recomputes every sequence from its start at each step: slow and simple.

    It serves models without a cache, and is the reference in the tests of cached states.

    Args:
        logits: function of ids (rows, length) and of `origin` (rows,), the row in which each sequence began, that
            returns logits (rows, vocab_size) after the last token.
        rows, positions, suggested_lengths: see DecodingState.
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
        self.ids = np.concatenate([self.ids, ids], axis=1)
        return self.logits(self.ids, self.origin)

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        self.ids, self.origin = self.ids[rows], self.origin[rows]
        if self.suggested_lengths is not None:
            self.suggested_lengths = self.suggested_lengths[rows]


def survivors(going: np.ndarray) -> np.ndarray:
    """Return the rows to select so that only the rows remain for which `going` (rows,) is true.

    Rows from the end replace those that leave, so that most rows keep their index and need not be copied.
    """
    rows = np.arange(int(going.sum()))
    rows[~going[: len(rows)]] = len(rows) + np.flatnonzero(going[len(rows) :])
    return rows


def to_host(ids: Any, numbers: Any) -> tuple[np.ndarray, np.ndarray]:
    """Convert integers below 2^53 and floats of equal shape to int64 and float64 NumPy arrays.
    Arrays on a device are transferred in one copy.
    """
    xp = array_module(ids)
    if xp is not np:
        ids, numbers = to_device(xp.stack([ids.astype(np.float64), numbers.astype(np.float64)]), "cpu")
    return ids.astype(np.int64, copy=False), numbers.astype(np.float64)
