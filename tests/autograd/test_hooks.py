"""Hooks on the gradients of leaves and results."""

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops
from tests.support.derivatives import leaf


def test_a_leafs_hook_sees_the_whole_gradient_once() -> None:
    x = leaf([1.0, 2.0])
    seen: list[np.ndarray] = []
    x.register_hook(lambda g: seen.append(g.copy()))
    (x * 2 + x * x + x).sum().backward()
    np.testing.assert_array_equal(seen, [2 * x.data + 3])
    (x * 2).sum().backward()
    np.testing.assert_array_equal(seen[1], [2.0, 2.0])  # the gradient of this pass, not the accumulated gradient


def test_the_hook_of_a_leaf_that_no_variable_holds_any_more_is_called() -> None:
    x = leaf([1.0, 2.0])
    seen: list[np.ndarray] = []
    x.register_hook(lambda g: seen.append(g.copy()))
    loss = (x * 3).sum()
    del x
    loss.backward()
    np.testing.assert_array_equal(seen, [[3.0, 3.0]])


def test_a_results_hook_sees_the_whole_gradient_before_it_goes_on() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    seen: list[np.ndarray] = []
    y.register_hook(lambda g: seen.append(g.copy()))
    y.register_hook(lambda g: g * 10)
    (y * y + y).sum().backward()
    np.testing.assert_array_equal(seen, [2 * y.data + 1])
    np.testing.assert_array_equal(x.grad, 30 * (2 * y.data + 1))


def test_hooks_run_in_order_and_can_be_removed() -> None:
    x = leaf(1.0)
    order: list[str] = []
    removers = [x.register_hook(lambda g, name=name: order.append(name)) for name in "abc"]
    x.register_hook(lambda g: g + 1)
    (x * 1).backward()
    assert (order, x.grad) == (list("abc"), 2)
    assert isinstance(x.grad, np.ndarray)
    removers[1].remove()
    later = x.register_hook(lambda g: order.append("d"))
    removers[1]()  # removing a hook twice removes no other hook
    (x * 1).backward()
    assert (order, x.grad) == (list("abcacd"), 4)
    later()
    x.sum().backward()
    assert order == list("abcacdac")


def test_a_hook_on_one_operand_of_a_shared_gradient() -> None:
    """x + y passes the same gradient array to both operands; a hook on one operand must not affect the other."""
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    a, b = x * 1, y * 1
    a.register_hook(lambda g: g * 5)
    (a + b).sum().backward()
    np.testing.assert_array_equal(x.grad, [5.0, 5.0])
    np.testing.assert_array_equal(y.grad, [1.0, 1.0])


def test_a_hook_can_not_write_into_the_gradient() -> None:
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    x.register_hook(lambda g: np.multiply(g, 2, out=g) if isinstance(g, np.ndarray) else g.__setitem__(0, 9.0))
    out = (x + y) * np.array([3.0, 4.0])
    assert [g.data.tolist() for g in grad(out.sum(), [x, y], create_graph=True)] == [[3.0, 4.0]] * 2
    with pytest.raises(ValueError, match="read-only"):
        out.sum().backward()


def test_what_a_hook_kept_or_answered_stays_as_it_was() -> None:
    x = leaf([1.0, 2.0])
    kept, answer = list[np.ndarray](), np.array([7.0, 8.0])
    for expected, hook in [([4.0, 8.0], kept.append), ([14.0, 16.0], lambda g: answer)]:
        x.grad, remove = None, x.register_hook(hook)
        (x * x).sum().backward()
        (x * x).sum().backward()
        np.testing.assert_array_equal(x.grad, expected)
        x.grad[...] = 0
        remove()
    np.testing.assert_array_equal([*kept, answer], [2 * x.data, 2 * x.data, [7.0, 8.0]])


def test_wrong_answers_are_refused() -> None:
    for answer in (np.ones(3), np.ones(2, np.float32), [1.0, 1.0], 0.0):
        x = leaf([1.0, 2.0])
        x.register_hook(lambda g, answer=answer: answer)
        with pytest.raises(ValueError, match=r"a gradient hook returned .* return the same shape and dtype"):
            (x * 1).sum().backward()
        assert x.grad is None
    with pytest.raises(RuntimeError, match="requires no gradient, so the hook would never be called"):
        Tensor([1.0]).register_hook(print)


def test_hooks_under_grad() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    seen: list[str] = []
    x.register_hook(lambda g: seen.append("x"))
    y.register_hook(lambda g: seen.append("y"))
    y.register_hook(lambda g: g * 2)
    gy, gx = grad((y * 3).sum(), [y, x])
    assert sorted(seen) == ["x", "y"]
    np.testing.assert_array_equal(gy.data, [6.0, 6.0])
    np.testing.assert_array_equal(gx.data, 12 * x.data)
    grad((x * x * 3).sum(), leaf([1.0]))
    assert len(seen) == 2  # x was not asked for


def test_hooks_under_create_graph_are_part_of_the_graph() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    kinds: list[type] = []
    y.register_hook(lambda g: kinds.append(type(g)))
    y.register_hook(lambda g: g * x)  # the gradient of sum(y) becomes x * 2x
    (first,) = grad(y.sum(), [x], create_graph=True)
    assert kinds == [Tensor]
    np.testing.assert_array_equal(grad(first.sum(), x).data, 4 * x.data)


def test_hooks_on_several_outputs_of_one_call() -> None:
    x = leaf(np.arange(6.0).reshape(1, 1, 6))
    first, second, _ = ops.split_heads(x, 1, parts=3)
    seen: dict[str, np.ndarray] = {}
    first.register_hook(lambda g: seen.update(first=g.copy()))
    second.register_hook(lambda g: seen.update(second=g.copy()) or g * 0)
    (first * 2 + second * 3).sum().backward()
    np.testing.assert_array_equal(seen["first"].ravel(), [2, 2])
    np.testing.assert_array_equal(seen["second"].ravel(), [3, 3])
    np.testing.assert_array_equal(x.grad.ravel(), [2, 2, 0, 0, 0, 0])


def test_a_fused_op_calls_the_hooks_of_its_inputs_once_under_create_graph() -> None:
    rng = np.random.default_rng(0)
    x = leaf(rng.normal(size=(1, 1, 3, 2)))
    query = x * 1
    calls: list[int] = []
    query.register_hook(lambda g: calls.append(1))
    out = ops.attention(query, query * 2, query)
    grad(out.sum(), x, create_graph=True)
    assert calls == [1]
