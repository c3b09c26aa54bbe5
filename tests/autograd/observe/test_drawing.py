"""`draw_graph` draws graphs as DOT text."""

import numpy as np
import pytest

from handloom.autograd import Tensor, draw_graph, ops
from handloom.nn import Linear, Sequential


def test_dot_shows_calls_shapes_and_parameter_names() -> None:
    model = Sequential(Linear(2, 3), Linear(3, 1))
    result = ops.relu(model(Tensor(np.ones((4, 2), np.float32)))).sum()
    dot = draw_graph(result, module=model)
    assert dot.startswith("digraph")
    assert dot.count('label="Linear\\nplain"') == 2  # with the implementation that was used
    for label in ("0.weight\\nfloat32[3, 2]", "1.bias\\nfloat32[1]", "ReLU", "Sum", "result\\nfloat32[]"):
        assert f'label="{label}"' in dot
    assert dot.count("->") == 2 * 3 + 2  # three operands per layer (without the constant input), relu, sum, result
    assert draw_graph(result, module=model) == dot  # drawing changes nothing
    assert "leaf\\nfloat32[3, 2]" in draw_graph(result)


def test_repeated_use_is_drawn_as_often() -> None:
    x = Tensor(np.ones(2), requires_grad=True)
    y = x * x
    dot = draw_graph(y + y)
    assert dot.count('label="float64[2]"') == 5
    assert dot.count("shape=ellipse") == 1


def test_what_can_not_be_drawn() -> None:
    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="no graph was recorded"):
        draw_graph(x.detach() * 2)
    y = x * 2
    y.backward()
    with pytest.raises(RuntimeError, match=r"backward\(\) freed the graph: draw it before"):
        draw_graph(y)
    assert "leaf" in draw_graph(x)


def test_a_deep_graph() -> None:
    y = x = Tensor([1.0], requires_grad=True)
    for _ in range(5000):
        y = y * 1.0
    assert draw_graph(y).count("Multiply") == 5000
    assert x.grad is None
