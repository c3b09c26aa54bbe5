"""Matrix products. Everything is arranged so that NumPy and cuBLAS see few, large, two-dimensional products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..function import Function
from ..tensor import Tensor
from .registry import declare


class MatMul(Function):
    """x @ y for at least two dimensions each; d/dx = g @ y^T, d/dy = x^T @ g, on the last two axes."""

    broadcasts = True  # the leading axes

    def forward(self, x, y):
        self.save(x, y)
        if y.ndim == 2 and x.ndim > 2:
            # NumPy makes one product a matrix of the stack; one over all rows is many times quicker.
            return (x.reshape(-1, x.shape[-1]) @ y).reshape(*x.shape[:-1], y.shape[-1])
        return x @ y

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        gradient_x = gradient_y = None
        if y.ndim == 2 and x.ndim > 2:
            rows = g.reshape(-1, g.shape[-1])
            if needs_x:
                gradient_x = (rows @ y.T).reshape(x.shape)
            if needs_y:
                gradient_y = x.reshape(-1, x.shape[-1]).T @ rows
        else:
            if needs_x:
                gradient_x = g @ y.swapaxes(-1, -2)
            if needs_y:
                gradient_y = x.swapaxes(-1, -2) @ g
        return gradient_x, gradient_y


@declare(np.matmul)
def matmul(x: Any, y: Any) -> Tensor:
    """x @ y: (..., m, k) @ (..., k, n) -> (..., m, n); a 1-d operand is a row on the left, a column on the right.

    Raises ValueError for a 0-d operand or sizes that don't fit.
    """
    x_ndim, y_ndim = np.ndim(x.data if isinstance(x, Tensor) else x), np.ndim(y.data if isinstance(y, Tensor) else y)
    if x_ndim == 1 or y_ndim == 1:
        rows = x if x_ndim != 1 else as_tensor(x).reshape(1, -1)
        columns = y if y_ndim != 1 else as_tensor(y).reshape(-1, 1)
        out = MatMul()(rows, columns)
        shape = out.shape[: -2 if x_ndim == 1 else -1] + (() if y_ndim == 1 else out.shape[-1:])
        return out.reshape(shape)
    return MatMul()(x, y)


def as_tensor(x: Any) -> Tensor:
    """x itself if it is a Tensor, else a Tensor around it."""
    return x if isinstance(x, Tensor) else Tensor(x)


class Linear(Function):
    """x W^T + b for rows x; one matrix product forward and two backward whatever the number of leading axes."""

    def forward(self, x, weight, bias=None):
        self.save(x, weight)
        if x.shape[-1] != weight.shape[1]:
            raise ValueError(f"the input has {x.shape[-1]} features, the weight (out, in) takes {weight.shape[1]}")
        out = x.reshape(-1, x.shape[-1]) @ weight.T
        if bias is not None:
            out += bias
        return out.reshape(*x.shape[:-1], weight.shape[0])

    def backward(self, g):
        x, weight = self.saved
        needs = self.needs
        rows = g.reshape(-1, g.shape[-1])
        gradient_x = (rows @ weight).reshape(x.shape) if needs[0] else None
        gradient_weight = rows.T @ x.reshape(-1, x.shape[-1]) if needs[1] else None
        if len(needs) == 2:
            return gradient_x, gradient_weight
        return gradient_x, gradient_weight, rows.sum(axis=0) if needs[2] else None


def _linear_reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    out = np.einsum("...i,oi->...o", x, weight)
    return out if bias is None else out + bias


@declare(_linear_reference)
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias: x (..., in_features), weight (out_features, in_features), bias (out_features,) or None."""
    return Linear()(x, weight) if bias is None else Linear()(x, weight, bias)
