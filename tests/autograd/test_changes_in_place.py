"""Changing an array in place gives a correct gradient or an error, never a silently wrong gradient."""

import copy
import pickle

import numpy as np
import pytest

from handloom.autograd import Function, Parameter, Tensor, grad, no_grad, ops
from handloom.autograd.backend import to_device
from tests.support.derivatives import leaf

CHANGED = "was changed in place after the forward pass"


# -- leaves that require a gradient -----------------------------------------------------------------------------------


ONES = np.ones(2)


def times_a_leaf(x):
    return x * Tensor(ONES, requires_grad=True)


def squared(x):
    return x * x


class Holder(Function):
    """Multiply by the array that the constructor takes."""

    def __init__(self, factor):
        self.factors = [factor]

    def forward(self, x):
        return x * self.factors[0]

    def backward(self, g):
        return g * self.factors[0]


def multiplied_heads(x):
    first, second = ops.split_heads(x.reshape(1, 1, 2), 1, parts=2)
    return first * second


SAVED = {
    "itself": squared,
    "reshaped": lambda x: squared(x.reshape(1, 2)),
    "a row": lambda x: squared(x[0:1]),
    "a view of a view": lambda x: squared(x.reshape(2, 1).swapaxes(0, 1)[0]),
    "broadcast": lambda x: squared(ops.broadcast_to(x, (3, 2))),
    "heads": multiplied_heads,
    "saved by the other operand": lambda x: Tensor(ONES, requires_grad=True) * x,
    "detached": lambda x: times_a_leaf(x.detach()),
    "a detached view": lambda x: times_a_leaf(x.detach().reshape(1, 2)),
    "wrapped": lambda x: times_a_leaf(Tensor(x)),
    "a view under no_grad": lambda x: times_a_leaf(no_grad()(lambda: x.reshape(1, 2))()),
    "a constant on its array": lambda x: times_a_leaf(Tensor(x.data)),
    "a leaf on its array": lambda x: squared(Tensor(x.data, requires_grad=True)),
    "a view of its array": lambda x: squared(Tensor(np.lib.stride_tricks.sliding_window_view(x.data, 2), True)),
    "as an array": lambda x: times_a_leaf(Tensor(np.asarray(x.detach()))),
    "in an attribute": lambda x: Holder(x.data)(Tensor(ONES, requires_grad=True)),
}


@pytest.mark.parametrize("graph", SAVED.values(), ids=SAVED)
def test_a_saved_leaf_that_is_changed_is_refused(graph) -> None:
    x = leaf([1.0, 2.0])
    y = graph(x)
    with no_grad():
        x[0] = 5.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.sum().backward()


@pytest.mark.parametrize("graph", SAVED.values(), ids=SAVED)
def test_changed_before_the_forward_pass_or_after_the_backward_pass_is_fine(graph) -> None:
    x = leaf([1.0, 2.0])
    graph(x).sum().backward()
    with no_grad():
        x[0] = 5.0
    graph(x).sum().backward()
    with no_grad():
        x[1] = 6.0


def test_marking_a_change_made_by_hand() -> None:
    x = leaf([1.0, 2.0])
    for same in (x, x.detach()):  # a tensor that requires no gradient can be marked too
        y = (x * x).sum()
        same.data -= 0.1
        same.mark_changed()
        with pytest.raises(RuntimeError, match=rf"Multiply: input 0 of shape \(2,\) {CHANGED}.*Change this array"):
            y.backward()


def test_a_saved_gradient_to_which_the_next_pass_adds_is_refused() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x * x).sum().backward()
    y = (w * Tensor(x.grad)).sum()
    (x * x).sum().backward()
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()


def test_a_bare_array_or_view_is_copied_if_it_is_saved() -> None:
    """The gradient is that of the call, whether the leaf, its array or its gradient is changed afterwards."""
    x, w = leaf([1.0, 2.0]), Tensor(np.ones((2, 2)), requires_grad=True)
    (x * x).sum().backward()
    y = ops.matmul(w, x.numpy()[::-1].reshape(2, 1)).sum() + (w * x.data).sum() + (w * x.grad).sum()
    with no_grad():
        x[0] = 5.0
    (x * x).sum().backward()
    assert grad(y, w).data.tolist() == [[2.0 + 1.0 + 2.0, 1.0 + 2.0 + 4.0]] * 2


def test_the_lists_of_an_index_are_copied() -> None:
    x, index = leaf([1.0, 2.0, 3.0]), [[0, 1], [1, 0]]
    y = x[index]
    index[0][0] = 2
    assert grad(y.sum(), x).data.tolist() == [2.0, 2.0, 0.0]


def test_a_parameter_of_a_result_can_be_changed() -> None:
    weight = Parameter(leaf([1.0]) * 2)
    assert weight.data.flags.writeable
    weight.data = (weight * 2).data
    with no_grad():
        weight *= 2
    assert weight.data == [8.0]


def test_a_leaf_that_no_rule_saved_may_change() -> None:
    x = leaf([1.0, 2.0])
    y = x + x.reshape(1, 2) - x[0]
    with no_grad():
        x[...] = 9.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1 + 1 - 2, 2.0])


SHARED = [
    lambda x: Tensor(x.data, requires_grad=True),
    lambda x: Tensor(x, requires_grad=True),
    lambda x: Parameter(x.data[:1]),
    lambda x: Parameter(x.data[::-1]),
    lambda x: Parameter(x.data.view(np.float32)),
    lambda x: Parameter(np.lib.stride_tricks.as_strided(x.data, (2, 1), (8, 8))),
    lambda x: Parameter(np.frombuffer(x.data)),
    lambda x: x.detach().requires_grad_(),
    lambda x: x.detach().reshape(1, 2).requires_grad_(),
]


@pytest.mark.parametrize("share", SHARED)
@pytest.mark.parametrize("known", [False, True])
def test_a_change_through_another_tensor_on_the_same_memory_is_noticed(share, known) -> None:
    x = leaf([1.0, 2.0])
    other = share(x)
    if known:  # `other` is already part of a graph
        (other * other).sum().backward()
    y = (x * x).sum()
    with no_grad():
        other[0] = 10.0
    del other
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()
    with no_grad():
        copy.copy(x)[0] = 9.0
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, 2 * x.data)


def test_memory_beside_what_was_changed() -> None:
    flat = np.arange(12.0).reshape(4, 3)
    x, beside, between = Parameter(flat[0]), Parameter(flat[1]), Parameter(flat[2:2])
    y = (x * x).sum() + (between * between).sum()
    with no_grad():
        beside[:] = 7.0
        between[:] = 7.0
    y.backward()
    np.testing.assert_array_equal(x.grad, 2 * x.data)


def test_what_numpy_makes_of_a_tensor_can_not_be_written_into() -> None:
    x = leaf([1.0, 2.0]).detach()
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 5.0
    for own in (np.array(x), np.asarray(x, np.float32)):
        own[0] = 5.0
    np.testing.assert_array_equal(x.data, [1.0, 2.0])


def test_setting_elements_that_would_lose_a_gradient_is_refused() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    with no_grad(), pytest.raises(RuntimeError, match="a recorded result under no_grad"):
        y[0] = 1.0
    with pytest.raises(RuntimeError, match="a leaf that requires a gradient would cut it from its own gradient"):
        x[0] = 5.0
    np.testing.assert_array_equal(x.data, [1.0, 2.0])


def test_an_augmented_assignment_under_no_grad_changes_the_leaf() -> None:
    x, frozen = leaf([2.0, 4.0]), Parameter(np.ones(2), requires_grad=False)
    same, stale, still = x, (x * x).sum(), frozen
    with no_grad():
        frozen *= 2
        x += 2
        x -= np.ones(2)
        x *= Tensor([2.0, 2.0])
        x /= 4
        x **= 2
        x //= 1
        x %= 4
        with pytest.raises(ValueError, match="change the shape"):
            x @= x
        whole = Parameter(np.array([3]), requires_grad=False)
        with pytest.raises(TypeError, match="can't convert float64 to int64"):
            whole /= 2
    assert (x is same, frozen is still, still.data.tolist()) == (True, True, [2.0, 2.0])
    np.testing.assert_array_equal(x.data, [2.0, 2.0])
    with pytest.raises(RuntimeError, match=CHANGED):
        stale.backward()


def test_an_augmented_assignment_changes_the_tensor_of_a_loop_or_is_refused() -> None:
    """`for t in tensors: t *= 2` changes the tensors, not only the name t."""
    x, weight, constant = leaf([2.0, 4.0]), Parameter(np.ones(2)), np.array([1.0, 2.0])
    for t in (x, weight):
        with pytest.raises(RuntimeError, match=r"an update in place of a leaf .*: update it under no_grad\(\), or in"):
            t *= 3
    kept = {"constant": Tensor(constant), "frozen": Parameter(constant, False), "result": x * 1, "mask": Tensor([True])}
    exp = kept["constant"].detach().requires_grad_() * kept["constant"]
    for name, t in kept.items():
        if name == "mask":
            t &= False
        else:
            t *= 3
            t += np.float32(1)
    assert [t.data.tolist() for t in kept.values()] == [[4, 7], [4, 7], [7, 13], [False]]
    assert constant.tolist() == [1, 2]
    assert exp.data.tolist() == [1, 4]
    kept["constant"] += x * x  # takes in a gradient, as when elements are set
    (kept["constant"] * kept["result"]).sum().backward()
    np.testing.assert_array_equal(x.grad, 2 * x.data * [7, 13] + np.array([4 + 4, 7 + 16]) * 3)
    with no_grad(), pytest.raises(RuntimeError, match=r"a recorded result under no_grad\(\).*in x\.detach\(\)"):
        kept["result"] -= 1


def test_a_leaf_on_the_array_of_a_result_says_why_it_can_not_be_changed() -> None:
    y = Tensor(np.ones(2), requires_grad=True) * 2
    leaf = y.detach().requires_grad_()
    for change in (lambda: leaf.__iadd__(1), lambda: leaf.__setitem__(0, 3.0)):
        with no_grad(), pytest.raises(RuntimeError, match=r"read-only, since it is also .* y\.detach\(\)\.copy\(\)"):
            change()
    copied = y.detach().copy().requires_grad_()
    with no_grad():
        copied += 1
    assert copied.data.tolist() == [3, 3]


def test_an_augmented_assignment_keeps_shape_and_dtype() -> None:
    x = Tensor(np.ones(2, np.float16))
    x += np.ones(2)
    assert x.dtype == np.float16
    with pytest.raises(ValueError, match=r"can't change the shape from \(2,\) to \(3, 2\)"):
        x += np.ones((3, 2))
    whole = Tensor([1, 2])
    with pytest.raises(TypeError, match="can't convert float64 to int64: use astype"):
        whole /= 2
    assert (x.data.tolist(), whole.data.tolist()) == ([2, 2], [1, 2])


def test_a_replaced_array_of_another_form_is_refused() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    x.data = np.zeros(3)
    message = r"array was replaced .* it is now float64\[3\] on cpu, but the gradient is float64\[2\]"
    with pytest.raises(RuntimeError, match=message):
        grad(y, x, retain_graph=True)
    with pytest.raises(RuntimeError, match=message):
        y.backward(retain_graph=True)
    x.data = np.zeros(2)  # same shape and dtype, so the gradient uses the old values
    y.backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0])


def test_changes_on_a_device_are_noticed_too(cuda) -> None:
    x = Tensor(cuda.asarray(np.arange(6.0).reshape(2, 3)), requires_grad=True)
    y, z = (x.data.T * x.T).sum(), (x[1] * x[1]).sum()
    with no_grad():
        Parameter(x.data[0, ::2])[:] = 7.0
    with pytest.raises(RuntimeError, match=CHANGED):
        y.backward()
    z.backward()
    np.testing.assert_array_equal(to_device(x.grad, "cpu"), [[0, 0, 0], [6, 8, 10]])


def test_an_array_of_another_dtype_or_shape_starts_anew() -> None:
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    (x * x).sum().backward()
    x.data, x.grad = np.ones(3), None
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])
    assert x.grad.dtype == np.float64


def test_a_parameter_without_axes_keeps_arrays() -> None:
    weight = Parameter(np.float32(1), np.True_)
    weight.data = weight.data * 2  # NumPy's scalar, as in the next assignment
    (weight * weight).backward()
    weight.grad = weight.grad * 0.5
    with no_grad():
        weight -= weight.grad
    assert [weight.data, type(weight.requires_grad)] == [0, np.bool_]


# -- results ----------------------------------------------------------------------------------------------------------


def test_results_are_read_only() -> None:
    x = leaf([1.0, 2.0])
    for result in (x * 2, x.reshape(1, 2), ops.exp(x), x.sum(), x[0], x.astype("float32"), *ops.topk(x, 1)[:1]):
        with pytest.raises(ValueError, match="read-only"):
            result.data[...] = 7
    np.testing.assert_array_equal(x.data, [1.0, 2.0])
    x.data[...] = 3.0  # the leaf itself stays writable, although its views are read-only


# -- tensors without a gradient -------------------------------------------------------------------------------------


def test_a_constant_that_is_set_leaves_the_graph_its_old_value() -> None:
    x, c = leaf([1.0, 2.0]), Tensor(np.array([3.0, 4.0]))
    y = (x * c).sum()
    c[0] = 100.0
    y.backward()
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])
    np.testing.assert_array_equal(c.data, [100.0, 4.0])


def test_setting_never_reaches_another_tensor() -> None:
    x = leaf([1.0, 2.0])
    with no_grad():
        view = x.reshape(1, 2)
        same = x.detach()
    view[0, 0] = 50.0
    same[1] = 60.0
    np.testing.assert_array_equal(x.data, [1.0, 2.0])
    values = np.array([1.0, 2.0])
    constant = Tensor(values)
    positive = +constant
    constant[0] = 9.0
    assert [values.tolist(), positive.data.tolist(), constant.data.tolist()] == [[1, 2], [1, 2], [9, 2]]


def test_a_constant_that_takes_in_a_gradient_becomes_a_result() -> None:
    x, c = leaf(3.0), Tensor(np.zeros(3))
    c[1] = x * x
    (c * np.array([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad == 12.0
    assert c.requires_grad


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_a_leaf_of_its_own(duplicate) -> None:
    x = Parameter(np.array([1.0, 2.0]))
    (x * 2).sum().backward()
    other = duplicate(x)
    assert type(other) is Parameter
    np.testing.assert_array_equal(other.grad, [2.0, 2.0])
    (other * other).sum().backward()
    np.testing.assert_array_equal(other.grad, [4.0, 6.0])
    np.testing.assert_array_equal(x.grad, [2.0, 2.0])
    y = (x * x).sum()
    with no_grad():
        other[0] = 9.0
    y.backward()
    np.testing.assert_array_equal(x.data, [1.0, 2.0])
    np.testing.assert_array_equal(x.grad, [4.0, 6.0])
    with pytest.raises(RuntimeError, match=r"use detach\(\)"):  # a result can't be copied with its graph
        duplicate(x * 2)


def test_a_second_tensor_on_one_array_has_a_gradient_of_its_own() -> None:
    x = leaf([1.0, 2.0])
    other = Tensor(x.data, requires_grad=True)
    gx, gother = grad((x * other * other).sum(), [x, other], create_graph=True)
    np.testing.assert_array_equal(gx.data, x.data**2)
    np.testing.assert_array_equal(gother.data, 2 * x.data**2)
    np.testing.assert_array_equal(grad(gother.sum(), x, retain_graph=True).data, 2 * x.data)
    by_x, by_other = grad(gx.sum(), [x, other])
    np.testing.assert_array_equal(by_x.data, [0.0, 0.0])
    np.testing.assert_array_equal(by_other.data, 2 * x.data)
