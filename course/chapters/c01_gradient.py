"""Chapter 1, the exercises: the rules of a product and of tanh, and the backward pass."""

import contextlib
from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...autograd.engine_to_study import Value
from ..exercise import Wrong, need
from .c01_gradient_solution import Scalar, add, multiply, tanh

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


def probe_multiply(multiply: Any) -> dict[str, Any]:
    pairs = [(Scalar(x), Scalar(y)) for x, y in zip(POINTS, (3.0, -0.5, 4.0, 0.7, -2.0), strict=True)]
    made = [(multiply(x, y), (x, y)) for x, y in pairs]
    shares = [rule_of(z, inputs, 0.3, "multiply(x, y)") for z, inputs in made]
    return {
        "the five products": np.array([z.data for z, _ in made]),
        "the gradient of x in five products": np.array([first for first, _ in shares]),
        "the gradient of y in five products": np.array([second for _, second in shares]),
    }


def real_multiply(x: Scalar, y: Scalar) -> Scalar:
    product = Value(x.data) * Value(y.data)
    return Scalar(product.data, (x, y), product.rule)


def probe_tanh(tanh: Any) -> dict[str, Any]:
    made = [(tanh(x), (x,)) for x in map(Scalar, POINTS)]
    shares = [rule_of(y, inputs, 0.3, "tanh(x)") for y, inputs in made]
    return {
        "the value of tanh at x = -1.3, -0.2, 0, 0.7, 2.5": np.array([y.data for y, _ in made]),
        "the gradient of x at these x, with g = 0.3": np.array([share for (share,) in shares]),
    }


def real_tanh(x: Scalar) -> Scalar:
    leaf = Tensor(np.array(x.data), requires_grad=True)
    y = ops.tanh(leaf)

    def rule(g: float) -> tuple[Any, ...]:
        y.backward(np.array(g))
        return (leaf.grad,)

    return Scalar(y.data, (x,), rule)


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

    def added() -> float:
        x = Scalar(0.5)
        x.grad = 10.0
        backward(multiply(x, x))
        return x.grad

    once, few = doublings(backward)
    return {
        "the gradients of (x, w, b) for y = w": gradients(lambda x, w, b: w),
        "the gradients of (x, w, b) for y = tanh(x w + b)": gradients(lambda x, w, b: tanh(add(multiply(x, w), b))),
        "the gradients of (x, w, b) for y = (h + b) h h, with h = tanh(x w + b)": gradients(twice),
        "the gradients of (x, w, b) for y = h + tanh(tanh(h b)), with h = x w": gradients(late),
        "the gradient of x = 0.5 for y = x x, if x.grad was 10 before": added(),
        "each rule is called once, in a graph of 40 doublings y + y": once,
        "the time does not double with each doubling, in the same graph": few,
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
