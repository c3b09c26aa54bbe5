"""Observers stack and cost nothing after they exit; record() keeps every call with its values and gradients."""

import numpy as np
import pytest

from handloom.autograd import Tensor, function, ops
from handloom.autograd.observe.observing import Observer
from handloom.explorer.recording import record, running_modules
from handloom.nn import Linear, Sequential
from tests.support.work import in_threads


def test_a_recording_holds_values_and_gradients() -> None:
    x = Tensor(np.array([[1.0, -2.0], [3.0, 0.5]]), requires_grad=True)
    with record() as recording:
        y = ops.tanh(x * x)
        loss = (y * y).sum()
        loss.backward()
    names = [seen.call.name for seen in recording.calls if seen.call.number >= 0]
    assert names == ["Multiply", "Tanh", "Multiply", "Sum"]
    tanh = recording.calls[1]
    np.testing.assert_array_equal(tanh.inputs[0], x.data**2)
    np.testing.assert_array_equal(tanh.outputs[0], np.tanh(x.data**2))
    np.testing.assert_allclose(tanh.output_gradients[0], 2 * tanh.outputs[0])
    np.testing.assert_allclose(tanh.input_gradients[0], 2 * tanh.outputs[0] * (1 - tanh.outputs[0] ** 2))
    np.testing.assert_allclose(2 * x.data * tanh.input_gradients[0], x.grad)
    assert function.observer is None


def test_observers_stack_and_go_in_any_order() -> None:
    seen: list[str] = []

    class Noting(Observer):
        def __init__(self, name: str):
            self.name = name

        def forward(self, call, arrays):
            seen.append(self.name)
            return super().forward(call, arrays)

    first, second = Noting("first").__enter__(), Noting("second").__enter__()
    ops.exp(Tensor(1.0))
    assert seen == ["second", "first"]
    with pytest.raises(ValueError, match="is already active"):
        first.__enter__()
    first.__exit__()
    ops.exp(Tensor(1.0))
    assert seen == ["second", "first", "second"]
    second.__exit__()
    ops.exp(Tensor(1.0))
    assert seen == ["second", "first", "second"]
    assert function.observer is None


def test_a_recording_is_of_one_thread() -> None:
    with record() as recording:
        in_threads(lambda: ops.exp(Tensor(1.0)))
    assert recording.calls == []


def test_a_model_says_which_of_its_modules_is_running() -> None:
    shared = Linear(3, 3)
    model = Sequential(Linear(2, 3), shared, shared)
    x = Tensor(np.ones((1, 2), np.float32))
    with running_modules(model) as running, record(lambda: "/".join(running)) as recording:
        model(x)
        assert running == []
    assert [seen.label for seen in recording.calls] == ["/0", "/1", "/1"]
    assert not any("forward" in vars(module) for module in model.modules())
