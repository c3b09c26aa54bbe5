"""Chapter 1, the exercises: the rules of a product and of tanh, and the backward pass."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...autograd.engine_to_study import Value
from ..exercise import Exercise, Wrong, need
from .c01_gradient_solution import Scalar, add, backward, multiply, tanh

POINTS = [-1.3, -0.2, 0.0, 0.7, 2.5]


def rule_of(result: Any, inputs: tuple[Any, ...], g: Any, what: str) -> tuple[Any, ...]:
    """Return the tuple that the rule of the learner's Scalar `result` gives for g, or raise Wrong."""
    if not all(hasattr(result, name) for name in ("data", "inputs", "rule")):
        need(result, Scalar, what)  # the learner's Scalar is a different class
    if not isinstance(result.inputs, (tuple, list)):
        raise Wrong(f"{what}: its `inputs` should be a tuple. A tuple with one element is written with a comma: (x,).")
    if tuple(result.inputs) != inputs:
        raise Wrong(f"{what}: its `inputs` should be the {len(inputs)} Scalars from the call, in order.")
    shares = need(result.rule(g), tuple, f"The rule of {what}")
    if len(shares) != len(inputs):
        raise Wrong(f"The rule of {what} returned {len(shares)} numbers, but {what} has {len(inputs)} inputs.")
    return shares


# -- multiply ----------------------------------------------------------------------------------------------------------


def probe_multiply(multiply: Any) -> dict[str, Any]:
    pairs = [(Scalar(x), Scalar(y)) for x, y in zip(POINTS, (3.0, -0.5, 4.0, 0.7, -2.0), strict=True)]
    made = [(multiply(x, y), (x, y)) for x, y in pairs]
    shares = [rule_of(z, inputs, 0.3, "multiply(x, y)") for z, inputs in made]
    return {
        "the product": np.array([z.data for z, _ in made]),
        "what goes back to x": np.array([first for first, _ in shares]),
        "what goes back to y": np.array([second for _, second in shares]),
    }


def real_multiply(x: Scalar, y: Scalar) -> Scalar:
    product = Value(x.data) * Value(y.data)
    return Scalar(product.data, (x, y), product.rule)


MULTIPLY = Exercise(
    multiply,
    probe_multiply,
    real_multiply,
    source="autograd.engine_to_study.Value.__mul__",
    hints=(
        "Put in numbers: x = 2, y = 5. The product is 10. With x = 2.01 it is 10.05. By how many times 0.01 did it "
        "grow?",
        "It grew by 5 times 0.01, and 5 is y: the derivative by x is y, and the derivative by y is x.",
        "The shape is that of `add`: Scalar(the value, (x, y), lambda g: (g * ..., g * ...)), with y.data in the "
        "first place and x.data in the second.",
    ),
    changes="""
        The two shares are in the wrong places: x * y grows by y for each unit that x grows, so the gradient of x has y
        in it, not x.
        - (g * y.data, g * x.data)
        + (g * x.data, g * y.data)
        This is the rule of the sum. The product does not grow as fast as x does, but y times as fast.
        - (g * y.data, g * x.data)
        + (g, g)
        The derivatives are right, but g is missing: what goes back is g, which says how much the end result depends on
        this product, times each derivative.
        - (g * y.data, g * x.data)
        + (y.data, x.data)
        g is a number, and x and y are Scalars, which can't be multiplied with `*`. Multiply their numbers, x.data and
        y.data.
        - (g * y.data, g * x.data)
        + (g * y, g * x)
    """,
)


@MULTIPLY.right
def product_by_hand(x, y):
    def rule(g):
        return tuple(g * other.data for other in (y, x))

    return Scalar(y.data * x.data, (x, y), rule)


# -- tanh --------------------------------------------------------------------------------------------------------------


def probe_tanh(tanh: Any) -> dict[str, Any]:
    made = [(tanh(x), (x,)) for x in map(Scalar, POINTS)]
    shares = [rule_of(y, inputs, 0.3, "tanh(x)") for y, inputs in made]
    return {
        "the value of tanh": np.array([y.data for y, _ in made]),
        "what goes back to x": np.array([share for (share,) in shares]),
    }


def real_tanh(x: Scalar) -> Scalar:
    leaf = Tensor(np.array(x.data), requires_grad=True)
    y = ops.tanh(leaf)

    def rule(g: float) -> tuple[Any, ...]:
        y.backward(np.array(g))
        return (leaf.grad,)

    return Scalar(y.data, (x,), rule)


TANH = Exercise(
    tanh,
    probe_tanh,
    real_tanh,
    source="autograd.ops.trigonometric.tanh",
    hints=(
        "Look at the right half of the picture: the slope is 1 where tanh is 0 and falls to 0 where tanh is near 1 "
        "or -1. Which simple function of y does that?",
        "At y = 0 the slope is 1, at y = 0.5 it is 0.75, at y = 1 it is 0: the slope is 1 - y².",
        "y = math.tanh(x.data); return Scalar(y, (x,), lambda g: (g * (1 - y * y),)). Value and rule both need y.",
    ),
    changes="""
        The rule squares x instead of the result: the slope is 1 - y², with y = tanh(x). At x = 2.5 yours gives a slope
        of -5.25, and the curve never falls.
        - 1 - y * y
        + 1 - x.data**2
        The derivative is right, but it is not multiplied by g, which is what has arrived from the end.
        - g * (1 - y * y)
        + 1 - y * y
        1 - y is not the slope: at x = -1.3 it would be 1.86, steeper than at 0. The formula in the text has y squared.
        - 1 - y * y
        + 1 - y
        The number is right, but a rule returns a tuple, one share for each input: (g * ...,) with a comma.
        - (g * (1 - y * y),)
        + g * (1 - y * y)
    """,
)


@TANH.right
def tanh_by_exponentials(x):
    up, down = math.exp(x.data), math.exp(-x.data)
    return Scalar((up - down) / (up + down), (x,), lambda g: (4 * g / (up + down) ** 2,))


# -- backward ----------------------------------------------------------------------------------------------------------


class _TooManyError(Exception):
    pass


def doublings(backward: Any) -> tuple[bool, bool]:
    """Return whether `backward` calls each rule once for 40 doublings y + y, and whether it reads `inputs` only rarely.

    A doubling adds two copies of y, so 2^40 paths lead from the last sum to the first number.
    """
    called: list[int] = []
    read: list[int] = []

    class Counting(Scalar):
        @property
        def inputs(self) -> tuple[Scalar, ...]:
            read.append(self.number)
            if len(read) > 2000:
                raise _TooManyError
            return self._inputs

        @inputs.setter
        def inputs(self, inputs: tuple[Scalar, ...]) -> None:
            self._inputs = inputs

    def counted(inputs: tuple[Scalar, ...]) -> Scalar:
        def rule(g: float) -> tuple[float, ...]:
            called.append(y.number)
            if len(called) > 3 * 40:
                raise _TooManyError
            return (g,) * len(inputs)

        y = Counting(1.0, inputs, rule)
        return y

    last = Scalar(1.0)
    for _ in range(40):
        last = counted((counted((last,)), counted((last,))))
    with contextlib.suppress(_TooManyError):
        backward(last)
    return len(called) == len(set(called)) == 3 * 40, len(read) <= 2000


def probe_backward(backward: Any) -> dict[str, Any]:
    def gradients(build: Any) -> np.ndarray:
        x, w, b = Scalar(0.5), Scalar(-1.5), Scalar(0.25)
        backward(build(x, w, b))
        return np.array([x.grad, w.grad, b.grad])

    def twice(x: Scalar, w: Scalar, b: Scalar) -> Scalar:
        """Build a graph in which h is used three times."""
        h = tanh(add(multiply(x, w), b))
        return multiply(add(h, b), multiply(h, h))

    def late(x: Scalar, w: Scalar, b: Scalar) -> Scalar:
        """Build a graph with a short path and a long path from the result to h."""
        h = multiply(x, w)
        return add(h, tanh(tanh(multiply(h, b))))

    once, few = doublings(backward)
    return {
        "the gradient by (x, w, b) of w": gradients(lambda x, w, b: w),
        "the gradient by (x, w, b) of tanh(x w + b)": gradients(lambda x, w, b: tanh(add(multiply(x, w), b))),
        "the gradient by (x, w, b) of (h + b) h h, with h = tanh(x w + b)": gradients(twice),
        "the gradient by (x, w, b) of h + tanh(tanh(h b)), with h = x w": gradients(late),
        "whether each rule of 40 doublings is called once": once,
        "whether at most 2,000 inputs are read in 40 doublings": few,
    }


def real_backward(y: Scalar) -> None:
    values: dict[Scalar, Value] = {}

    def value(scalar: Scalar) -> Value:
        if scalar not in values:
            values[scalar] = Value(scalar.data, tuple(map(value, scalar.inputs)), scalar.rule)
        return values[scalar]

    value(y).backward()
    for scalar, twin in values.items():
        scalar.grad += float(twin.grad)


BACKWARD = Exercise(
    backward,
    probe_backward,
    real_backward,
    source="autograd.engine_to_study.Value.backward",
    hints=(
        "When may a Scalar call its rule: when its first share has arrived, or when all shares have arrived? And which "
        "Scalar can receive no further shares?",
        "In the picture the numbers of the Scalars grow from the inputs to y. A Scalar is older than every Scalar that "
        "was computed from it. If you go from the largest `number` to the smallest, each Scalar has received all its "
        "shares when you reach it. y has the gradient 1.",
        "for scalar in sorted(found, key=lambda s: -s.number): for x, share in zip(scalar.inputs, "
        "scalar.rule(scalar.grad)): x.grad += share. Before this loop, collect the Scalars in the set `found`, with a "
        "list of those whose inputs you have not looked at yet.",
    ),
    changes="""
        A Scalar that is used twice gets two shares, and the second one overwrites the first: add to x.grad (+=), don't
        set it.
        - x.grad += share
        + x.grad = share
        No gradient arrives anywhere. The walk begins with y, whose derivative by itself is 1, but nothing sets y.grad
        to 1.
        - y.grad += 1.0
        + pass
        The order is reversed: here the oldest Scalars come first, before anything has arrived for them. Begin with the
        newest Scalar, which has the largest number.
        - -scalar.number
        + scalar.number
    """,
)


def ancestors(y):
    found, waiting = [], [y]
    while waiting:
        scalar = waiting.pop(0)
        if scalar not in found:
            found.append(scalar)
            waiting += scalar.inputs
    return found


def passed_back(y, scalars):
    y.grad += 1.0
    for scalar in scalars:
        for x, share in zip(scalar.inputs, scalar.rule(scalar.grad), strict=True):
            x.grad += share


@BACKWARD.wrong
def nearest_first(y):
    """If a short path and a long path lead to a Scalar, its rule is called too early here: the short path reaches the
    Scalar before the share from the long path has arrived. Sort by `number`.
    """
    passed_back(y, ancestors(y))


@BACKWARD.wrong
def hands_on_too_much(y, first=True):
    """A Scalar that gets two shares passes its first share on twice: in the first call, and as part of the sum in the
    second call. Each rule should be called once, when all shares have arrived.
    """
    if first:
        y.grad = 1.0
    for x, share in zip(y.inputs, y.rule(y.grad), strict=True):
        x.grad += share
        hands_on_too_much(x, False)


@BACKWARD.wrong
def each_begins_with_one(y):
    """Each call sets the gradient of its own y to 1, so the shares that had arrived there are lost. Only the y that the
    walk begins with gets 1. A loop over all Scalars is simpler here than recursion.
    """
    y.grad = 1.0
    for x, share in zip(y.inputs, y.rule(y.grad), strict=True):
        x.grad += share
        each_begins_with_one(x)


@BACKWARD.wrong
def along_every_path(y):
    """The gradients are right, but this code follows every path from y separately, and 40 doublings have 2^40 paths.
    Collect the Scalars first. Then call each rule once, beginning with the newest Scalar.
    """

    def hand(scalar, g):
        scalar.grad += g
        for x, share in zip(scalar.inputs, scalar.rule(g), strict=True):
            hand(x, share)

    hand(y, 1.0)


@BACKWARD.wrong
def collected_on_every_path(y):
    """Each rule is called once, but the search for the Scalars follows every path, and 40 doublings have 2^40 paths.
    If a Scalar was found before, skip the Scalar and its inputs.
    """
    order = []

    def visit(scalar):
        for x in scalar.inputs:
            visit(x)
        if scalar not in order:
            order.append(scalar)

    visit(y)
    passed_back(y, reversed(order))


@BACKWARD.wrong
def queued_for_each_share(y):
    """A Scalar with two shares is visited twice here, and the second visit passes the first share on again. Visit each
    Scalar once, when all its shares have arrived: go from the newest to the oldest.
    """
    y.grad = 1.0
    waiting = [y]
    while waiting:
        scalar = waiting.pop(0)
        for x, share in zip(scalar.inputs, scalar.rule(scalar.grad), strict=True):
            x.grad += share
            waiting.append(x)


@BACKWARD.right
def after_all_that_use_it(y):
    """A correct answer that orders the Scalars by a reversed depth-first search instead of by number."""
    order = []

    def visit(scalar):
        if scalar not in order:
            for x in scalar.inputs:
                visit(x)
            order.append(scalar)

    visit(y)
    passed_back(y, reversed(order))
