"""The backward pass: deep and branching graphs, accumulation, freeing, grad(), modes."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

from handloom.autograd import Function, Tensor, enable_grad, grad, is_grad_enabled, no_grad, ops
from handloom.autograd.backend import device_of, to_device
from tests.support.derivatives import leaf

# -- graphs of every form ------------------------------------------------------------------------------------------


def test_a_chain_of_50000_calls() -> None:
    x = leaf([1.0, 2.0])
    y = x
    for _ in range(50_000):
        y = y * 1.0
    y.backward(np.array([3.0, 4.0]))
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])


def test_a_chain_that_is_never_used_goes_away_quietly() -> None:
    limit = sys.getrecursionlimit()
    x = leaf([1.0])
    y = x
    for _ in range(50_000):
        y = y + 1.0
    end = weakref.ref(y.origin.node)
    first = weakref.ref(x)
    del x, y
    assert end() is None
    assert first() is None
    assert sys.getrecursionlimit() == limit


def test_second_derivative_through_a_long_chain() -> None:
    x = leaf(1.0)
    y = x * x
    for _ in range(3000):
        y = y * 1.0
    (first,) = grad(y, [x], create_graph=True)
    assert grad(first, x).data == 2.0


def test_many_diamonds_take_linear_time() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2^60 paths
        y = (y + y) * 0.5
    y.backward()
    assert x.grad == 1.0


# -- accumulation, and gradients that share no memory -----------------------------------------------------------------


class Twice(Function):
    """x + y with one new array as the gradient of both inputs; with `view`, the second gradient is a view of it."""

    def __init__(self, view):
        self.view = view

    def forward(self, x, y):
        return x + y

    def backward(self, g):
        fresh = g * 1.0
        return fresh, fresh[...] if self.view else fresh


@pytest.mark.parametrize("view", [False, True])
def test_a_rule_may_give_one_array_to_two_inputs(view) -> None:
    for order in (lambda a, b: Twice(view)(a, b) + a * 3, lambda a, b: a * 3 + Twice(view)(a, b)):
        a, b = leaf([1.0, 2.0]), leaf([1.0, 2.0])
        for times in (1, 2):
            order(a, b).backward(np.ones(2))
            np.testing.assert_array_equal(a.grad, [4.0 * times] * 2)
            np.testing.assert_array_equal(b.grad, [1.0 * times] * 2)


@pytest.mark.parametrize("create_graph", [False, True])
def test_results_of_grad_are_apart(create_graph) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gx, gy, again = grad((x + y).sum(), [x, y, x], create_graph=create_graph)
    gx[0] = 77.0
    np.testing.assert_array_equal(gy.data, [1.0, 1.0])
    np.testing.assert_array_equal(again.data, [1.0, 1.0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_that_is_passed_in_is_not_kept(create_graph) -> None:
    x, v = leaf([1.0, 2.0]), np.ones(2)
    y = x * 1.0
    of_y, of_x = grad(y, [y, x], v, create_graph=create_graph)
    v[...] = 9
    assert of_y.data.tolist() == of_x.data.tolist() == [1.0, 1.0]


def test_summing_gradients_writes_into_no_array_that_another_tensor_holds() -> None:
    """a + b passes one array to both operands, a product makes a new gradient, and a reshape passes a view."""
    for program, expected in [
        (lambda a, b, c: (a + b) * 2 + (a + c) * 3, (5, 2, 3)),
        (lambda a, b, c: b + a * 2 + (a + c) * 3, (5, 1, 3)),
        (lambda a, b, c: a * 4 + (a + b) * 2 + (a + c) * 3, (9, 2, 3)),
        (lambda a, b, c: b + a * 2 + (a.reshape(3, 1).reshape(3) + c) * 3, (5, 1, 3)),
        (lambda a, b, c: (t := a + b) * 2 + (t * 3 + c), (5, 5, 1)),  # the sum t gets its gradients at different times
    ]:
        leaves = [leaf([7.0, 7.0, 7.0]) for _ in range(3)]
        program(*leaves).sum().backward()
        assert [x.grad.tolist() for x in leaves] == [[float(number)] * 3 for number in expected]


# -- freeing -------------------------------------------------------------------------------------------------------


def test_without_any_graph() -> None:
    x = Tensor(np.ones(2))
    with pytest.raises(RuntimeError, match="does not depend on any tensor with requires_grad=True"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match=r"input 0 \(shape \(2,\)\) does not require a gradient"):
        grad(leaf(1.0) * 1.0, x)


def test_a_result_of_many_numbers_needs_an_output_gradient() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"a result of shape \(2,\) needs an output gradient"):
        (x * 2).backward()
    with pytest.raises(ValueError, match=r"output gradient has shape \(3,\), but the result has shape \(2,\)"):
        (x * 2).backward(np.ones(3))
    with pytest.raises(TypeError, match="output gradient must have real numbers, not complex128"):
        (x * 2).backward(np.ones(2, complex))
    (x[:1] * 2).backward()  # a result of one element may have any shape
    np.testing.assert_array_equal(x.grad, [2.0, 0.0])


def test_an_output_gradient_takes_the_results_dtype() -> None:
    for gradient in (np.array([1.0, 2.0]), Tensor([1, 2])):
        x = leaf([1.0, 2.0], np.float32)
        (x * 2).backward(gradient)
        assert (x.grad.dtype, x.grad.tolist()) == (np.float32, [2.0, 4.0])


# -- grad() --------------------------------------------------------------------------------------------------------


def test_an_input_that_is_not_used_gets_zeros() -> None:
    x, unused = leaf([1.0, 2.0]), leaf(np.ones((2, 3)), np.float32)
    gx, zeros = grad((x * 2).sum(), [x, unused])
    np.testing.assert_array_equal(gx.data, [2.0, 2.0])
    assert zeros.shape == (2, 3)
    assert zeros.dtype == np.float32
    assert not zeros.data.any()


def test_grad_of_several_outputs() -> None:
    x = leaf([1.0, 2.0])
    (result,) = grad([x * 2, (x * 3).sum()], [x], [np.array([1.0, 10.0]), None])
    np.testing.assert_array_equal(result.data, [5.0, 23.0])
    with pytest.raises(ValueError, match="2 outputs but 1 output gradients"):
        grad([x * 2, x * 3], [x], [np.ones(2)])


class Loud(Function):
    """Raise an error if the backward rule runs."""

    def forward(self, x):
        return x * 1.0

    def backward(self, g):
        raise AssertionError("this call is older than what was asked for")


def test_grad_goes_back_no_further_than_it_must_and_can_be_asked_again_where_it_stopped() -> None:
    x = leaf([1.0, 2.0])
    for y in (Loud()(x), x * x):
        np.testing.assert_array_equal(grad((y * y).sum(), y).data, 2 * y.data)
    np.testing.assert_array_equal(grad((y * 2).sum(), x).data, 4 * x.data)


# -- modes ---------------------------------------------------------------------------------------------------------


def test_no_grad_and_enable_grad_nest_and_survive_exceptions() -> None:
    x = leaf([1.0])
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
        with pytest.raises(ZeroDivisionError), enable_grad():
            raise ZeroDivisionError
        assert not is_grad_enabled()
    assert is_grad_enabled()
    switch = no_grad()
    with switch, switch:
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_backward_and_grad_inside_no_grad() -> None:
    x = leaf(3.0)
    y = x * x
    with no_grad():
        (first,) = grad(y, [x], create_graph=True)
        assert grad(first, x).data == 2.0
        y.backward()
    assert x.grad == 6.0


# -- lifetime of calls and tensors ------------------------------------------------------------------------------------


def test_no_reference_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(4))
        y = ops.layer_norm(ops.exp(x.reshape(2, 2)) * x[:2], x[:2], x[2:])
        _, picked = ops.split_heads(y.reshape(1, 2, 2), 1, parts=2)
        (second,) = grad(picked.sum(), [x], create_graph=True)
        picked.register_hook(lambda g: None)
        loss = (second * second).sum() + picked.sum()
        nodes = [weakref.ref(t.origin.node) for t in (y, picked, second, loss)]
        tensors = [weakref.ref(t) for t in (x, y, picked, second, loss)]
        loss.backward()
        del x, y, _, picked, second, loss
        assert [node() for node in nodes] == [None] * 4
        assert [tensor() for tensor in tensors] == [None] * 5
    finally:
        gc.enable()


# -- memory that a graph holds, and when it is freed ------------------------------------------------------------------

MEGABYTE = 2**20


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_activations_are_freed_while_the_backward_pass_goes_on(traced) -> None:
    """Each call saves its output (1 MB), and the pass frees it before it allocates the gradient of x (1 MB)."""
    depth = 20
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x
    for _ in range(depth):
        y = ops.tanh(y)
    loss = y.sum()
    del y
    held = tracemalloc.get_traced_memory()[0]
    assert held > depth * MEGABYTE
    tracemalloc.reset_peak()
    loss.backward()
    now, peak = tracemalloc.get_traced_memory()
    assert peak - held < 2.5 * MEGABYTE  # two gradients; with x.grad it is 3 MB if the activations are kept
    assert now < 3.5 * MEGABYTE  # x and its gradient


def test_values_that_no_rule_saved_are_free_to_go(traced) -> None:
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x
    for _ in range(20):
        y = y + 1.0
    assert tracemalloc.get_traced_memory()[0] < 3.5 * MEGABYTE
    y.backward(np.ones(y.shape, np.float32))
    np.testing.assert_array_equal(x.grad[:3], [1.0, 1.0, 1.0])


def test_accumulating_a_gradient_takes_one_buffer(traced) -> None:
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x * 1.0
    for _ in range(20):
        y = y + x
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    y.backward(np.broadcast_to(np.float32(1), y.shape))
    assert tracemalloc.get_traced_memory()[1] - held < 4.5 * MEGABYTE
    np.testing.assert_array_equal(x.grad[:2], [21.0, 21.0])


# -- gradients of chosen inputs ----------------------------------------------------------------------------------------


def test_grad_leaves_calls_that_lead_to_no_input_alone() -> None:
    a = leaf(1.0)
    u, v = a * 2, a * 3
    assert [g.item() for g in grad(u * v, [u, v])] == [3.0, 2.0]
    (u + v).backward()  # the calls of u and v were not freed
    assert a.grad == 5.0


def test_grad_runs_neither_rules_nor_hooks_of_other_branches() -> None:
    seen: list[str] = []

    class Noted(Function):
        def __init__(self, label):
            self.label = label

        def forward(self, x, y):
            return x + y

        def backward(self, g):
            seen.append(f"{self.label} needs {[bool(n) for n in self.needs]}")
            return tuple(g if needed else None for needed in self.needs)

    for create_graph in (False, True):
        seen.clear()
        x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        branch = Noted("branch")(w * 1, w)
        branch.register_hook(lambda g: seen.append("hook"))
        own = x * 2
        loss = (Noted("sum")(own, branch) * np.array([1.0, 2.0])).sum()
        unneeded = (branch * 3).sum()
        unneeded.register_hook(lambda g: seen.append("hook of an output"))
        by_own, by_x = grad([loss, unneeded], [own, x], create_graph=create_graph)
        assert seen == ["sum needs [True, False]"]
        assert (by_own.data.tolist(), by_x.data.tolist()) == ([1, 2], [2, 4])
        branch.sum().backward()  # not freed
        assert w.grad.tolist() == [2, 2]


def test_grad_through_a_freed_call_is_refused_not_zero() -> None:
    x = leaf(2.0)
    middle = x * x
    end = middle * 3
    end.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward pass"):
        grad(end, x)
    y = middle * 2
    assert grad(y, middle).item() == 2.0  # the freed call is behind the input
    with pytest.raises(RuntimeError, match="freed by an earlier backward pass"):
        grad(y, x)


def test_the_inner_loop_of_maml() -> None:
    """Two inner steps of gradient descent that are differentiated, and a second pass over the first step's loss."""
    w, meta = leaf([1.0, -2.0]), leaf(0.1)
    x, targets = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0.5, 0.25])
    fast = w
    for _ in range(2):
        loss = ((x @ fast - targets) ** 2).mean()
        fast = fast - meta * grad(loss, fast, create_graph=True)
    outer = ((x @ fast - targets) ** 2).mean()
    outer.backward()
    hessian = x.T @ x  # of the mean of two squares

    def inner(start: np.ndarray, rate: float) -> np.ndarray:
        for _ in range(2):
            start = start - rate * (hessian @ start - x.T @ targets)
        return start

    end = inner(w.data, 0.1)
    through = np.eye(2) - 0.1 * hessian
    np.testing.assert_allclose(w.grad, through @ through @ (hessian @ end - x.T @ targets), rtol=1e-12)
    step = 1e-6
    slope = (inner(w.data, 0.1 + step) - inner(w.data, 0.1 - step)) / (2 * step)
    np.testing.assert_allclose(meta.grad, slope @ (hessian @ end - x.T @ targets), rtol=1e-7)


def test_an_input_given_twice_gets_two_gradients_in_separate_memory() -> None:
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    first, second = grad((x * x).sum(), [x, x])
    first.data[:] = 7
    assert second.data.tolist() == [2, 2, 2]


@pytest.mark.parametrize("array", [np.ones(2, np.float32), np.ones(3)])
def test_a_gradient_is_not_added_to_the_gradient_of_a_former_array(array: np.ndarray) -> None:
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    (x * x).sum().backward()
    x.data = array
    with pytest.raises(RuntimeError, match="gradient of its former array"):
        (x * x).sum().backward()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.dtype == array.dtype


def test_a_gradient_does_not_reach_a_leaf_that_has_moved_to_another_device(cuda) -> None:
    """Neither a leaf that moved between forward and backward, nor a gradient from before it moved."""
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    (x * x).sum().backward()
    out = (x * x).sum()
    x.data = to_device(x.data, "cuda")
    with pytest.raises(RuntimeError, match=r"replaced between .* now float32\[3\] on cuda.* on cpu"):
        out.backward()
    with pytest.raises(RuntimeError, match=r"still has the gradient of its former array, float32\[3\] on cpu: set"):
        (x * x).sum().backward()
    x.grad = None
    (x * x).sum().backward()
    assert device_of(x.grad).startswith("cuda")
