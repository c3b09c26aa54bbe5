"""The engine of one page against the one that is used: random graphs, and a whole Transformer layer."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, engine_to_study, manual_seed, ops
from handloom.autograd.engine_to_study import Value, attention, cross_entropy, layer_norm, relu, softmax
from handloom.nn import TransformerEncoderLayer

SHAPES = [(3, 4), (4, 3), (1, 4), (3, 1), (4,), (), (2, 3, 4), (2, 1, 3), (4, 4)]

# What both classes have, written once, and the functions that go by the same name: drawn with one or two operands.
BINARY = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "@": lambda x, y: x @ y,
    "normalised": lambda x, y: (functions(x)["layer_norm"])(x, y, y),
}
UNARY = {
    "square": lambda x: x**2,
    "number": lambda x: x * 0.5 - 1.0,
    "sum": lambda x: x.sum(),
    "sums": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=-1),
    "means": lambda x: x.mean(axis=-1, keepdims=True),
    "flat": lambda x: x.reshape(-1),
    "turned": lambda x: x.transpose(*reversed(range(x.data.ndim))),
    "reversed": lambda x: x[::-1],
    "ids": lambda x: x[np.array([[0, 1], [1, 0]])],
    "picked": lambda x: x[np.arange(2), np.array([0, 0])],
    "relu": lambda x: functions(x)["relu"](x),
    "softmax": lambda x: functions(x)["softmax"](x),
    "loss": lambda x: functions(x)["cross_entropy"](x, np.arange(len(x.data)) % x.data.shape[1]),
}


def functions(x: Any) -> dict[str, Any]:
    """The functions of the engine that x belongs to."""
    return vars(engine_to_study if isinstance(x, Value) else ops)


def applies(name: str, *arrays: np.ndarray) -> bool:
    """Whether the operation is defined for such arrays on both sides."""
    x = arrays[0]
    axes = {"@": 2, "loss": 2, "picked": 2, "sums": 1, "mean": 1, "means": 1, "reversed": 1, "ids": 1, "softmax": 1}
    if any(array.ndim < axes.get(name, 0) for array in arrays):
        return False
    if name == "loss":
        return x.ndim == 2
    if name in ("ids", "picked"):
        return x.shape[0] > 1
    if name == "normalised":
        return x.ndim > 0 and x.shape[-1] > 1 and arrays[1].shape == x.shape[-1:]
    if name == "@":
        return x.shape[-1] == arrays[1].shape[-2] and (x.ndim == 2 or arrays[1].ndim == 2)
    if name in "+-*":
        try:
            np.broadcast_shapes(*(array.shape for array in arrays))
        except ValueError:
            return False
    return True


def random_graph(seed: int) -> Counter[str]:
    """Grow one graph in both engines, go back from a few of its values, compare the leaves. Returns what was used."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=SHAPES[i]) for i in rng.permutation(len(SHAPES))[:5]]
    leaves = [(Value(array), Tensor(array, requires_grad=True)) for array in arrays]
    values, used = list(leaves), Counter[str]()
    while used.total() < 14:
        name = str(rng.choice([*BINARY, *UNARY]))
        order = [values[i] for i in rng.permutation(len(values))]
        tries = [(order[0], other) for other in (*order[1:], order[0])] if name in BINARY else [order[:1]]
        fitting = [operands for operands in tries if applies(name, *(ours.data for ours, _ in operands))]
        if fitting:
            operands = fitting[0]
            operation = (BINARY | UNARY)[name]
            made = operation(*(ours for ours, _ in operands)), operation(*(theirs for _, theirs in operands))
            np.testing.assert_allclose(made[0].data, made[1].data, rtol=1e-9, atol=1e-12)
            if np.abs(made[0].data).max() < 1e3:  # squares of squares grow
                values.append(made)
                used[name] += 1
    for ours, theirs in [values[-1], *(values[i] for i in rng.integers(len(values), size=3))]:
        gradient = rng.normal(size=ours.data.shape)
        ours.backward(gradient)
        theirs.backward(gradient, retain_graph=True)  # adds to what the passes before have left
    for ours, theirs in leaves:
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-8, atol=1e-8)
    return used


def test_random_graphs() -> None:
    used = Counter[str]()
    for seed in range(150):
        used += random_graph(seed)
    assert min(used[name] for name in [*BINARY, *UNARY]) >= 25, used


def test_deep_graphs_and_values_used_again_and_again() -> None:
    x = y = Value([1.0, 2.0])
    for _ in range(5000):
        y = (y + y) * 0.5
    y.backward(np.array([3.0, 4.0]))
    assert x.grad.tolist() == [3.0, 4.0]


def encoder_layer(x: Value, p: dict[str, Value], heads: int) -> Value:
    """nn.TransformerEncoderLayer, post-norm with ReLU, on x (batch, length, d); `p` are its parameters by name."""
    batch, length, d = x.data.shape

    def linear(x: Value, name: str) -> Value:
        return x @ p[f"{name}weight"].transpose(1, 0) + p[f"{name}bias"]

    # (batch, length, 3 d) -> (3, batch, heads, length, d / heads)
    qkv = linear(x, "self_attn.in_proj_").reshape(batch, length, 3, heads, d // heads).transpose(2, 0, 3, 1, 4)
    attended = attention(qkv[0], qkv[1], qkv[2]).transpose(0, 2, 1, 3).reshape(batch, length, d)
    x = layer_norm(x + linear(attended, "self_attn.out_proj."), p["norm1.weight"], p["norm1.bias"])
    return layer_norm(x + linear(relu(linear(x, "linear1.")), "linear2."), p["norm2.weight"], p["norm2.bias"])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_transformer_layer_from_ids_to_the_loss(seed: int) -> None:
    manual_seed(seed)
    rng = np.random.default_rng(seed)
    layer = TransformerEncoderLayer(12, 3, 16, dropout=0.0)
    parameters = {name: rng.normal(size=p.shape) for name, p in layer.named_parameters()}
    table, ids, labels = rng.normal(size=(7, 12)), rng.integers(7, size=(2, 5)), rng.integers(12, size=10)
    for name, parameter in layer.named_parameters():
        parameter.data = parameters[name]
    used = Tensor(table, requires_grad=True)
    loss = ops.cross_entropy(layer(ops.embedding(ids, used)).reshape(10, 12), labels)
    loss.backward()

    ours, rows = {name: Value(array) for name, array in parameters.items()}, Value(table)
    result = cross_entropy(encoder_layer(rows[ids], ours, heads=3).reshape(10, 12), labels)
    result.backward()
    np.testing.assert_allclose(result.data, loss.data, rtol=1e-10)
    np.testing.assert_allclose(rows.grad, used.grad, rtol=1e-7, atol=1e-10)
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(ours[name].grad, parameter.grad, rtol=1e-7, atol=1e-10, err_msg=name)


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
