"""Run random programs on handloom's engine and on the engine to study, and compare the results."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from handloom.autograd import Tensor, grad, no_grad, ops
from handloom.autograd.engine_to_study import Value, relu

SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (1, 2, 3), (3, 2)]
SEEDS = st.integers(0, 2**32 - 1)
INDICES = [0, -1, slice(None, None, -1), slice(1, None), Ellipsis, np.array([0, 0, 1]), (Ellipsis, np.array([0, -1]))]
# The functions that both engines compute.
UNARY: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "relu": lambda x: relu(x) if isinstance(x, Value) else ops.relu(x),
    "scaled": lambda x: x * 0.5 - 1.0,
}
BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul}
MOVES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "first sums": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=-1),
    "flat": lambda x: x.reshape(-1),
    "transposed": lambda x: x.transpose(*reversed(range(x.data.ndim))),
}


def history(value: Value) -> dict[int, Value]:
    """Return a value and all values that it depends on, by number."""
    found: dict[int, Value] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.number not in found:
            found[one.number] = one
            waiting += one.inputs
    return found


def gradients(value: Value, v: np.ndarray) -> dict[int, np.ndarray]:
    """Return the vector-Jacobian product of v with a value, for each value that it depends on."""
    seen = history(value)
    for one in seen.values():
        one.grad = None
    value.backward(v)
    return {number: one.grad for number, one in seen.items()}


class Pair(NamedTuple):
    """The same value in both engines."""

    tensor: Tensor
    truth: Value
    viewed: frozenset[int] = frozenset()  # the leaves whose memory the tensor may share


class Programs(RuleBasedStateMachine):
    values = Bundle("values")

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Pair] = []
        self.expected: dict[int, np.ndarray | None] = {}  # the expected `grad` of each leaf
        self.freed: set[int] = set()  # results whose graph a backward pass has freed
        self.stale: set[int] = set()  # the old numbers of leaves that were changed in place
        self.results: dict[int, Pair] = {}
        self.names: dict[int, set[int]] = {}  # for the number of a leaf: its old numbers and this number

    @initialize(target=values, seed=SEEDS)
    def two_leaves(self, seed: int) -> Any:
        return multiple(self.new_leaf((3,), seed), self.new_leaf((2, 3), seed + 1))

    def new_leaf(self, shape: tuple[int, ...], seed: int) -> Pair:
        array = np.random.default_rng(seed).normal(size=shape)
        truth = Value(array)
        pair = Pair(Tensor(array.copy(), requires_grad=True), truth, frozenset([truth.number]))
        self.leaves.append(pair)
        self.expected[truth.number], self.names[truth.number] = None, {truth.number}
        return pair

    def made(self, tensor: Tensor, truth: Value, *parts: Pair, view: bool = False) -> Any:
        viewed = frozenset().union(*(part.viewed for part in parts))
        if viewed & self.stale:
            return multiple()  # views of a changed leaf show its new values
        np.testing.assert_allclose(tensor.data, truth.data, rtol=1e-9, atol=1e-12)
        if np.abs(truth.data).max(initial=0) > 100 or truth.data.size == 0:
            return multiple()  # don't let products of products grow
        pair = Pair(tensor, truth, viewed if view else frozenset())
        if tensor.requires_grad:
            self.results[truth.number] = pair
        self.backward_by_every_value(pair)
        return pair

    # -- making values ---------------------------------------------------------------------------------------------

    @rule(target=values, shape=st.sampled_from(SHAPES), seed=SEEDS, constant=st.integers(0, 4))
    def fresh(self, shape: tuple[int, ...], seed: int, constant: int) -> Any:
        if constant:
            return self.new_leaf(shape, seed)
        array = np.random.default_rng(seed).normal(size=shape)
        return Pair(Tensor(array), Value(array))

    @rule(target=values, x=values, name=st.sampled_from(sorted(UNARY)))
    def unary(self, x: Pair, name: str) -> Any:
        return self.made(UNARY[name](x.tensor), UNARY[name](x.truth), x)

    @rule(target=values, x=values, y=values, name=st.sampled_from(sorted(BINARY)))
    def binary(self, x: Pair, y: Pair, name: str) -> Any:
        function = BINARY[name]
        try:
            np.broadcast_shapes(x.truth.data.shape, y.truth.data.shape)
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                function(x.tensor, y.tensor)
            return multiple()
        return self.made(function(x.tensor, y.tensor), function(x.truth, y.truth), x, y)

    @rule(target=values, x=values, y=values)
    def matmul(self, x: Pair, y: Pair) -> Any:
        if min(x.truth.data.ndim, y.truth.data.ndim) < 2 or x.truth.data.shape[-1] != y.truth.data.shape[-2]:
            return multiple()
        return self.made(x.tensor @ y.tensor, x.truth @ y.truth, x, y)

    @rule(target=values, x=values, name=st.sampled_from(sorted(MOVES)))
    def move(self, x: Pair, name: str) -> Any:
        if name in ("first sums", "mean") and not x.truth.data.shape:
            return multiple()
        return self.made(MOVES[name](x.tensor), MOVES[name](x.truth), x, view=True)

    @rule(target=values, x=values, index=st.sampled_from(INDICES))
    def read(self, x: Pair, index: Any) -> Any:
        try:
            x.truth.data[index]
        except IndexError:
            with pytest.raises(IndexError, match="GetItem"):
                x.tensor[index]
            return multiple()
        return self.made(x.tensor[index], x.truth[index], x, view=True)

    @rule(target=values, x=values, y=values, place=st.integers(0, 2))
    def set_elements(self, x: Pair, y: Pair, place: int) -> Any:
        if not x.truth.data.shape or place >= x.truth.data.shape[0]:
            return multiple()
        try:
            np.broadcast_to(y.truth.data, x.truth.data.shape[1:])
        except ValueError:
            return multiple()
        target, mark = x.tensor * 1.0, np.zeros(x.truth.data.shape)
        target[place], mark[place] = y.tensor, 1
        return self.made(target, x.truth * (1 - mark) + y.truth * mark, x, y)

    @rule(target=values, x=values, detached=st.booleans())
    def cut(self, x: Pair, detached: bool) -> Any:
        """Return the same values without their graph."""
        with no_grad():
            y = x.tensor.detach() if detached else x.tensor.reshape(x.truth.data.shape)
        return self.made(y, Value(x.truth.data), x, view=True)

    # -- differentiating -------------------------------------------------------------------------------------------

    def backward_by_every_value(self, pair: Pair) -> None:
        """Check grad() for every leaf and result that a new result depends on, for some results with create_graph."""
        v = np.random.default_rng(pair.truth.number).normal(size=pair.truth.data.shape)
        truths = gradients(pair.truth, v)
        made_from = [other for other in (*self.leaves, *self.results.values()) if self.named(other) & truths.keys()]
        if not pair.tensor.requires_grad:
            assert not made_from
            return
        assert made_from
        create_graph = pair.truth.number % 4 == 0
        try:
            found = grad(pair.tensor, [x.tensor for x in made_from], v, create_graph=create_graph, retain_graph=True)
        except RuntimeError as error:
            self.check_refusal(pair, error)
            return
        for other, gradient in zip(made_from, found, strict=True):
            expected = sum(truths[number] for number in self.named(other) & truths.keys())
            np.testing.assert_allclose(gradient.data, expected, rtol=1e-7, atol=1e-9)

    def named(self, pair: Pair) -> set[int]:
        """Return the numbers of a leaf or result in the engine to study."""
        return self.names.get(pair.truth.number, {pair.truth.number})

    def check_refusal(self, pair: Pair, error: RuntimeError) -> None:
        """Raise the error again unless a freed graph or a changed leaf explains it."""
        freed = "freed by an earlier backward pass" in str(error) and self.freed & history(pair.truth).keys()
        changed = "was changed in place" in str(error) and self.stale
        if not freed and not changed:
            raise error

    @rule(x=values, seed=SEEDS, retain=st.booleans())
    def backward(self, x: Pair, seed: int, retain: bool) -> None:
        if not x.tensor.requires_grad:
            with pytest.raises(RuntimeError, match="does not depend on any tensor"):
                x.tensor.backward(np.ones(x.truth.data.shape))
            return
        if x.tensor.is_leaf and x.viewed & self.stale:
            return  # the leaf has another number now
        v = np.random.default_rng(seed).normal(size=x.truth.data.shape)
        try:
            x.tensor.backward(v, retain_graph=True)
        except RuntimeError as error:
            self.check_refusal(x, error)  # the invariant checks that no gradient was left behind
            return
        self.expect(x, v)
        if not retain:
            x.tensor.backward(v)
            self.expect(x, v)
            self.freed |= history(x.truth).keys() & self.results.keys()
            if not x.tensor.is_leaf:
                with pytest.raises(RuntimeError, match="freed by an earlier backward pass"):
                    x.tensor.backward(v)

    def expect(self, x: Pair, v: np.ndarray) -> None:
        truths = gradients(x.truth, v)
        for leaf in self.leaves:
            for number in self.named(leaf) & truths.keys():
                so_far = self.expected[leaf.truth.number]
                self.expected[leaf.truth.number] = truths[number] if so_far is None else so_far + truths[number]

    @rule(which=st.integers(0, 100), forget=st.booleans())
    def use_gradient(self, which: int, forget: bool) -> None:
        """Each leaf owns its gradient: writing into it changes no other gradient and no graph."""
        leaf = self.leaves[which % len(self.leaves)]
        if forget:
            leaf.tensor.grad = None
            self.expected[leaf.truth.number] = None
        elif leaf.tensor.grad is not None:
            leaf.tensor.grad[...] = 3.0
            self.expected[leaf.truth.number] = np.full(leaf.truth.data.shape, 3.0)

    @rule(which=st.integers(0, 100), seed=SEEDS)
    def change_leaf(self, which: int, seed: int) -> None:
        """Change a leaf in place: differentiating an earlier result must be correct or raise an error."""
        place = which % len(self.leaves)
        old = self.leaves[place]
        array = np.random.default_rng(seed).normal(size=old.truth.data.shape)
        with no_grad():
            old.tensor[...] = array
        self.stale.add(old.truth.number)
        truth = Value(array)
        self.leaves[place] = Pair(old.tensor, truth, frozenset([truth.number]))
        self.expected[truth.number] = self.expected[old.truth.number]
        self.names[truth.number] = {*self.named(old), truth.number}  # gradients of older results flow to the same leaf
        for pair in self.results.values():
            if self.named(old) & history(pair.truth).keys():
                self.backward_by_every_value(pair)

    @rule(target=values, which=st.integers(0, 100))
    def leaf_again(self, which: int) -> Pair:
        """Return a leaf with its current values; a changed leaf has another number in the engine to study."""
        return self.leaves[which % len(self.leaves)]

    @invariant()
    def leaves_have_the_right_gradients(self) -> None:
        for leaf in self.leaves:
            expected = self.expected[leaf.truth.number]
            if expected is None:
                assert leaf.tensor.grad is None
            else:
                np.testing.assert_allclose(leaf.tensor.grad, expected, rtol=1e-7, atol=1e-9)
                assert leaf.tensor.grad.flags.writeable


LONG = settings(stateful_step_count=30, max_examples=2 * settings.default.max_examples)
TestPrograms = Programs.TestCase
TestPrograms.settings = LONG
