"""Activation checkpointing: the same bits, less memory, dropout drawn again."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import (
    Generator,
    Parameter,
    Tensor,
    checkpoint,
    default_generator,
    grad,
    manual_seed,
    no_grad,
    ops,
)
from handloom.autograd.row_gradient import RowGradient

RNG = np.random.default_rng(0)
X, OUT = (RNG.normal(size=(8, 40, 32)).astype(np.float32) for _ in range(2))


def encoder_pass(on: bool) -> tuple[list[np.ndarray], int, int]:
    """Output and all gradients of six layers with dropout; bytes held before the backward pass, and at most."""
    manual_seed(0)
    stack = nn.TransformerEncoder(
        [nn.TransformerEncoderLayer(32, 4, 128, 0.2, norm_first=True) for _ in range(6)], nn.LayerNorm(32)
    ).train()
    assert nn.checkpoint_activations(stack, on) == 1
    x = Tensor(X.copy(), requires_grad=True)
    manual_seed(1)
    tracemalloc.start()
    y = stack(x, lengths=np.arange(33, 41))
    held = tracemalloc.get_traced_memory()[0]
    y.backward(OUT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [y.data, x.grad, *(p.grad for p in stack.parameters()), default_generator.numpy.random(3)], held, peak


def test_gradients_are_bit_equal_and_memory_falls() -> None:
    """The last array compared is what the generator draws afterwards: the pass leaves it where it was."""
    plain, plain_held, plain_peak = encoder_pass(False)
    saved, saved_held, saved_peak = encoder_pass(True)
    for one, other in zip(plain, saved, strict=True):
        np.testing.assert_array_equal(one, other)
    assert saved_held < plain_held / 6
    assert saved_peak < plain_peak / 2


def test_keyword_tensors_and_results_without_gradient() -> None:
    x, w = (Tensor(RNG.normal(size=3), requires_grad=True) for _ in range(2))
    checkpoint(lambda t, scale, *, w: t * w * scale, x, 2.0, w=w).sum().backward()  # a leaf may be anywhere
    np.testing.assert_array_equal(x.grad, 2 * w.data)
    np.testing.assert_array_equal(w.grad, 2 * x.data)
    assert not checkpoint(lambda t: t > 0, x).requires_grad


@pytest.mark.parametrize("made", [lambda t: [t, t], lambda t: {"t": t}, lambda t: (t, t), lambda t: None])
def test_other_results_are_refused(made) -> None:
    with pytest.raises(TypeError, match=r"must return one Tensor, not a (list|dict|tuple|NoneType)"):
        checkpoint(made, Tensor(np.ones(3), requires_grad=True))


def test_results_from_outside_must_be_arguments() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    outside = x * 2
    with pytest.raises(RuntimeError, match=r"outside it \(Multiply, shape \(3,\)\); pass this Tensor as an argument"):
        checkpoint(lambda t: t * outside, x)


def test_first_derivatives_only_and_nothing_under_no_grad() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    with pytest.raises(RuntimeError, match="can't be differentiated"):
        grad(checkpoint(ops.exp, x), x, np.ones(3), create_graph=True)
    with no_grad():
        assert not checkpoint(ops.exp, x).requires_grad
    y = checkpoint(ops.exp, x)
    y.backward(np.ones(3))
    with pytest.raises(RuntimeError, match="freed"):
        y.backward(np.ones(3))


# -- hooks ------------------------------------------------------------------------------------------------------------


def nested(depth: int, function):
    """`function` in so many checkpoints, one in the other."""
    for _ in range(depth):
        function = partial(checkpoint, function)
    return function


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_held_leafs_hook_is_called_once_with_the_whole_gradient(depth) -> None:
    weight = Parameter(np.array([2.0, 3.0]))
    seen: list[np.ndarray] = []
    weight.register_hook(lambda g: seen.append(g.copy()) or 2 * g)
    x = Tensor(np.array([3.0, 4.0]), requires_grad=True)
    x.register_hook(lambda g: 10 * g)
    function = nested(depth, lambda t: t * weight)
    # Used twice by one segment, by another, by a nested one, and outside.
    y = nested(depth, lambda t: function(t) + t * weight)(x) + function(x) + x * weight
    y.sum().backward()
    np.testing.assert_array_equal(seen, [4 * x.data])
    np.testing.assert_array_equal(weight.grad, 8 * x.data)
    np.testing.assert_array_equal(x.grad, 40 * weight.data)


def test_an_embeddings_gradient_stays_rows() -> None:
    table = Parameter(np.ones((50, 4), np.float32))
    checkpoint(lambda ids: ops.embedding(ids, table), np.array([3, 3, 7])).sum().backward()
    assert isinstance(table.grad_or_rows, RowGradient)
    assert table.grad[3, 0] == 2


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_default_generator_draws_the_same_numbers_again(depth) -> None:
    rng = default_generator.numpy  # taken outside

    def draw(t: Tensor) -> Tensor:
        y = ops.dropout(t, 0.5) * rng.integers(1, 3, t.shape) * default_generator.numpy.permutation(t.shape[0])
        return ops.dropout_add(y, y, 0.3) * rng.random(t.shape, dtype=np.float32)

    x = Tensor(np.ones((300, 300), np.float32), requires_grad=True)
    y = nested(depth, lambda t: nested(depth - 1, draw)(draw(t)))(x)
    after = default_generator.get_state()
    y.backward(np.ones_like(y.data))
    np.testing.assert_allclose(x.grad, y.data, rtol=1e-6)
    assert default_generator.get_state() == after


@pytest.mark.parametrize("switched", [True, False])
def test_a_layer_that_was_switched_or_draws_from_another_generator_is_refused(switched) -> None:
    """Evaluation between the forward and the backward pass would falsify the gradient."""
    layer = nn.Dropout(0.5).train(switched)
    x = Tensor(np.ones(50), requires_grad=True)
    y, other = checkpoint(layer, x), checkpoint(nn.Dropout(0.5, generator=Generator(1)), x)
    layer.train(not switched)
    for result in (y, other):
        with pytest.raises(RuntimeError, match=r"train\(\) and eval\(\), or did .* another generator"):
            result.sum().backward()


# -- what it computes with the second time -----------------------------------------------------------------------------


def test_a_constant_argument_that_is_set_afterwards_keeps_its_old_value() -> None:
    x, c = Tensor(np.ones(2), requires_grad=True), Tensor(np.array([3.0, 4.0]))
    y = checkpoint(lambda t, c: t * c, x, c)
    c[0] = 100.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])


@pytest.mark.parametrize("given", [lambda w: w, lambda w: w.detach(), lambda w: w.data, lambda w: w.data[:2]])
def test_an_argument_whose_memory_was_changed_is_refused(given) -> None:
    weight, x = Parameter(np.ones(3)), Tensor(np.ones(1), requires_grad=True)
    y = checkpoint(lambda t, c: (t * c).sum(), x, given(weight))
    held = checkpoint(lambda t: (t * weight).sum(), x)
    with no_grad():
        weight[0] = 5.0
    for result in (y, held):
        with pytest.raises(RuntimeError, match="changed in place"):
            result.backward()


def test_a_held_leaf_with_another_array_is_refused() -> None:
    weight, x = Parameter(np.ones(3)), Tensor(np.ones(3), requires_grad=True)
    for change in (lambda: setattr(weight, "data", np.full(3, 7.0)), lambda: weight.requires_grad_(False)):
        y = checkpoint(lambda t: t * weight, x)
        change()
        with pytest.raises(RuntimeError, match=r"the array or requires_grad of a leaf .* was changed"):
            y.sum().backward()


OTHER = "checkpoint: the second call of the function, in the backward pass, computes something else"


def test_a_lambda_in_a_loop_over_layers() -> None:
    """It takes the loop's variable when it is called: in the backward pass, the last layer."""
    weights = [Parameter(np.full(3, 2.0)) for _ in range(3)]
    y = x = Tensor(np.ones(3), requires_grad=True)
    for weight in weights:
        y = checkpoint(lambda t: t * weight, y)  # noqa: B023
    with pytest.raises(RuntimeError, match=OTHER + r".*functools\.partial"):
        y.sum().backward()
    y = x
    for weight in weights:
        y = checkpoint(ops.multiply, y, weight)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [8.0, 8.0, 8.0])


@pytest.mark.parametrize("then", [3.0, np.ones((2, 4)), np.nan])
def test_a_constant_that_the_function_takes_from_outside(then) -> None:
    x = Tensor(np.ones(4, np.float32), requires_grad=True)
    factor = 2.0
    y = checkpoint(lambda t: t * factor, x)
    factor = then
    with pytest.raises(RuntimeError, match=OTHER):
        y.sum().backward()


@pytest.mark.parametrize("number", [np.inf, np.nan, -0.0])
def test_results_that_are_not_finite_are_compared_too(number) -> None:
    x = Tensor(np.array([1.0, number, 2.0]), requires_grad=True)
    checkpoint(lambda t: t * 2, x).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])
