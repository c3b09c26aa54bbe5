"""Embedding: rows of a table, chosen by integer ids."""

from typing import Any

import numpy as np

from ..arguments import integers
from ..backend import array_module, as_array
from ..function import Function, run
from ..tensor import Tensor, array_of
from .indexing import PutInZeros
from .registry import declare, dispatch


class Embedding(Function):
    """y = s table[ids]. Row i of the table's gradient is the sum of those rows of s g whose id is i; 0 for padding."""

    def __init__(self, ids, padding_id, scale):
        self.ids, self.padding_id, self.scale = ids, padding_id, scale

    def forward(self, table):
        self.shape = table.shape
        return self.scaled(table[self.ids])

    def scaled(self, rows):
        return rows if self.scale == 1.0 else rows * self.scale

    def backward(self, g):
        g = self.scaled(g)
        if self.padding_id is not None:
            g = array_module(g).where((self.ids != self.padding_id)[..., None], g, g.dtype.type(0))
        return run(PutInZeros(self.ids, self.shape), g)


@declare(lambda ids, table, padding_id=None, scale=1.0: np.take(table, ids, axis=0) * scale)
def embedding(ids: Any, table: Any, padding_id: int | None = None, scale: float = 1.0) -> Tensor:
    """Return scale * table[ids], (*ids.shape, features), for a table (rows, features).

    `ids` are integers in any shape, on the host or the device. The gradient of the row `padding_id` (counted from the
    end if negative) is 0. Raises IndexError unless 0 <= id < rows; the CUDA kernels return NaN for an id out of range
    instead. Raises IndexError for a padding_id outside the table, TypeError for ids that are not integers, and
    ValueError for a table that is not two-dimensional.
    """
    ids = integers("embedding: ids", ids)
    table = table if hasattr(table, "shape") else as_array(table, "embedding: table")
    if len(table.shape) != 2:
        raise ValueError(f"embedding: the table must have the shape (rows, features), not {table.shape}")
    if array_module(ids) is np:
        ids = np.array(ids)  # a copy: the caller may reuse the batch's buffer before the backward pass
        if ids.size and (ids.min() < 0 or ids.max() >= table.shape[0]):
            wrong = ids[(ids < 0) | (ids >= table.shape[0])].flat[0]
            raise IndexError(f"embedding: id {wrong} is outside the table of {table.shape[0]} rows")
    if padding_id is not None:
        if not -table.shape[0] <= padding_id < table.shape[0]:
            raise IndexError(f"embedding: padding_id {padding_id} is outside the table of {table.shape[0]} rows")
        padding_id %= table.shape[0]  # the backward rule compares it with the ids
    ids = array_module(array_of(table)).asarray(ids)
    return dispatch(Embedding, (table,), ids=ids, padding_id=padding_id, scale=scale)
