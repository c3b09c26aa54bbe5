"""Embedding: rows of a table, chosen by integer ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function, run
from ..origin import Leaf
from ..row_gradient import sum_rows
from ..tensor import Tensor, array_of
from .on_device import EmbeddingOnDevice, runs_kernels
from .registry import declare


class Embedding(Function):
    def __init__(self, ids, padding_id):
        self.ids, self.padding_id = ids, padding_id

    def forward(self, table):
        self.shape = table.shape
        return table[self.ids]

    def backward(self, g):
        if isinstance(g, np.ndarray) and isinstance(self.inputs[0], Leaf):
            gradient = sum_rows(self.ids.reshape(-1), g.reshape((self.ids.size, self.shape[1])), self.shape)
            return gradient if self.padding_id is None else gradient.without(self.padding_id)
        return run(SumRows(self.ids, self.shape, self.padding_id), g)


class SumRows(Function):
    """Zeros (rows, features) with each gradient row added at its id; rows of `padding_id` stay zero."""

    def __init__(self, ids, shape, padding_id):
        self.ids, self.shape, self.padding_id = ids, shape, padding_id

    def forward(self, g):
        out = add_rows(self.ids.reshape(-1), g.reshape((self.ids.size, self.shape[1])), self.shape)
        if self.padding_id is not None:
            out[self.padding_id] = 0
        return out

    def backward(self, g):
        rows = g[self.ids]
        if self.padding_id is None:
            return rows
        return rows * (self.ids != self.padding_id)[..., None].astype(g.dtype)


def add_rows(ids: Array, rows: Array, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with rows[i] added at ids[i]."""
    xp = array_module(rows)
    if xp is np:
        return sum_rows(ids, rows, shape).dense()
    import cupyx

    out = xp.zeros(shape, dtype=rows.dtype)
    cupyx.scatter_add(out, ids, rows)
    return out


@declare(lambda ids, table, padding_id=None: np.take(table, ids, axis=0))
def embedding(ids: Any, table: Any, padding_id: int | None = None) -> Tensor:
    """table[ids], (*ids.shape, features): ids of any integer shape, on the host or the device, table (rows, features).

    The row `padding_id`, counted from the end if negative, gets no gradient. Raises IndexError for an id outside
    0 <= id < rows, TypeError for ids that are not integers; ids on a device give NaN instead.
    """
    ids = ids.data if isinstance(ids, Tensor) else ids
    if len(table.shape) != 2:
        raise ValueError(f"embedding: the table must be (rows, features), not of shape {table.shape}")
    if array_module(ids) is np:
        ids = np.array(ids)  # a copy: the caller may fill the batch's buffer anew before the backward pass
        if ids.dtype.kind not in "iu":
            raise TypeError(f"embedding: ids must be integers, not {ids.dtype}")
        if ids.size and (ids.min() < 0 or ids.max() >= table.shape[0]):
            wrong = ids[(ids < 0) | (ids >= table.shape[0])].flat[0]
            raise IndexError(f"embedding: id {wrong} is outside the table of {table.shape[0]} rows")
    if padding_id is not None and padding_id < 0:
        padding_id += table.shape[0]  # the derivative of the gradient compares it with the ids
    ids = array_module(array_of(table)).asarray(ids)
    if runs_kernels(array_of(table)) and array_of(table).size:
        composed = lambda *tensors: Embedding(ids, padding_id)(*tensors)  # noqa: E731
        return EmbeddingOnDevice(ids, padding_id, composed)(table)
    return Embedding(ids, padding_id)(table)

