"""Hessians and Hessian-vector products of whole functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from handloom.autograd import Tensor, grad, ops
from tests.support.derivatives import five_point


def mlp_loss(parameters: list[Any], x: np.ndarray, target: np.ndarray) -> Any:
    """Linear, layer norm, GELU, linear, cross-entropy with smoothing."""
    w1, b1, scale, shift, w2, b2 = parameters
    hidden = ops.gelu(ops.layer_norm(ops.linear(x, w1, b1), scale, shift))
    return ops.cross_entropy(ops.linear(hidden, w2, b2), target, label_smoothing=0.1)


def problem() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(5, 4), (5,), (5,), (5,), (3, 5), (3,)]
    return [rng.standard_normal(s) for s in shapes], rng.standard_normal((6, 4)), rng.integers(0, 3, 6)


def test_hessian_vector_products_of_a_small_mlp() -> None:
    arrays, x, target = problem()
    rng = np.random.default_rng(1)
    vector = [rng.standard_normal(a.shape) for a in arrays]
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    first = grad(mlp_loss(leaves, x, target), leaves, create_graph=True)
    product = grad(sum((g * v).sum() for g, v in zip(first, vector, strict=True)), leaves)

    for i, found in enumerate(product):
        for index in np.ndindex(found.shape):

            def slope(t: float, i: int = i, index: tuple[int, ...] = index) -> float:
                at = [Tensor(a + t * v, requires_grad=True) for a, v in zip(arrays, vector, strict=True)]
                return float(grad(mlp_loss(at, x, target), at[i]).data[index])

            np.testing.assert_allclose(found.data[index], five_point(slope), rtol=1e-7, atol=1e-9)


def test_the_hessian_of_the_mlp_is_symmetric() -> None:
    arrays, x, target = problem()
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    first = grad(mlp_loss(leaves, x, target), leaves, create_graph=True)
    flat = ops.concatenate([g.flatten() for g in first])
    rows = []
    for i in range(flat.size):
        row = grad(flat[i], leaves, retain_graph=True)
        rows.append(np.concatenate([r.data.ravel() for r in row]))
    hessian = np.array(rows)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10, atol=1e-12)
    assert np.abs(hessian).max() > 0.1


def test_third_derivatives() -> None:
    x = Tensor(np.array([0.3, -0.7]), requires_grad=True)
    y = (ops.tanh(x) * x**2).sum()
    for _ in range(3):
        y = grad(y, x, create_graph=True).sum()

    def f(z: Any) -> Any:
        return np.tanh(z) * z**2

    h = 1e-3
    expected = sum(c * f(x.data + k * h) for k, c in ((-3, 1), (-2, -8), (-1, 13), (1, -13), (2, 8), (3, -1))) / (
        8 * h**3
    )
    np.testing.assert_allclose(y.item(), expected.sum(), rtol=1e-4)  # a third difference has about five digits
