"""A second, very simple engine: each value has its dense Jacobians by all values on which it depends.

Forward mode, with one matrix for each variable; it shares nothing with handloom's engine, which is tested against it on
random graphs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

_numbers = itertools.count()


class Naive:
    """An array, and d(its flat elements)/d(the flat elements of v) for itself and each v on which it depends."""

    def __init__(self, array: np.ndarray, jacobians: dict[int, np.ndarray]):
        self.number = next(_numbers)
        self.array = array
        self.jacobians = {**jacobians, self.number: np.eye(array.size)}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def gradient(self, variable: Naive, v: np.ndarray) -> np.ndarray:
        """v contracted with d(self)/d(variable)."""
        jacobian = self.jacobians.get(variable.number)
        return np.zeros(variable.shape) if jacobian is None else (v.ravel() @ jacobian).reshape(variable.shape)


def combine(array: np.ndarray, parts: list[tuple[Naive, np.ndarray]]) -> Naive:
    """A value computed from others, with its local Jacobian by each."""
    jacobians: dict[int, np.ndarray] = {}
    for part, local in parts:
        for number, jacobian in part.jacobians.items():
            jacobians[number] = jacobians.get(number, 0.0) + local @ jacobian
    return Naive(array, jacobians)


def elementwise(function: Callable, slopes: list[Callable], *parts: Naive) -> Naive:
    """function(x, y, ...) with broadcasting; slopes[i](x, y, ...) is the derivative by part i."""
    arrays = np.broadcast_arrays(*(part.array for part in parts))
    out = function(*arrays)
    locals_ = []
    for part, slope in zip(parts, slopes, strict=True):
        # where[j] is the index of the element of the part that is broadcast to element j of the result.
        where = np.broadcast_to(np.arange(part.array.size).reshape(part.shape), out.shape).ravel()
        local = np.zeros((out.size, part.array.size))
        local[np.arange(out.size), where] = np.broadcast_to(slope(*arrays), out.shape).ravel()
        locals_.append((part, local))
    return combine(out, locals_)


def linear(function: Callable, part: Naive) -> Naive:
    """A linear function of one value; its Jacobian is computed by applying it to unit vectors."""
    units = np.eye(part.array.size).reshape(part.array.size, *part.shape)
    columns = [np.ravel(function(unit)) for unit in units]
    out = np.asarray(function(part.array))
    return combine(out, [(part, np.array(columns).reshape(len(columns), out.size).T)])


def bilinear(function: Callable, x: Naive, y: Naive) -> Naive:
    """A function that is linear in each of two values."""
    out = np.asarray(function(x.array, y.array))
    by_x = np.array([np.ravel(function(u, y.array)) for u in np.eye(x.array.size).reshape(-1, *x.shape)])
    by_y = np.array([np.ravel(function(x.array, u)) for u in np.eye(y.array.size).reshape(-1, *y.shape)])
    return combine(out, [(x, by_x.T), (y, by_y.T)])
