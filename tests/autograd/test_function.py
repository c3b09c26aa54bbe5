"""What the base class Function does for every op, and which rules it rejects."""

import numpy as np
import pytest

from handloom.autograd import Function, Tensor, grad
from handloom.autograd.sums import unbroadcast
from tests.support.derivatives import leaf


class Rule(Function):
    """x + y with a backward rule that the test chooses."""

    def __init__(self, rule, broadcasts=False):
        self.rule, self.broadcasts = rule, broadcasts

    def forward(self, x, y):
        self.save(x, y)
        return x + y

    def backward(self, g):
        return self.rule(g)


@pytest.mark.parametrize(
    ("rule", "broadcasts", "message"),
    [
        (lambda g: (g,), False, "returned 1 gradients for 2 inputs"),
        (lambda g: (g, g, g), False, "returned 3 gradients for 2 inputs"),
        (lambda g: (g, g), False, r"shape \(3, 2\) for an input of shape \(2,\); if forward broadcasts"),
        (lambda g: (g, g.T), True, r"shape \(2,\) does not broadcast to the gradient's shape \(2, 3\)"),
        (lambda g: (g.T, g), True, r"shape \(3, 2\) does not broadcast to the gradient's shape \(2, 3\)"),
        (lambda g: (g[0], g), True, r"shape \(3, 2\) does not broadcast to the gradient's shape \(2,\)"),
        (lambda g: (g.astype(np.float32), None), True, "returned a gradient of float32 for an input of float64"),
    ],
)
def test_wrong_rules_are_refused(rule, broadcasts, message) -> None:
    y = Rule(rule, broadcasts)(leaf(np.ones((3, 2))), leaf(np.ones(2)))
    with pytest.raises(RuntimeError, match=f"Rule.backward.*{message}"):
        y.backward(np.ones((3, 2)))


def test_an_op_without_a_rule_says_so() -> None:
    class Doubled(Function):
        def forward(self, x):
            return 2 * x

    with pytest.raises(NotImplementedError, match="Doubled has no backward rule: define its method backward"):
        Doubled()(leaf([1.0])).backward()


def test_an_exception_in_a_rule_says_in_which() -> None:
    y = Rule(lambda g: (g @ g, g), True)(leaf(np.ones((3, 2))), leaf(np.ones(2)))
    with pytest.raises(ValueError, match="matmul") as raised:
        y.backward(np.ones((3, 2)))
    assert raised.value.__notes__ == ["in Rule.backward"]


def test_none_means_no_gradient() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    Rule(lambda g: (None, g))(x, y).backward()
    assert (x.grad, y.grad.tolist()) == (None, [1.0])


def test_a_rule_that_leaves_tensors_can_not_be_differentiated() -> None:
    x = leaf([1.0, 2.0])
    y = Rule(lambda g: (np.ones(2), np.ones(2)))(x, x)
    with pytest.raises(RuntimeError, match="supports only arrays, so its gradient can't be differentiated again"):
        grad(y.sum(), x, create_graph=True)


def test_only_inputs_and_outputs_may_be_saved() -> None:
    class Square(Function):
        def forward(self, x):
            self.save(2 * x)
            return x * x

        def backward(self, g):
            return g * self.saved[0]

    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="Square saved an array that is no input and no output"):
        grad(Square()(x).sum(), x, create_graph=True)


def test_an_object_is_one_call() -> None:
    call = Rule(lambda g: (g, g))
    call(leaf([1.0]), leaf([1.0]))
    with pytest.raises(RuntimeError, match="a Function object can be called only once"):
        call(leaf([2.0]), leaf([2.0]))


# -- un-broadcasting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ((3, 2), (2,)), ((3, 2), (1, 2)), ((3, 2), (3, 1)), ((3, 2), ()), ((4, 3, 2), (3, 1)), ((4, 3, 2), (1, 1, 1)),
        ((), ()), ((2,), (2,)), ((0, 3), (3,)), ((0, 3), (1, 3)), ((3, 0), (3, 1)), ((1, 1), (1,)), ((5, 1, 3), (1, 3)),
    ],
)  # fmt: skip
def test_unbroadcast_is_the_adjoint_of_broadcasting(wide, narrow) -> None:
    rng = np.random.default_rng(0)
    g, x = rng.normal(size=wide), rng.normal(size=narrow)
    for kind in (np.asarray, Tensor):
        result = unbroadcast(kind(g), narrow)
        result = result.data if isinstance(result, Tensor) else result
        assert result.shape == narrow
        np.testing.assert_allclose((result * x).sum(), (g * np.broadcast_to(x, wide)).sum(), atol=1e-12)


@pytest.mark.parametrize(("wide", "narrow"), [((2, 3), (3, 2)), ((3,), (3, 1)), ((3,), (2, 3)), ((4, 2), (3,))])
def test_unbroadcast_refuses_what_was_never_broadcast(wide, narrow) -> None:
    with pytest.raises(ValueError, match="does not broadcast to"):
        unbroadcast(np.ones(wide), narrow)
