"""Chapter 2, the exercises: sums over broadcast axes, the rule of a product with broadcasting, the rule of a matrix
product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...autograd.function import unbroadcast as real_unbroadcast
from ..exercise import Exercise, Wrong, need
from .c02_shapes_solution import matmul_rule, multiply_rule, unbroadcast


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.uniform(0.5, 2.0, shape) for shape in shapes]


def two(gradients: Any, what: str) -> tuple[Any, Any]:
    """Return the two gradients in `gradients`, the result of a rule, or raise Wrong."""
    if isinstance(gradients, np.ndarray):
        raise Wrong(f"{what} returned one array instead of two gradients. Write: return of_x, of_y.")
    if len(need(gradients, (tuple, list), what)) != 2:
        raise Wrong(f"{what} returned {len(gradients)} values instead of two, the gradients of x and y.")
    return gradients[0], gradients[1]


def by_the_engine(op: Any) -> Any:
    def rule(x: np.ndarray, y: np.ndarray, g: np.ndarray) -> tuple[Any, Any]:
        tensors = [Tensor(array, requires_grad=True) for array in (x, y)]
        op(*tensors).backward(g)
        return tensors[0].grad, tensors[1].grad

    return rule


# -- unbroadcast -------------------------------------------------------------------------------------------------------


def probe_unbroadcast(unbroadcast: Any) -> dict[str, Any]:
    cases = [
        ((3,), (4, 3)),
        ((3,), (3, 3)),
        ((4, 1), (4, 3)),
        ((2, 1, 3), (2, 4, 3)),
        ((5, 1), (2, 5, 3)),
        ((), (4, 3)),
        ((4, 3), (4, 3)),
    ]
    return {
        f"the gradient of {shape}, broadcast to {full}": unbroadcast(*numbers(full), shape) for shape, full in cases
    }


UNBROADCAST = Exercise(
    unbroadcast,
    probe_unbroadcast,
    real_unbroadcast,
    source="autograd.function.unbroadcast",
    hints=(
        "The shape (5, 1) was broadcast to (2, 5, 3). Write them below each other, lined up at the right. Which "
        "axes of g are copies, and which of these does the operand itself have?",
        "Axis 0, of size 2, is missing in the operand: it is summed and disappears. Axis 2 has size 1 there: it is "
        "summed and stays, with size 1.",
        "g = g.sum(axis=tuple(range(g.ndim - len(shape)))) makes the number of axes equal (an empty tuple sums over "
        "nothing). Then g.sum(axis=tuple(i for i, size in enumerate(shape) if size == 1), keepdims=True).",
    ),
    changes="""
        It is right to sum the axes that the operand does not have. But an axis of size 1 was copied as well, as from
        (4, 1) to (4, 3), and must be summed too.
        - g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
        + g
        reshape only rearranges numbers and keeps their count, so it can't turn (4, 3) into (4, 1). The axis of size 1
        was copied too, so it must be summed.
        - g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
        + g.reshape(shape)
        It is right to sum the axes of size 1. But the operand can have fewer axes than g; the axes at the front of g
        that the operand does not have must be summed too.
        - g = g.sum(axis=tuple(range(missing)))
        + pass
        - axis for axis
        + missing + axis for axis
        The sums are right, but an axis of size 1 belongs to the operand, so its gradient needs that axis too: use
        keepdims=True in this sum.
        - , keepdims=True
        +
        The sums are right, but the axes that the operand never had are still there, with size 1. Sum them without
        keepdims.
        - g = g.sum(axis=tuple(range(missing)))
        + shape = (1,) * missing + tuple(shape)
        This is the mean over the copies. It should be the sum, because shares add up (chapter 1, two ways).
        - .sum(
        + .mean(
        This takes only the share of the first copy. Each copy has a share, and the shares add up.
        - g.sum(axis=tuple(range(missing)))
        + g[(0,) * missing]
        - g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True)
        + g[tuple(slice(0, 1) if size == 1 else slice(None) for size in shape)]
        Shapes are lined up at the right: for (3,) and (3, 3) it is axis 0 that was missing, not axis 1.
        - range(missing)
        + range(len(shape), g.ndim)
    """,
)


@UNBROADCAST.right
def axis_by_axis(g, shape):
    while g.ndim > len(shape):
        g = g[0] if len(g) == 1 else sum(g[1:], g[0])
    for axis, size in enumerate(shape):
        if g.shape[axis] != size:
            g = np.add.reduce(g, axis=axis, keepdims=True)
    return g


# -- multiply_rule -----------------------------------------------------------------------------------------------------


def probe_multiply_rule(multiply_rule: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for x_shape, y_shape in (((4, 3), (4, 3)), ((4, 3), (3,)), ((4, 1), (2, 1, 3))):
        x, y, g = numbers(x_shape, y_shape, np.broadcast_shapes(x_shape, y_shape))
        d_x, d_y = two(multiply_rule(x, y, g), "multiply_rule(x, y, g)")
        where = f"for x {x_shape} and y {y_shape}"
        found |= {f"the gradient of x {where}": d_x, f"the gradient of y {where}": d_y}
    return found


MULTIPLY_RULE = Exercise(
    multiply_rule,
    probe_multiply_rule,
    by_the_engine(ops.multiply),
    source="autograd.ops.elementwise.Multiply.backward",
    hints=(
        "What is the rule of chapter 1 for a product, and which shape does each of its two results have here?",
        "With x of shape (3,) and y of shape (2, 3) both products have 6 numbers. x has 3: each is the sum of 2 of "
        "them.",
        "return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)",
    ),
    changes="""
        The factors are exchanged: x * y grows y times as fast as x, so the gradient of x contains the factor y.
        - unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)
        + unbroadcast(g * x, x.shape), unbroadcast(g * y, y.shape)
        This is right where the shapes are equal. Otherwise each gradient has the shape of the product here instead of
        the shape of its operand: sum each gradient over the copies.
        - unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)
        + g * y, g * x
        This sums too early: it multiplies the sum of g by the sum of the other factor. Each copy has its own share g *
        y, so compute the products first and the sum afterwards.
        - unbroadcast(g * y, x.shape)
        + unbroadcast(g, x.shape) * unbroadcast(np.broadcast_to(y, g.shape), x.shape)
        - unbroadcast(g * x, y.shape)
        + unbroadcast(g, y.shape) * unbroadcast(np.broadcast_to(x, g.shape), y.shape)
        g is summed before it is multiplied. Each copy has its own share, so the sum comes last: unbroadcast(g * ...,
        shape).
        - unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)
        + unbroadcast(g, x.shape) * y, unbroadcast(g, y.shape) * x
        The factors are right, but g is missing: a share is g times the other factor.
        - g * y
        + np.broadcast_to(y, g.shape)
        - g * x
        + np.broadcast_to(x, g.shape)
    """,
)


@MULTIPLY_RULE.right
def copy_by_copy(x, y, g):
    d_x, d_y = np.zeros(x.shape), np.zeros(y.shape)
    at_x, at_y = (
        np.broadcast_to(np.arange(array.size).reshape(array.shape), g.shape) for array in (x, y)
    )  # shows the place of each element
    for place in np.ndindex(g.shape):
        i, j = at_x[place], at_y[place]
        d_x.reshape(-1)[i] += g[place] * y.reshape(-1)[j]
        d_y.reshape(-1)[j] += g[place] * x.reshape(-1)[i]
    return d_x, d_y


# -- matmul_rule -------------------------------------------------------------------------------------------------------


def probe_matmul_rule(matmul_rule: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for x_shape, y_shape in (((3, 3), (3, 3)), ((2, 3), (3, 4)), ((5, 3, 3), (5, 3, 3)), ((5, 2, 3), (3, 4))):
        x, y = numbers(x_shape, y_shape)
        d_x, d_y = two(matmul_rule(x, y, *numbers((x @ y).shape)), "matmul_rule(x, y, g)")
        where = f"for x {x_shape} and y {y_shape}"
        found |= {f"the gradient of x {where}": d_x, f"the gradient of y {where}": d_y}
    return found


MATMUL_RULE = Exercise(
    matmul_rule,
    probe_matmul_rule,
    by_the_engine(ops.matmul),
    source="autograd.ops.linalg.MatMul.backward",
    hints=(
        "Take x of the shape (2, 3) and y of the shape (3, 4), so g has (2, 4). Which product of g and y, one of "
        "them transposed, has the shape (2, 3)?",
        "(2, 4) times (4, 3) is (2, 3): the gradient of x is g yᵀ. And (3, 2) times (2, 4) is (3, 4): the gradient of "
        "y is xᵀ g.",
        "unbroadcast(g @ np.swapaxes(y, -1, -2), x.shape) is the gradient of x; unbroadcast does nothing where the "
        "shapes are equal already. In that of y, x comes first and is transposed.",
    ),
    changes="""
        Nothing is transposed here. With 3 x 3 matrices the shapes fit all the same, but the sum runs over the wrong
        index: it is row i of g times *row* p of y.
        - np.swapaxes(y, -1, -2)
        + y
        - np.swapaxes(x, -1, -2)
        + x
        The factors are transposed correctly, but they are on the wrong side: the gradient of x is g yᵀ, and the
        gradient of y is xᵀ g. Try the shapes (2, 3) and (3, 4).
        - g @ np.swapaxes(y, -1, -2)
        + np.swapaxes(y, -1, -2) @ g
        - np.swapaxes(x, -1, -2) @ g
        + g @ np.swapaxes(x, -1, -2)
        This is right for two matrices. For a stack of matrices, .T reverses all axes, including the batch axis:
        exchange only the last two, with swapaxes(-1, -2).
        - np.swapaxes(y, -1, -2)
        + y.T
        - np.swapaxes(x, -1, -2)
        + x.T
        This is right where nothing was copied. A matrix y that is multiplied with a whole stack x gets one gradient for
        each matrix of the stack here; sum these gradients with `unbroadcast`.
        - unbroadcast(g @ np.swapaxes(y, -1, -2), x.shape)
        + g @ np.swapaxes(y, -1, -2)
        - unbroadcast(np.swapaxes(x, -1, -2) @ g, y.shape)
        + np.swapaxes(x, -1, -2) @ g
        This is the rule of x * y, element by element. In x @ y each number goes into a whole row or column.
        - unbroadcast(g @ np.swapaxes(y, -1, -2), x.shape)
        + g * y
        - unbroadcast(np.swapaxes(x, -1, -2) @ g, y.shape)
        + g * x
    """,
)


@MATMUL_RULE.right
def by_einsum(x, y, g):
    d_x, d_y = np.einsum("...mn,...kn->...mk", g, y), np.einsum("...mk,...mn->...kn", x, g)
    return axis_by_axis(d_x, x.shape), axis_by_axis(d_y, y.shape)
