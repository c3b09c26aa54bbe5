"""The solution of chapter 2: the gradients of broadcast operands and of a matrix product."""

import numpy as np


def unbroadcast(g, shape):
    """Return the gradient of an operand with shape `shape` that was broadcast, from the gradient g of its copies."""
    # your turn: Two kinds of axes were copied: axes at the front of g that are missing in `shape`, and axes of size 1
    # in `shape`. Sum over both kinds. Which kind disappears?
    missing = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(missing)))
    return g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)


def multiply_rule(x, y, g):
    """Return the gradients of x and y from the gradient g of x * y, with broadcasting."""
    # your turn: First compute the share of each copy with the rule of chapter 1 for a product. Then sum over the
    # copies.
    return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)


def matmul_rule(x, y, g):
    """Return the gradients of x (..., m, k) and y (..., k, n) from the gradient g (..., m, n) of x @ y."""
    # your turn: For two matrices: which product of g with the transpose of x or y has the shape of x? Which product has
    # the shape of y? For stacks, transpose the last two axes only, and sum over the copied axes.
    return (
        unbroadcast(g @ np.swapaxes(y, -1, -2), x.shape),
        unbroadcast(np.swapaxes(x, -1, -2) @ g, y.shape),
    )
