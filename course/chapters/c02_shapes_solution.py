"""What chapter 2 builds: the gradients of what was broadcast, and of a matrix product."""

import numpy as np


def unbroadcast(g, shape):
    """Return the gradient of an operand of the shape `shape` that was broadcast to g.shape."""
    # your turn: Two kinds of axes were copied: those that `shape` does not have, at the front of g; and those where
    # `shape` has a 1. Sum over both. Which of them may disappear?
    missing = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(missing)))
    return g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


def multiply_rule(x, y, g):
    """Return the gradients of x and y from the gradient g of x * y, with broadcasting."""
    # your turn: First each copy's own share, by the rule of chapter 1 for a product; then the sum over the copies.
    return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)


def matmul_rule(x, y, g):
    """Return the gradients of x (..., m, k) and y (..., k, n) from the gradient g (..., m, n) of x @ y."""
    # your turn: For two matrices: which product of g with one of x and y, transposed, has the shape of x? Which has the
    # shape of y? For stacks, transpose the last two axes only, and sum over what was copied.
    return (
        unbroadcast(g @ np.swapaxes(y, -1, -2), x.shape),
        unbroadcast(np.swapaxes(x, -1, -2) @ g, y.shape),
    )
