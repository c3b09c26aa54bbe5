"""Random graphs in which values are used again and again, against the complex step through the same program."""

from __future__ import annotations

from typing import Any

import numpy as np

from handloom.autograd import Tensor, grad, ops
from tests.support.derivatives import complex_step
from tests.support.op_checks import close

SHAPES = ((3,), (2, 3), (2, 1), ())


def program(rng: np.random.Generator, steps: int) -> list[tuple[str, int, int]]:
    """Each step: an operation and the indices of its operands among the values so far."""
    # Sums and views pass gradients on without a copy: there a buffer that others hold might be written to.
    kinds = ("add", "add view", "subtract", "multiply", "sin", "double", "sum", "same", "same", "transpose")
    return [
        (str(rng.choice(kinds)), int(rng.integers(len(SHAPES) + i)), int(rng.integers(len(SHAPES) + i)))
        for i in range(steps)
    ]


def run(xp: Any, steps: list[tuple[str, int, int]], leaves: list[Any]) -> list[Any]:
    """All values of the program, computed with functions that both NumPy and handloom have."""
    values = list(leaves)
    for kind, first, second in steps:
        x, y = values[first], values[second]
        if kind in ("add", "add view", "subtract", "multiply") and x.shape and y.shape and x.shape[-1:] != y.shape[-1:]:
            kind = "sin"
        values.append(
            {
                "add": lambda x=x, y=y: x + y,
                "add view": lambda x=x, y=y: xp.reshape(x, x.shape) + y,
                "subtract": lambda x=x, y=y: x - y,
                "multiply": lambda x=x, y=y: x * y * 0.5,
                "sin": lambda x=x: xp.sin(x),
                "double": lambda x=x: x + x,
                "sum": lambda x=x: x.sum(axis=0, keepdims=True) if x.shape else x * 2.0,
                "same": lambda x=x: xp.reshape(x, x.shape),
                "transpose": lambda x=x: xp.transpose(xp.transpose(x)),
            }[kind]()
        )
    return values


def check_graph(seed: int) -> None:
    """Values, gradients, accumulated gradients and recorded gradients of one random graph."""
    rng = np.random.default_rng(seed)
    steps = program(rng, int(rng.integers(4, 20)))
    arrays = [np.asarray(rng.uniform(-1, 1, shape)) for shape in SHAPES]
    used = [int(i) for i in rng.integers(len(SHAPES) + len(steps), size=7)] + [len(SHAPES) + len(steps) - 1]
    weights = [rng.uniform(0.5, 1.5, run(np, steps, arrays)[i].shape) for i in used]

    def number(*leaves: Any) -> Any:
        values = run(np, steps, list(leaves))
        return sum((values[i] * w).sum() for i, w in zip(used, weights, strict=True))

    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    values = run(ops, steps, leaves)
    total = sum(((values[i] * w).sum() for i, w in zip(used, weights, strict=True)), Tensor(np.zeros(())))
    close(total.data, number(*arrays), 1e-12, "the value")
    truth = [complex_step(number, arrays, i) for i in range(len(arrays))]
    recorded = grad(total, leaves, create_graph=True)
    before = [leaf.data.copy() for leaf in leaves]
    total.backward(retain_graph=True)
    for leaf, true, found in zip(leaves, truth, recorded, strict=True):
        close(found.data, true, 1e-10, "the recorded gradient")
        close(np.zeros(true.shape) if leaf.grad is None else leaf.grad, true, 1e-10, "the gradient")
    kept = [None if leaf.grad is None else leaf.grad for leaf in leaves]
    total.backward(np.asarray(2.0))
    for leaf, true, buffer, old in zip(leaves, truth, kept, before, strict=True):
        if leaf.grad is not None:
            close(leaf.grad, 3 * true, 1e-10, "the gradient after a second pass")
            assert leaf.grad is buffer
        np.testing.assert_array_equal(leaf.data, old)
    # The gradient of a result is returned when it is complete, not before.
    inner = values[len(SHAPES)]
    if inner.requires_grad:
        values = run(ops, steps, leaves)
        total = sum(((values[i] * w).sum() for i, w in zip(used, weights, strict=True)), Tensor(np.zeros(())))
        found = grad(total, values[len(SHAPES)])

        def from_inner(z: Any) -> Any:
            again = run(np, steps[:1], arrays)
            again[len(SHAPES)] = z
            later = run_from(steps, again)
            return sum((later[i] * w).sum() for i, w in zip(used, weights, strict=True))

        close(found.data, complex_step(from_inner, [np.asarray(inner.data)], 0), 1e-10, "the gradient of a result")


def run_from(steps: list[tuple[str, int, int]], values: list[Any]) -> list[Any]:
    """Run the other steps of a program after the first."""
    values = list(values)
    for step in steps[1:]:
        values = run(np, [step], values)
    return values
