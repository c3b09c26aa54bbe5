"""Compare each operation of the one-page engine with handloom's engine."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, engine_to_study, ops
from handloom.autograd.engine_to_study import Value, softmax


def functions(x: Any) -> dict[str, Any]:
    """Return the functions of the engine that x belongs to."""
    return vars(engine_to_study if isinstance(x, Value) else ops)


#: Operations that `test_stateful` leaves out, and their operands' shapes: methods and functions that both engines have.
OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "@ of a stack": (lambda x, y: x @ y, ((2, 3, 4), (4, 2))),
    "means": (lambda x: x.mean(axis=-1, keepdims=True), ((2, 3),)),
    "turned": (lambda x: x.transpose(2, 0, 1), ((2, 3, 4),)),
    "ids": (lambda x: x[np.array([[0, 1], [1, 0]])], ((3, 2),)),
    "picked": (lambda x: x[np.arange(2), np.array([0, 0])], ((2, 3),)),
    "relu": (lambda x: functions(x)["relu"](x), ((2, 3),)),
    "softmax": (lambda x: functions(x)["softmax"](x), ((2, 3),)),
    "normalised": (lambda x, y: functions(x)["layer_norm"](x, y, y), ((2, 3, 4), (4,))),
    "attention": (lambda x: functions(x)["attention"](x, x, x), ((1, 2, 3, 4),)),
    "loss": (lambda x: functions(x)["cross_entropy"](x, np.array([2, 0])), ((2, 3),)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_the_engine(name: str) -> None:
    rng, (operation, shapes) = np.random.default_rng(0), OPERATIONS[name]
    arrays = [rng.normal(size=shape) for shape in shapes]
    ours, theirs = [Value(array) for array in arrays], [Tensor(array, requires_grad=True) for array in arrays]
    made, expected = operation(*ours), operation(*theirs)
    np.testing.assert_allclose(made.data, expected.data, rtol=1e-9)
    gradient = rng.normal(size=made.data.shape)
    for _ in range(2):  # the second pass adds to the gradients of the first pass
        made.backward(gradient)
        expected.backward(gradient, retain_graph=True)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own.grad, other.grad, rtol=1e-8)


def test_deep_graphs_and_values_used_again_and_again() -> None:
    x = y = Value([1.0, 2.0])
    for _ in range(5000):
        y = (y + y) * 0.5
    y.backward(np.array([3.0, 4.0]))
    assert x.grad.tolist() == [3.0, 4.0]


def test_it_stands_apart_and_stays_short() -> None:
    text = Path(engine_to_study.__file__).read_text(encoding="utf-8")
    modules = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert modules == {"__future__", "heapq", "itertools", "typing", "numpy"}
    assert len(text.splitlines()) <= 140


def test_the_example_of_its_docstring() -> None:
    names: dict[str, Any] = {"Value": Value}
    exec("\n".join(line[4:] for line in str(engine_to_study.__doc__).splitlines() if line.startswith("    ")), names)
    assert names["w"].grad.tolist() == [[2.0], [4.0]]
    assert softmax(names["w"]).data.shape == (2, 1)
