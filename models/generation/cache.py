"""A cache of keys and values that all sequences of a sentence share.

The sequences of a beam share most of their earlier tokens. So the cache of a sentence is a tree. Each token fed is a
node; its key and value are written once and never moved. For each sequence, a row of booleans marks the sequence's
nodes. To reorder the beam, only these rows are reordered. All sequences of a sentence attend to all nodes of the
sentence in one matrix product; the nodes of other sequences get a score of -inf, or are skipped in `few_queries`. Nodes
that no sequence needs any more are removed from time to time.
"""

from typing import Any

import numpy as np

from ...autograd.backend import array_module

INITIAL_CAPACITY = 64  # nodes


class TreeCache:
    """The keys and values of all self-attention layers, for sentences of `width` sequences and `length` nodes."""

    def __init__(self, layers: int, sentences: int, heads: int, head_dim: int, dtype: Any, xp: Any):
        self.xp, self.sentences, self.width, self.length = xp, sentences, 1, 0
        shape = (sentences, heads, INITIAL_CAPACITY, head_dim)
        self.keys = [xp.empty(shape, dtype) for _ in range(layers)]  # (sentences or more, heads, capacity, head_dim)
        self.values = [xp.empty(shape, dtype) for _ in range(layers)]
        # Marks each sequence's nodes, (sentences, width, length); None: every sequence contains all nodes.
        self.allowed: np.ndarray | None = None
        self.positions = np.empty((sentences, 0), np.int64)  # of each node in its sequence, (sentences, length)
        self._sweep_at = INITIAL_CAPACITY  # nodes; twice the number that the last sweep left

    def append(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        """Write keys and values (sentences, heads, new, head_dim) of new nodes; return the layer's whole cache."""
        keys, values = self.keys[layer][: self.sentences], self.values[layer][: self.sentences]
        first = self.length - key.shape[2]
        keys[:, :, first : self.length], values[:, :, first : self.length] = key, value
        return keys[:, :, : self.length], values[:, :, : self.length]

    def extend(self, position: int, new: int = 1) -> None:
        """Add nodes to each sentence: one at `position` for each of its sequences, or `new` ones from `position` on."""
        nodes = self.width * new
        if self.length >= self._sweep_at:
            self._sweep()
            self._sweep_at = max(2 * self.length, INITIAL_CAPACITY)
        self._grow(self.length + nodes)
        if self.allowed is not None:
            own = np.broadcast_to(np.eye(self.width, dtype=bool), (self.sentences, self.width, self.width))
            self.allowed = np.concatenate([self.allowed, own], axis=2)
        positions = np.repeat(np.arange(position, position + new), self.width)
        self.positions = np.concatenate([self.positions, np.broadcast_to(positions, (self.sentences, nodes))], axis=1)
        self.length += nodes

    def distances(self, position: int, new: int) -> np.ndarray:
        """Return the position of each node minus that of each new token, (sentences or 1, new or 1, length)."""
        positions = self.positions if self.allowed is not None else self.positions[:1]
        queries = np.arange(position, position + (1 if self.width > 1 else new))
        return positions[:, None] - queries[:, None]

    def bias(self, dtype: Any) -> Any:
        """Return the bias of the scores, or None if no bias is needed.
        It is 0 for the sequence's nodes and -inf for other nodes, (sentences, heads, width, length).
        """
        if self.allowed is None:
            return None
        zero, minus = np.zeros((), dtype), np.array(-np.inf, dtype)
        return self.xp.asarray(np.where(self.allowed, zero, minus)[:, None])

    def select(self, rows: np.ndarray, width: int) -> np.ndarray:
        """Keep the sequences `rows`, and return the sentences that are kept. See DecodingState.select."""
        sentences, parents = np.divmod(rows.reshape(-1, width), self.width)
        if (sentences != sentences[:, :1]).any():
            raise ValueError(f"sequences of different sentences can't be in one group of {width}")
        sentences = sentences[:, 0]
        self.positions = self.positions[sentences]
        if self.allowed is not None:
            self.allowed = self.allowed[sentences[:, None], parents]
        elif width > 1:
            self.allowed = np.ones((len(sentences), width, self.length), bool)
        self.keys = keep_rows(self.keys, sentences, self.length)
        self.values = keep_rows(self.values, sentences, self.length)
        self.sentences, self.width = len(sentences), width
        if width > 1 and self.length < INITIAL_CAPACITY:
            self._grow(self.length + width * INITIAL_CAPACITY)  # before there is much to copy
        return sentences

    def _sweep(self) -> None:
        """Remove the nodes that no open sequence contains, if there are many."""
        if self.allowed is None:
            return
        living = self.allowed.any(axis=1)
        length = int(living.sum(axis=1).max(initial=0))
        if length > self.length * 3 // 4:
            return
        # The nodes in use come first, in their old order; sentences with fewer of them keep some unused ones.
        order = np.argsort(~living, axis=1, kind="stable")[:, :length]
        self.allowed = np.take_along_axis(self.allowed, order[:, None], axis=2)
        self.positions = np.take_along_axis(self.positions, order, axis=1)
        sentences, kept = self.xp.arange(self.sentences)[:, None], self.xp.asarray(order)
        for array in (*self.keys, *self.values):
            array[: self.sentences, :, :length] = array[sentences, :, kept].swapaxes(1, 2)
        self.length = length

    def _grow(self, needed: int) -> None:
        """Allocate memory for `needed` nodes; if the current memory is too small, at least double it."""
        capacity = self.keys[0].shape[2]
        if needed <= capacity:
            return
        for arrays in (self.keys, self.values):
            for layer, array in enumerate(arrays):
                _, heads, _, head_dim = array.shape
                arrays[layer] = self.xp.empty((self.sentences, heads, max(needed, 2 * capacity), head_dim), array.dtype)
                arrays[layer][:, :, : self.length] = array[: self.sentences, :, : self.length]


def keep_rows(arrays: list[Any], rows: np.ndarray, length: int) -> list[Any]:
    """Select the rows `rows`, in this order, from arrays (n, heads, capacity, head_dim). Only the first `length` nodes
    are copied, of rows whose index changes. An array with enough rows is reused, and can have more than selected.
    """
    if not arrays:
        return arrays
    xp = array_module(arrays[0])
    if len(rows) > len(arrays[0]):
        return [array[xp.asarray(rows)] for array in arrays]
    moved = np.flatnonzero(rows != np.arange(len(rows)))
    if len(moved):
        to, come_from = xp.asarray(moved), xp.asarray(rows[moved])
        for array in arrays:
            array[to, :, :length] = array[come_from, :, :length]
    return arrays
