"""Derivatives of derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops
from tests.support.derivatives import leaf


def test_derivatives_of_every_order() -> None:
    x = leaf(0.7)
    y = ops.sin(x) * ops.exp(x)
    expected = [np.sqrt(2) ** n * np.exp(0.7) * np.sin(0.7 + n * np.pi / 4) for n in range(1, 7)]
    for value in expected:
        (y,) = grad(y, [x], create_graph=True)
        assert y.item() == pytest.approx(value, rel=1e-12)


def test_derivatives_of_single_numbers_keep_their_graph() -> None:
    """NumPy answers with scalars instead of 0-d arrays: a saved output must still be recognised."""
    x = leaf(0.3)
    (first,) = grad(ops.exp(x), [x], create_graph=True)
    assert grad(first, x).item() == pytest.approx(np.exp(0.3))
    (first,) = grad(ops.tanh(x), [x], create_graph=True)
    assert grad(first, x).item() == pytest.approx(-2 * np.tanh(0.3) / np.cosh(0.3) ** 2)


def test_a_detached_factor_stays_constant() -> None:
    x = leaf(1.3)
    (first,) = grad(x.detach() * x * x, [x], create_graph=True)
    assert grad(first, x).item() == pytest.approx(2 * 1.3)


def mlp(parameters, x, target):
    w1, b1, w2, b2 = parameters
    hidden = ops.gelu(ops.linear(x, w1, b1))
    return ops.cross_entropy(ops.linear(ops.layer_norm(hidden, b1, b1), w2, b2), target, label_smoothing=0.1)


def test_hessian_vector_products_of_an_mlp() -> None:
    """d/dt grad(loss at p + t v) at 0 by differences, and by differentiating grad . v."""
    rng = np.random.default_rng(0)
    shapes = [(6, 4), (6,), (3, 6), (3,)]
    parameters = [leaf(rng.normal(size=shape)) for shape in shapes]
    vectors = [rng.normal(size=shape) for shape in shapes]
    x, target = rng.normal(size=(5, 4)), np.array([0, 2, 1, 1, 0])
    gradients = grad(mlp(parameters, x, target), parameters, create_graph=True)
    dotted = sum((g * v).sum() for g, v in zip(gradients, vectors, strict=True))
    products = grad(dotted, parameters)

    def gradient_at(t):
        moved = [leaf(p.data + t * v) for p, v in zip(parameters, vectors, strict=True)]
        return [g.data for g in grad(mlp(moved, x, target), moved)]

    h = 1e-3
    stencil = [(gradient_at(k * h), gradient_at(-k * h)) for k in (1, 2)]
    for place, product in enumerate(products):
        near, far = ((up[place] - down[place]) for up, down in stencil)
        np.testing.assert_allclose(product.data, (8 * near - far) / (12 * h), rtol=1e-7, atol=1e-9)


def test_backward_on_a_gradient_penalty() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (gx,) = grad((w * x * x).sum(), [x], create_graph=True)  # 2 w x
    (gx * gx).sum().backward()
    np.testing.assert_allclose(w.grad, 8 * w.data * x.data**2)
    np.testing.assert_allclose(x.grad, 8 * w.data**2 * x.data)


def test_the_output_gradient_may_be_differentiated() -> None:
    """The double backward trick: the gradient is linear in v, and its derivative by v is forward mode."""
    x, v = leaf([0.2, 0.5]), leaf([1.0, 1.0])
    y = ops.exp(x)
    (gx,) = grad(y, [x], v, create_graph=True)
    np.testing.assert_allclose(grad(gx, v, np.array([3.0, 4.0])).data, y.data * [3.0, 4.0])


def test_an_output_gradient_of_another_dtype_keeps_its_graph() -> None:
    x, v = leaf([0.2, 0.5]), Tensor(np.ones(2, np.float32), requires_grad=True)
    (gx,) = grad(ops.exp(x), [x], v, create_graph=True)
    assert grad(gx.sum(), v).dtype == np.float32


def test_fused_attention_whose_inputs_depend_on_each_other() -> None:
    rng = np.random.default_rng(0)
    x, w = leaf(rng.normal(size=(1, 2, 3, 2))), rng.normal(size=(1, 2, 3, 2))

    def output():
        return (ops.attention(x, ops.tanh(x) * 2, x * x, causal=True) * w).sum()

    plain, recorded = grad(output(), x), grad(output(), x, create_graph=True)
    np.testing.assert_allclose(recorded.data, plain.data, rtol=1e-12)


def test_a_deep_stack_of_fused_ops_takes_time_in_proportion() -> None:
    """Differentiating one fused op must not walk through all that lies before it, let alone differentiate it again."""
    x = leaf(np.random.default_rng(0).normal(size=(1, 1, 2, 2)))
    y = x
    for _ in range(40):
        y = ops.attention(y, y, y) + y
    (first,) = grad(y.sum(), [x], create_graph=True)
    assert np.isfinite(grad(first.sum(), x).data).all()


def test_create_graph_keeps_the_graph_and_plain_grad_frees_it() -> None:
    x = leaf(2.0)
    y = x * x * x
    assert grad(y, x, create_graph=True).requires_grad
    assert not grad(y, x, retain_graph=True).requires_grad
    grad(y, x)
    with pytest.raises(RuntimeError, match="freed"):
        grad(y, x)
