"""Activation checkpointing gives bit-equal gradients with less memory, and draws the same dropout masks again."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import (
    Generator,
    Parameter,
    Tensor,
    bfloat16_products,
    checkpoint,
    default_generator,
    grad,
    manual_seed,
    no_grad,
    ops,
)
from handloom.autograd.row_gradient import RowGradient
from tests.support.derivatives import leaf
from tests.support.work import in_threads

RNG = np.random.default_rng(0)
X, OUT = (RNG.normal(size=(8, 40, 32)).astype(np.float32) for _ in range(2))


def encoder_pass(on: bool) -> tuple[list[np.ndarray], int, int]:
    """Return output and gradients of six layers with dropout, the bytes held before the backward pass, and the peak."""
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
    """The last array compared is drawn after the pass, which must leave the generator in the same state."""
    plain, plain_held, plain_peak = encoder_pass(False)
    saved, saved_held, saved_peak = encoder_pass(True)
    np.testing.assert_equal(plain, saved)
    assert saved_held < plain_held / 6
    assert saved_peak < plain_peak / 2


def test_several_outputs_keyword_tensors_and_parts_without_gradient() -> None:
    a, b = (Tensor(RNG.normal(size=3), requires_grad=True) for _ in range(2))

    def function(a, scale, *, b):
        return a * b * scale, ops.exp(a), Tensor(np.ones(2))

    def all_of(call) -> list[np.ndarray]:
        first, second, third = call(a, 2.0, b=b)
        assert third.shape == (2,)
        return [t.data for t in grad([first, second], [a, b], [np.arange(3.0), np.ones(3)])]

    saved = all_of(lambda *args, **kwargs: checkpoint(function, *args, **kwargs))
    np.testing.assert_array_equal(all_of(function), saved)
    only_second = checkpoint(function, a, 2.0, b=b)[1]
    np.testing.assert_array_equal(grad(only_second, [a, b], np.ones(3))[1].data, np.zeros(3))


@pytest.mark.parametrize("made", [lambda t: [t, t], lambda t: {"t": t}, lambda t: (t, None)])
def test_other_results_are_refused(made) -> None:
    with pytest.raises(TypeError, match=r"must return one Tensor or a tuple of them, not a (list|dict|NoneType)"):
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
    """Return `function` in `depth` nested checkpoints."""
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
    # A segment and its nested segment, another segment and the code outside use the weight.
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
    checkpoint(lambda t: ops.embedding(np.array([0, 1, 1]), t), table * 2).sum().backward()
    assert table.grad[:4, 0].tolist() == [2, 4, 0, 2]


def test_a_float16_loss_may_have_a_large_scale() -> None:
    x = leaf(np.ones(4096), np.float16)
    checkpoint(ops.mean, x).backward(2.0**20)
    assert x.grad[0] == 256


def test_the_second_call_rounds_products_as_the_first_did() -> None:
    def gradients(compute, rounded) -> list:
        x, weight = (Tensor(array.copy(), requires_grad=True) for array in (X[0], X[1, :9]))
        with bfloat16_products(rounded):
            y = compute(lambda x: ops.linear(ops.tanh(ops.linear(x, weight)), weight.T), x)
        with bfloat16_products(not rounded):
            y.backward(OUT[0])
        return [x.grad, weight.grad]

    for rounded in (True, False):
        np.testing.assert_equal(gradients(checkpoint, rounded), gradients(lambda f, x: f(x), rounded))


# -- random numbers ---------------------------------------------------------------------------------------------------


def drop_all(x: Tensor) -> Tensor:
    """Draw random numbers in several ways."""
    rng = default_generator.numpy
    y = ops.dropout(x, 0.5) * rng.integers(1, 3, x.shape) * default_generator.numpy.permutation(x.size)
    return ops.dropout_add(y, y, 0.3) * rng.random(x.shape, dtype=np.float32)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_another_thread_draws_in_the_middle(depth) -> None:
    """Another thread draws before, between and after the function's draws, in its first run and in each repetition."""
    numbers: list[float] = []

    def disturb() -> None:
        in_threads(lambda: numbers.append(float(default_generator.numpy.random())))

    def function(t):
        disturb()
        t = drop_all(t)
        disturb()
        t = nested(depth - 1, drop_all)(t)
        disturb()
        return t

    x = Tensor(np.ones(100, np.float32), requires_grad=True)
    y = nested(depth, function)(x)
    y.backward(np.ones_like(y.data))
    np.testing.assert_allclose(x.grad, y.data, rtol=1e-6)
    assert len(set(numbers)) == len(numbers) >= 6  # the other threads' stream was never reset


def test_large_masks_and_generators_of_any_kind_are_replayed() -> None:
    own = Generator(8)
    rng = own.numpy  # created outside the function

    def function(t):
        return ops.dropout(t, 0.5, generator=own) * rng.integers(1, 9, t.shape) * Generator(5).numpy.random(t.shape)

    x = Tensor(np.ones((300, 300)), requires_grad=True)
    y = checkpoint(function, x)
    after = own.get_state()
    y.backward(np.ones_like(y.data))
    np.testing.assert_array_equal(x.grad, y.data)
    assert own.get_state() == after


@pytest.mark.parametrize("switched", [True, False])
def test_a_layer_that_was_switched_draws_more_or_less(switched) -> None:
    """Switching to evaluation between the forward and the backward pass would make the gradient wrong."""
    layer = nn.Dropout(0.5).train(switched)
    x = Tensor(np.ones(50), requires_grad=True)
    y = checkpoint(layer, x)
    layer.train(not switched)
    with pytest.raises(RuntimeError, match=r"as before \([01] times\), but does not: .* train\(\) and eval\(\)"):
        y.sum().backward()
    layer.train(switched)
    y = checkpoint(layer, x)  # the thread draws new numbers again
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, y.data)


# -- inputs of the second call -----------------------------------------------------------------------------------------


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
    """The lambda reads the loop variable at each call, so the backward pass would use the last layer."""
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


@pytest.mark.parametrize("then", [3.0, np.ones(4), np.nan, np.array([2.0, 2, 2, 2], np.float32)])
def test_a_constant_that_the_function_takes_from_outside(then) -> None:
    x = Tensor(np.ones(4, np.float32), requires_grad=True)
    factor = 2.0
    y = checkpoint(lambda t: (t + 1, t * factor), x)
    factor = then
    if isinstance(then, np.ndarray) and then.dtype == np.float32:
        y[1].sum().backward()
        np.testing.assert_array_equal(x.grad, [2.0] * 4)
    else:
        with pytest.raises(RuntimeError, match=OTHER):
            y[0].sum().backward()


@pytest.mark.parametrize("number", [np.inf, np.nan, -0.0])
def test_outputs_that_are_not_finite_are_compared_too(number) -> None:
    x = Tensor(np.array([1.0, number, 2.0]), requires_grad=True)
    checkpoint(lambda t: (t * 2, t.data > 0, t.data[:0]), x)[0].sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])


def test_other_outputs_or_a_result_from_outside_the_second_time() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    outside = x * 1
    first, other = leaf(np.ones(3)), leaf(np.ones(3))  # equal values, but another leaf gets the gradient
    for second in (lambda t: (t * first, t), lambda t: t[:2], lambda t: outside * 1, lambda t: t * other, lambda t: t):
        functions = iter([lambda t: t * first, second])
        y = checkpoint(lambda t, functions=functions: next(functions)(t), x)
        with pytest.raises(RuntimeError, match=f"{OTHER}|uses a Tensor that was computed outside"):
            y.sum().backward()
    assert (first.grad, other.grad) == (None, None)
    (outside * 2).sum().backward()  # the graph of `outside` is intact
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_layer_that_changes_a_buffer_computes_the_same(in_place: bool) -> None:
    """The second call began with the changed buffer and changed it again; small differences were not noticed."""

    class Running(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(4, 4)
            self.register_buffer("mean", np.zeros(4, np.float32))

        def forward(self, x: Tensor) -> Tensor:
            now = x.detach().mean(axis=0) * 0.01
            with no_grad():
                if in_place:
                    self.mean += now
                else:
                    self.mean = self.mean + now
            return self.linear(x - self.mean)

    class Around(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            self.before, self.inner = Running(), inner

        def forward(self, x: Tensor, **options: object) -> Tensor:
            return self.inner(self.before(x.reshape(-1, 4)).reshape(x.shape), **options)

    manual_seed(0)
    layers = [nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0) for _ in range(2)]
    encoder = nn.TransformerEncoder([Around(layers[0]), layers[1]])
    x, g = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype(np.float32)
    results = []
    for on in (False, True):
        encoder.load_state_dict({**encoder.state_dict(), "layers.0.before.mean": np.zeros(4)})
        nn.checkpoint_activations(encoder, on)
        encoder.zero_grad()
        encoder(Tensor(x)).backward(g)
        results.append([p.grad for p in encoder.parameters()] + [encoder.state_dict()["layers.0.before.mean"].copy()])
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
