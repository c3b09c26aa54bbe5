"""Higher-order derivatives."""

import numpy as np
import pytest

from handloom.autograd import grad, ops
from tests.support.derivatives import leaf


def test_derivatives_of_single_numbers_keep_their_graph() -> None:
    """NumPy returns scalars instead of 0-d arrays; the engine must still recognise a saved output."""
    x = leaf(0.3)
    (first,) = grad(ops.exp(x), [x], create_graph=True)
    assert grad(first, x).item() == pytest.approx(np.exp(0.3))
    (first,) = grad(ops.tanh(x), [x], create_graph=True)
    assert grad(first, x).item() == pytest.approx(-2 * np.tanh(0.3) / np.cosh(0.3) ** 2)


def test_backward_on_a_gradient_penalty() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (gx,) = grad((w * x * x).sum(), [x], create_graph=True)  # 2 w x
    (gx * gx).sum().backward()
    np.testing.assert_allclose(w.grad, 8 * w.data * x.data**2)
    np.testing.assert_allclose(x.grad, 8 * w.data**2 * x.data)


def test_fused_attention_whose_inputs_depend_on_each_other() -> None:
    rng = np.random.default_rng(0)
    x, w = leaf(rng.normal(size=(1, 2, 3, 2))), rng.normal(size=(1, 2, 3, 2))

    def output():
        return (ops.attention(x, ops.tanh(x) * 2, x * x, causal=True) * w).sum()

    plain, recorded = grad(output(), x), grad(output(), x, create_graph=True)
    np.testing.assert_allclose(recorded.data, plain.data, rtol=1e-12)


def test_a_deep_stack_of_fused_ops_takes_time_in_proportion() -> None:
    """Differentiating a fused op must neither traverse nor differentiate the graph of its inputs."""
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
