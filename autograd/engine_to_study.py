"""Reverse-mode differentiation of NumPy arrays on one page, as an introduction to handloom's engine.

A Value stores its inputs, which are Values, and the rule that computes their gradients from its gradient. `backward`
goes through the values from the newest to the oldest, so that each gradient is complete before its rule is called.
`tensor.py`, `function.py` and `engine.py` do the same, and add dtypes, devices, memory that is freed early, checks,
in-place changes and second derivatives. Tests compare both for each operation and a Transformer layer.

    x, w = Value([[1.0, 2.0]]), Value([[3.0], [4.0]])
    ((x @ w) * 2).sum().backward()
    w.grad                                                  # [[2.0], [4.0]]
"""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import numpy as np

_numbers = itertools.count()  # a value is made after its inputs: its number is larger than theirs


class Value:
    """A float64 array `data`, its gradient `grad` (None before a backward pass), and how it was computed.
    `rule(g)` takes the gradient g of this value and returns the gradients of `inputs`.
    """

    def __init__(self, data: Any, inputs: tuple[Value, ...] = (), rule: Any = lambda g: ()):
        self.data = np.asarray(data, dtype=float)
        self.grad: Any = None
        self.inputs, self.rule, self.number = inputs, rule, next(_numbers)

    def backward(self, gradient: Any = 1.0) -> None:
        """For each value on which self depends, add the derivative of sum(gradient * self) to the value's `grad`."""
        arrived = {self: np.broadcast_to(gradient, self.data.shape)}
        heap = [(-self.number, self)]
        while heap:
            value = heapq.heappop(heap)[1]  # the newest: all that used it have added their gradients
            g = arrived.pop(value)
            value.grad = g if value.grad is None else value.grad + g
            for x, dx in zip(value.inputs, value.rule(g), strict=True):
                if x not in arrived:
                    heapq.heappush(heap, (-x.number, x))
                arrived[x] = arrived.get(x, 0.0) + unbroadcast(dx, x.data.shape)

    def __add__(self, other: Any) -> Value:
        x, y = self, value_of(other)
        return Value(x.data + y.data, (x, y), lambda g: (g, g))

    def __mul__(self, other: Any) -> Value:
        x, y = self, value_of(other)
        return Value(x.data * y.data, (x, y), lambda g: (g * y.data, g * x.data))

    def __sub__(self, other: Any) -> Value:
        return self + value_of(other) * -1.0

    def __pow__(self, p: float) -> Value:
        return Value(self.data**p, (self,), lambda g: (g * p * self.data ** (p - 1),))

    def __matmul__(self, other: Value) -> Value:
        """Return the product of (..., n, k) and (..., k, m); the gradients are dX = G Y^T and dY = X^T G."""
        x, y = self.data, other.data
        return Value(x @ y, (self, other), lambda g: (g @ y.swapaxes(-1, -2), x.swapaxes(-1, -2) @ g))

    def __getitem__(self, index: Any) -> Value:
        """Return the elements that a NumPy index selects. An array of ids selects rows, as in an embedding."""

        def rule(g: np.ndarray) -> tuple[np.ndarray]:
            dx = np.zeros_like(self.data)
            np.add.at(dx, index, g)  # an element that was read n times collects n gradients
            return (dx,)

        return Value(self.data[index], (self,), rule)

    def reshape(self, *shape: int) -> Value:
        return Value(self.data.reshape(shape), (self,), lambda g: (g.reshape(self.data.shape),))

    def transpose(self, *axes: int) -> Value:
        return Value(self.data.transpose(axes), (self,), lambda g: (g.transpose(np.argsort(axes)),))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Value:
        full = self.data.sum(axis=axis, keepdims=True)  # g has as many elements: one for each sum
        rule = lambda g: (np.broadcast_to(g.reshape(full.shape), self.data.shape),)  # noqa: E731
        return Value(self.data.sum(axis=axis, keepdims=keepdims), (self,), rule)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Value:
        total = self.sum(axis, keepdims)
        return total * (total.data.size / self.data.size)


def value_of(x: Any) -> Value:
    return x if isinstance(x, Value) else Value(x)


def unbroadcast(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum the gradient over the axes along which `shape` was broadcast: a number used n times gets n gradients."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    return gradient.sum(axis=tuple(i for i, size in enumerate(shape) if size == 1), keepdims=True)


def relu(x: Value) -> Value:
    return Value(np.maximum(x.data, 0), (x,), lambda g: (g * (x.data > 0),))


def softmax(x: Value) -> Value:
    """Return p_i = exp(x_i) / sum_j exp(x_j) along the last axis; the gradient is dx = p (g - sum_j g_j p_j).

    By the quotient rule, dp_j/dx_i = p_j (1 - p_i) if j = i, and -p_j p_i otherwise. The sum over j of g_j dp_j/dx_i is
    dx_i = p_i g_i - p_i sum_j g_j p_j.
    """
    e = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return Value(p, (x,), lambda g: (p * (g - (g * p).sum(axis=-1, keepdims=True)),))


def cross_entropy(logits: Value, labels: np.ndarray) -> Value:
    """Return the mean of -log softmax(logits)[label] over rows. For y = log softmax(x), dx = g - p sum(g)."""
    y = logits.data - logits.data.max(axis=-1, keepdims=True)
    y = y - np.log(np.exp(y).sum(axis=-1, keepdims=True))
    log_p = Value(y, (logits,), lambda g: (g - np.exp(y) * g.sum(axis=-1, keepdims=True),))
    return log_p[np.arange(len(labels)), labels].mean() * -1.0


def layer_norm(x: Value, weight: Value, bias: Value, eps: float = 1e-5) -> Value:
    """Return (x - mean) / sqrt(variance + eps) weight + bias, with mean and variance along the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred * (variance + eps) ** -0.5 * weight + bias


def attention(q: Value, k: Value, v: Value) -> Value:
    """Return softmax(Q K^T / sqrt(d)) V for q, k, v (batch, heads, length, d).

    If P are the attention weights and G is the gradient of the result, the rules above give dV = P^T G, dP = G V^T,
    dS = P * (dP - rowsum(dP * P)), dQ = dS K / sqrt(d), dK = dS^T Q / sqrt(d).
    """
    return softmax(q @ k.transpose(0, 1, 3, 2) * q.data.shape[-1] ** -0.5) @ v
