"""Random programs on handloom's engine and on a naive one, side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from handloom.autograd import Tensor, grad, no_grad, ops
from tests.support import naive_engine as naive
from tests.support.naive_engine import Naive

SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (1, 2, 3), (3, 2)]
SEEDS = st.integers(0, 2**32 - 1)
INDICES = [
    0,
    -1,
    slice(None, None, -1),
    slice(1, None),
    Ellipsis,
    None,
    np.array([0, 0, 1]),
    (Ellipsis, np.array([0, -1])),
]
UNARY = {
    "square": (lambda x: x * x, np.square, lambda x: 2 * x),
    "tanh": (ops.tanh, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sin": (ops.sin, np.sin, np.cos),
    "negative": (lambda x: -x, np.negative, lambda x: -np.ones_like(x)),
    "scaled": (lambda x: 0.5 * x + 1, lambda x: 0.5 * x + 1, lambda x: np.full_like(x, 0.5)),
}
BINARY = {
    "add": (np.add, [lambda x, y: np.ones_like(x), lambda x, y: np.ones_like(x)]),
    "subtract": (np.subtract, [lambda x, y: np.ones_like(x), lambda x, y: -np.ones_like(x)]),
    "multiply": (np.multiply, [lambda x, y: y, lambda x, y: x]),
}
MOVES = {
    "sum": lambda x: x.sum(),
    "first sums": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=-1),
    "flat": lambda x: x.reshape(-1),
    "transposed": lambda x: x.transpose(),
}


class Pair(NamedTuple):
    """The same value in both engines."""

    tensor: Tensor
    truth: Naive
    viewed: frozenset[int] = frozenset()  # the leaves whose memory the tensor may share


class Programs(RuleBasedStateMachine):
    values = Bundle("values")

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Pair] = []
        self.expected: dict[int, np.ndarray | None] = {}  # what `grad` of each leaf should be by now
        self.freed: set[int] = set()  # results whose calls a backward pass has freed
        self.stale: set[int] = set()  # leaves that were changed in place, by the numbers they had before
        self.results: dict[int, Pair] = {}

    @initialize(target=values, seed=SEEDS)
    def two_leaves(self, seed: int) -> Any:
        return multiple(self.new_leaf((3,), seed), self.new_leaf((2, 3), seed + 1))

    def new_leaf(self, shape: tuple[int, ...], seed: int) -> Pair:
        array = np.random.default_rng(seed).normal(size=shape)
        truth = Naive(array, {})
        pair = Pair(Tensor(array.copy(), requires_grad=True), truth, frozenset([truth.number]))
        self.leaves.append(pair)
        self.expected[pair.truth.number] = None
        return pair

    def made(self, tensor: Tensor, truth: Naive, *parts: Pair, view: bool = False) -> Any:
        viewed = frozenset().union(*(part.viewed for part in parts))
        if viewed & self.stale:
            return multiple()  # views of a changed leaf show its new values
        np.testing.assert_allclose(tensor.data, truth.array, rtol=1e-9, atol=1e-12)
        if np.abs(truth.array).max(initial=0) > 100 or truth.array.size == 0:
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
        return Pair(Tensor(array), Naive(array, {}))

    @rule(target=values, x=values, name=st.sampled_from(sorted(UNARY)))
    def unary(self, x: Pair, name: str) -> Any:
        ours, function, slope = UNARY[name]
        return self.made(ours(x.tensor), naive.elementwise(function, [slope], x.truth), x)

    @rule(target=values, x=values, y=values, name=st.sampled_from(sorted(BINARY)))
    def binary(self, x: Pair, y: Pair, name: str) -> Any:
        function, slopes = BINARY[name]
        try:
            np.broadcast_shapes(x.truth.shape, y.truth.shape)
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                getattr(ops, name)(x.tensor, y.tensor)
            return multiple()
        truth = naive.elementwise(function, slopes, x.truth, y.truth)
        return self.made(getattr(ops, name)(x.tensor, y.tensor), truth, x, y)

    @rule(target=values, x=values, y=values)
    def matmul(self, x: Pair, y: Pair) -> Any:
        try:
            np.matmul(x.truth.array, y.truth.array)
        except ValueError:
            return multiple()
        return self.made(x.tensor @ y.tensor, naive.bilinear(np.matmul, x.truth, y.truth), x, y)

    @rule(target=values, x=values, name=st.sampled_from(sorted(MOVES)))
    def move(self, x: Pair, name: str) -> Any:
        if name in ("first sums", "mean") and not x.truth.shape:
            return multiple()
        return self.made(MOVES[name](x.tensor), naive.linear(MOVES[name], x.truth), x, view=True)

    @rule(target=values, x=values, index=st.sampled_from(INDICES))
    def read(self, x: Pair, index: Any) -> Any:
        try:
            x.truth.array[index]
        except IndexError:
            with pytest.raises(IndexError, match="GetItem"):
                x.tensor[index]
            return multiple()
        return self.made(x.tensor[index], naive.linear(lambda a: a[index], x.truth), x, view=True)

    @rule(target=values, x=values, y=values, place=st.integers(0, 2))
    def set_elements(self, x: Pair, y: Pair, place: int) -> Any:
        if not x.truth.shape or place >= x.truth.shape[0]:
            return multiple()
        target = x.tensor * 1.0
        hole = np.ones(x.truth.shape)
        hole[place] = 0
        try:
            np.broadcast_to(y.truth.array, x.truth.shape[1:])
        except ValueError:
            return multiple()
        target[place] = y.tensor

        def placed(values: np.ndarray) -> np.ndarray:
            out = np.zeros(x.truth.shape)
            out[place] = values
            return out

        kept, new = naive.linear(lambda a: a * hole, x.truth), naive.linear(placed, y.truth)
        ones = [lambda a, b: np.ones_like(a)] * 2
        return self.made(target, naive.elementwise(np.add, ones, kept, new), x, y)

    @rule(target=values, x=values, detached=st.booleans())
    def cut(self, x: Pair, detached: bool) -> Any:
        """The same values without their history."""
        with no_grad():
            y = x.tensor.detach() if detached else x.tensor.reshape(x.truth.shape)
        return self.made(y, Naive(x.truth.array, {}), x, view=True)

    # -- differentiating -------------------------------------------------------------------------------------------

    def backward_by_every_value(self, pair: Pair) -> None:
        """grad() by everything that a new result was made from, leaves and results; a sample of it recorded."""
        v = np.random.default_rng(pair.truth.number).normal(size=pair.truth.shape)
        made_from = [
            other for other in (*self.leaves, *self.results.values()) if other.truth.number in pair.truth.jacobians
        ]
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
            np.testing.assert_allclose(gradient.data, pair.truth.gradient(other.truth, v), rtol=1e-7, atol=1e-9)

    def check_refusal(self, pair: Pair, error: RuntimeError) -> None:
        """Only a graph that was freed, or a saved leaf that was changed, is a reason to refuse."""
        freed = "freed by an earlier backward pass" in str(error) and self.freed & set(pair.truth.jacobians)
        changed = "was changed in place" in str(error) and self.stale
        if not freed and not changed:
            raise error

    @rule(x=values, seed=SEEDS, retain=st.booleans())
    def backward(self, x: Pair, seed: int, retain: bool) -> None:
        if not x.tensor.requires_grad:
            with pytest.raises(RuntimeError, match="does not depend on any tensor"):
                x.tensor.backward(np.ones(x.truth.shape))
            return
        if x.tensor.is_leaf and x.viewed & self.stale:
            return  # it goes by another name now
        v = np.random.default_rng(seed).normal(size=x.truth.shape)
        try:
            x.tensor.backward(v, retain_graph=True)
        except RuntimeError as error:
            self.check_refusal(x, error)  # and the invariant sees that it left no gradient behind
            return
        self.expect(x, v)
        if not retain:
            x.tensor.backward(v)
            self.expect(x, v)
            self.freed |= set(x.truth.jacobians) & set(self.results)
            if not x.tensor.is_leaf:
                with pytest.raises(RuntimeError, match="freed by an earlier backward pass"):
                    x.tensor.backward(v)

    def expect(self, x: Pair, v: np.ndarray) -> None:
        for leaf in self.leaves:
            if leaf.truth.number in x.truth.jacobians:
                so_far = self.expected[leaf.truth.number]
                gradient = x.truth.gradient(leaf.truth, v)
                self.expected[leaf.truth.number] = gradient if so_far is None else so_far + gradient

    @rule(which=st.integers(0, 100), forget=st.booleans())
    def use_gradient(self, which: int, forget: bool) -> None:
        """A gradient belongs to its leaf alone: writing into one must not reach another, nor any graph."""
        leaf = self.leaves[which % len(self.leaves)]
        if forget:
            leaf.tensor.grad = None
            self.expected[leaf.truth.number] = None
        elif leaf.tensor.grad is not None:
            leaf.tensor.grad[...] = 3.0
            self.expected[leaf.truth.number] = np.full(leaf.truth.shape, 3.0)

    @rule(which=st.integers(0, 100), seed=SEEDS)
    def change_leaf(self, which: int, seed: int) -> None:
        """Change a leaf in place. What was computed from it before may be differentiated rightly, or refused."""
        place = which % len(self.leaves)
        old = self.leaves[place]
        array = np.random.default_rng(seed).normal(size=old.truth.shape)
        with no_grad():
            old.tensor[...] = array
        self.stale.add(old.truth.number)
        truth = Naive(array, {})
        self.leaves[place] = Pair(old.tensor, truth, frozenset([truth.number]))
        self.expected[truth.number] = self.expected[old.truth.number]
        for pair in self.results.values():  # their gradients flow to the same leaf
            if old.truth.number in pair.truth.jacobians:
                pair.truth.jacobians[truth.number] = pair.truth.jacobians[old.truth.number]
                self.backward_by_every_value(pair)

    @rule(target=values, which=st.integers(0, 100))
    def leaf_again(self, which: int) -> Pair:
        """A leaf as it is now: one that was changed goes by another name in the naive engine."""
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
