"""Gradients that are no arrays and add themselves to arrays, such as that of a table of which few rows were used."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Array


class SelfAdding:
    """A gradient that is no array. A backward rule can return it in place of an array of `shape` and `dtype`."""

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: Any
    device = "cpu"
    base = None  # as of an array in memory of its own

    def first(self) -> Any:
        """Return the gradient to which others are added, an array or an object of this class."""
        return self

    def plus(self, other: Any, owned: bool) -> Any:
        """Return the sum with another gradient. If `other` is an array and `owned`, the sum may be computed in it."""
        raise NotImplementedError

    def dense(self) -> Array:
        """Return the gradient as an array."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.dense()


class RowGradient(SelfAdding):
    """A gradient of `shape` (rows, features) that is 0 except in the rows `ids`. The ids are sorted and distinct.

    An embedding of some hundred tokens uses at most some hundred of a table's 50,000 rows. To fill, add and read a
    gradient of the table's full size would take longer than the rest of the op. `Tensor.grad` converts row gradients to
    arrays, and the optimisers accept them without conversion.
    """

    __slots__ = ("dtype", "ids", "rows", "shape")

    def __init__(self, ids: Array, rows: Array, shape: tuple[int, ...]):
        self.ids, self.rows, self.shape = ids, rows, shape
        self.dtype = rows.dtype

    def without(self, row: int) -> RowGradient:
        """Return a copy of the gradient in which row `row` is 0."""
        others = self.ids != row
        return RowGradient(self.ids[others], self.rows[others], self.shape)

    def plus(self, other: Any, owned: bool) -> Any:
        if isinstance(other, RowGradient):
            both = np.concatenate([other.ids, self.ids]), np.concatenate([other.rows, self.rows])
            return sum_rows(*both, self.shape)
        total = other if owned else other.copy()
        total[self.ids] += self.rows
        return total

    def dense(self) -> Array:
        array = np.zeros(self.shape, self.dtype)
        array[self.ids] = self.rows
        return array

    def __getitem__(self, rows: slice) -> RowGradient:
        """Return the gradient of some of the table's rows."""
        start, stop, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self.ids, (start, stop))
        return RowGradient(self.ids[first:last] - start, self.rows[first:last], (stop - start, self.shape[1]))


def sum_rows(ids: Array, rows: Array, shape: tuple[int, ...]) -> RowGradient:
    """Sum those of the rows (n, features) that have equal ids (n,). Rows are sorted by id, so no scatter is needed."""
    ids = ids.astype(np.intp, copy=False)  # uint64 and int64 ids of two calls would be joined to floating-point ids
    if not ids.size:
        return RowGradient(ids, rows, shape)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    wide = np.promote_types(rows.dtype, np.float32)
    total = np.add.reduceat(rows[order], starts, axis=0, dtype=wide)
    return RowGradient(ordered[starts], total.astype(rows.dtype, copy=False), shape)


def as_dense(gradient: Any) -> Any:
    """Return a gradient as an array if it is a `SelfAdding`, else unchanged."""
    return gradient.dense() if isinstance(gradient, SelfAdding) else gradient
