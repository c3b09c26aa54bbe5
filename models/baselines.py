"""Baselines for language models: uniform, bigram, n-gram and recurrent."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np

from ..autograd import Tensor, no_grad
from ..autograd.ops.indexing import integers
from ..nn import GRU, LSTM, RNN, Dropout, Embedding, Linear, Module, init
from ..nn.recurrent import Recurrent, State, select_rows
from .fields import Choices, Count, Depth, Fraction, Size, check_fields
from .generation import Uncached
from .generation.decoding import last_logits
from .generation.raw_layers import cacheable

RECURRENT_LAYERS: dict[str, type[Recurrent]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


def token_ids(ids: Any, vocab_size: int) -> np.ndarray:
    """Return `ids` as int64. Raises TypeError for other numbers than integers, IndexError for an id out of range."""
    ids = integers("ids", ids).astype(np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise IndexError(f"ids from {ids.min()} to {ids.max()} are not all in the vocabulary of {vocab_size} tokens")
    return ids


class RandomLanguageModel(Module):
    """A model that gives the same probability to all tokens except the ids below `special`. Its loss is log(vocab_size
    - special) nats per token. The logits contain random noise below 1e-6, so that the most probable token is random.
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
        return Uncached(lambda ids, _: last_logits(self(ids[:, -1:])), rows)


class BigramLanguageModel(Module):
    """A model that predicts the next token from the previous token alone. Row i of `logits.weight` (vocab_size,
    vocab_size) contains the logits of the tokens that follow token i.
    """

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size
        self.logits = Embedding(vocab_size, vocab_size)

    def fit(self, ids: Any, smoothing: float = 0.1) -> Self:
        """Set the logits from the counts of adjacent pairs in `ids` (n,), each increased by `smoothing`.

        Gradient descent would converge to the same logits, but it needs many passes over the data. Raises ValueError
        unless smoothing > 0, and as `token_ids` does.
        """
        if not smoothing > 0:
            raise ValueError(f"smoothing {smoothing} must be above 0, because some pairs may not occur in the data")
        ids = token_ids(ids, self.vocab_size)
        pairs = np.bincount(ids[:-1] * self.vocab_size + ids[1:], minlength=self.vocab_size**2)
        counts = pairs.reshape(self.vocab_size, self.vocab_size) + smoothing
        self.logits.weight.data[...] = np.log(counts / counts.sum(axis=1, keepdims=True))
        self.logits.weight.mark_changed()
        return self

    def forward(self, ids: Any) -> Tensor:
        return self.logits(ids)

    def start(self, rows: int = 1) -> Uncached:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`."""
        return Uncached(lambda ids, _: last_logits(self(ids[:, -1:])), rows)


class NGramLanguageModel(Module):
    """A model that predicts the next token from the `order - 1` tokens before it, by interpolated Witten-Bell
    smoothing (Witten & Bell 1991, IEEE Transactions on Information Theory 37(4), method C).

    c(h, w) is how often token w follows the context h in the text, c(h) is the sum over w, and t(h) is the number of
    distinct tokens that follow h. h' is h without its first token:

        p(w | h) = (c(h, w) + t(h) p(w | h')) / (c(h) + t(h))

    The recursion ends with the uniform distribution. A context that does not occur has the distribution of h'.
    """

    def __init__(self, vocab_size: int, order: int):
        if not 1 <= order <= (largest := int(62 / math.log2(vocab_size))):
            raise ValueError(f"order {order} must be from 1 to {largest} with {vocab_size} tokens")
        self.vocab_size, self.order = vocab_size, order

    def parameter_count(self) -> int:
        """Return the number of distinct n-grams of all lengths up to `order`."""
        return sum(len(counts) for *_, counts in self._counts)

    def fit(self, ids: Any) -> Self:
        """Count the n-grams of `ids` (n,). Raises as `token_ids` does, like `forward`."""
        ids = token_ids(ids, self.vocab_size)
        self._counts = [self._count(ids, length) for length in range(min(self.order, len(ids)))]
        return self

    def _count(self, ids: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
        """Return the contexts of `length` tokens, sorted, and c(h) + t(h) of each; where the tokens that follow each
        context begin; these tokens and their counts.
        """
        grams, counts = np.unique(self._codes(ids, length + 1), return_counts=True)
        contexts, starts = np.unique(grams // self.vocab_size, return_index=True)
        starts = np.append(starts, len(grams))
        totals = np.add.reduceat(counts, starts[:-1]) + np.diff(starts)
        return contexts, totals, starts, grams % self.vocab_size, counts

    def _codes(self, ids: np.ndarray, length: int) -> np.ndarray:
        """Return the number of each sequence of `length` tokens along the last axis of `ids` (..., n): the numbers of
        the sequences that end before position length, length + 1, ..., n; the shape is (..., n + 1 - length).
        """
        codes = np.zeros((*ids.shape[:-1], max(ids.shape[-1] + 1 - length, 0)), np.int64)
        for i in range(length):
            codes = codes * self.vocab_size + ids[..., i : i + codes.shape[-1]]
        return codes

    def forward(self, ids: Any) -> Tensor:
        """Return the log-probabilities (..., n, vocab_size) of the tokens after each of `ids` (..., n)."""
        ids = token_ids(ids, self.vocab_size)
        p = np.full((*ids.shape, self.vocab_size), 1 / self.vocab_size)
        for length, (contexts, totals, starts, following, counts) in enumerate(self._counts):
            known = p[..., max(length - 1, 0) :, :]  # the first positions have fewer tokens before them
            codes = self._codes(ids, length)[..., (length == 0) :]
            row = np.minimum(np.searchsorted(contexts, codes), len(contexts) - 1)
            where = np.nonzero(contexts[row] == codes)
            first, last = starts[row[where]], starts[row[where] + 1]
            distinct, total = last - first, totals[row[where]]
            known[where] *= (distinct / total)[:, None]
            entries = np.repeat(first - np.cumsum(distinct) + distinct, distinct) + np.arange(distinct.sum())
            places = tuple(np.repeat(axis, distinct) for axis in where)
            known[(*places, following[entries])] += counts[entries] / np.repeat(total, distinct)
        return Tensor(np.log(p))

    def start(self, rows: int = 1) -> Uncached:
        """Return a DecodingState for generating `rows` sequences; see `models.generation`."""
        return Uncached(lambda ids, _: last_logits(self(ids[:, -self.order :])), rows)


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The configuration of a RecurrentLanguageModel; `kind` is "rnn", "lstm" or "gru".

    If `embedding` is false, the input of the first layer is one-hot tokens. The product with a one-hot token is one row
    of the input weights, to which the input biases are already added. Raises ValueError for an invalid value; see
    `fields`.
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

    def start(self, rows: int = 1) -> "RecurrentState | Uncached":
        """Return a DecodingState for generating `rows` sequences; see `models.generation`.
        The model should be in evaluation mode. If it has layers of its own, each step calls it with all tokens so far.
        """
        return RecurrentState(self, rows) if cacheable(self) else Uncached(lambda ids, _: last_logits(self(ids)), rows)


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
