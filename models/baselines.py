"""Baselines for language models: uniform, bigram and recurrent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from ..autograd import Tensor, no_grad
from ..nn import GRU, LSTM, RNN, Dropout, Embedding, Linear, Module, init
from ..nn.recurrent import Recurrent, State, select_rows
from .fields import Choices, Count, Depth, Fraction, Size, check_fields
from .generation import Uncached

RECURRENT_LAYERS: dict[str, type[Recurrent]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


class RandomLanguageModel(Module):
    """A model that gives the same probability to all tokens except the ids below `special`.

    Its loss is log(vocab_size - special) nats per token. The logits contain random noise below 1e-6, so that the most
    probable token is random.
    """

    def __init__(self, vocab_size: int, special: int = 0):
        self.vocab_size, self.special = vocab_size, special

    def forward(self, ids: Any) -> Tensor:
        return Tensor(self._logits(np.shape(ids)))

    def _logits(self, shape: tuple[int, ...]) -> np.ndarray:
        logits = 1e-6 * np.random.default_rng(0).random((*shape, self.vocab_size), np.float32)
        logits[..., : self.special] = -15  # not -inf, because <unk> may be in a text
        return logits

    def start(self, rows: int = 1) -> Uncached:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`."""
        return Uncached(lambda ids, origin: self._logits((len(ids),)), rows)


class BigramLanguageModel(Module):
    """A model that predicts the next token from the previous token alone.

    Row i of `logits.weight` (vocab_size, vocab_size) contains the logits of the tokens that follow token i.
    """

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size
        self.logits = Embedding(vocab_size, vocab_size)

    def fit(self, ids: Any, smoothing: float = 0.1) -> BigramLanguageModel:
        """Set the logits from the counts of adjacent pairs in `ids` (n,), each increased by `smoothing`.

        Gradient descent would converge to the same logits, but it needs many passes over the data. Raises ValueError
        for smoothing <= 0.
        """
        if smoothing <= 0:
            raise ValueError(f"smoothing {smoothing} must be above 0, because some pairs may not occur in the data")
        ids = np.asarray(ids, np.int64)
        pairs = np.bincount(ids[:-1] * self.vocab_size + ids[1:], minlength=self.vocab_size**2)
        counts = pairs.reshape(self.vocab_size, self.vocab_size) + smoothing
        self.logits.weight.data[...] = np.log(counts / counts.sum(axis=1, keepdims=True))
        self.logits.weight.mark_changed()
        return self

    def forward(self, ids: Any) -> Tensor:
        return self.logits(ids)

    def start(self, rows: int = 1) -> Uncached:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`."""
        return Uncached(lambda ids, origin: self.logits.weight.data[ids[:, -1]].copy(), rows)


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The configuration of a RecurrentLanguageModel; `kind` is "rnn", "lstm" or "gru".

    If `embedding` is false, the input of the first layer is one-hot tokens. The product with a one-hot token is one row
    of the input weights, to which the input biases are already added.

    Raises ValueError for an invalid value; see `fields`.
    """

    vocab_size: Count
    kind: Annotated[str, Choices(tuple(RECURRENT_LAYERS))] = "lstm"
    d_model: Size = 256
    layers: Depth = 1
    dropout: Fraction = 0.0
    embedding: bool = True

    def __post_init__(self) -> None:
        check_fields(self)

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        return values if not self.embedding else {name: values[name] for name in values if name != "embedding"}


class RecurrentLanguageModel(Module):
    """An embedding and an RNN, LSTM or GRU: ids (batch, length) -> logits (batch, length, vocab_size)."""

    def __init__(self, config: RecurrentConfig):
        self.config = c = config
        layer, size = RECURRENT_LAYERS[c.kind], c.d_model
        self.embedding = Embedding(c.vocab_size, size if c.embedding else layer.gates * size)
        if not c.embedding:
            init.uniform_(self.embedding.weight, -(size**-0.5), size**-0.5)
        self.dropout = Dropout(c.dropout)
        self.recurrent = layer(size if c.embedding else None, size, c.layers, c.dropout)
        self.output = Linear(c.d_model, c.vocab_size)

    def forward(self, ids: Any) -> Tensor:
        return self.outputs(ids)[0]

    def outputs(self, ids: Any, state: list[State] | None = None) -> tuple[Tensor, list[State]]:
        """Return the logits, and the state after the last token. If `state` is given, it is the state before `ids`."""
        x = self.embedding(ids)
        x, state = self.recurrent(self.dropout(x) if self.config.embedding else x, state)
        return self.output(self.dropout(x)), state

    def start(self, rows: int = 1) -> RecurrentState:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`.
        The model should be in evaluation mode.
        """
        return RecurrentState(self, rows)


class RecurrentState:
    """The DecodingState of a RecurrentLanguageModel. It contains the recurrent layers' state."""

    positions: int | None = None
    suggested_lengths: np.ndarray | None = None

    def __init__(self, model: RecurrentLanguageModel, rows: int):
        self.model, self.rows = model, rows
        self._state: list[State] | None = None

    def step(self, ids: np.ndarray, may_ban: Sequence[int] | None = None) -> Any:
        with no_grad():
            logits, self._state = self.model.outputs(ids, self._state)
        return logits.data[:, -1].copy()

    def select(self, rows: np.ndarray, width: int = 1) -> None:
        self.rows = len(rows)
        if self._state is not None:
            self._state = select_rows(self._state, rows)
