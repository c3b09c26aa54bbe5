"""Chapter 2, the exercises: sums over broadcast axes, the rule of a product with broadcasting, the rule of a matrix
product.
"""

from typing import Any

import numpy as np

from ...autograd import Tensor, ops, sums
from ..exercise import Wrong, need


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


real_unbroadcast = sums.unbroadcast


def probe_multiply_rule(multiply_rule: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for x_shape, y_shape in (((4, 3), (4, 3)), ((4, 3), (3,)), ((4, 1), (2, 1, 3))):
        x, y, g = numbers(x_shape, y_shape, np.broadcast_shapes(x_shape, y_shape))
        d_x, d_y = two(multiply_rule(x, y, g), "multiply_rule(x, y, g)")
        where = f"for x {x_shape} and y {y_shape}"
        found |= {f"the gradient of x {where}": d_x, f"the gradient of y {where}": d_y}
    return found


real_multiply_rule = by_the_engine(ops.multiply)


def probe_matmul_rule(matmul_rule: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for x_shape, y_shape in (((3, 3), (3, 3)), ((2, 3), (3, 4)), ((5, 3, 3), (5, 3, 3)), ((5, 2, 3), (3, 4))):
        x, y = numbers(x_shape, y_shape)
        d_x, d_y = two(matmul_rule(x, y, *numbers((x @ y).shape)), "matmul_rule(x, y, g)")
        where = f"for x {x_shape} and y {y_shape}"
        found |= {f"the gradient of x {where}": d_x, f"the gradient of y {where}": d_y}
    return found


real_matmul_rule = by_the_engine(ops.matmul)
