"""`detect_anomaly` reports the op, the shapes and the line of code."""

import inspect

import numpy as np
import pytest

from handloom.autograd import AnomalyError, Function, Tensor, detect_anomaly, function, no_grad, ops
from handloom.nn import Linear, Sequential
from tests.support.derivatives import leaf


def inside(function) -> str:
    """Return "file:line," for the first line of a function's body."""
    return f"test_anomaly.py:{inspect.unwrap(function).__code__.co_firstlineno + 1},"


def test_forward() -> None:
    x = leaf([1.0, 0.0])

    def calculate():
        y = ops.log(x * 1)
        return y * 2

    with detect_anomaly(), pytest.raises(AnomalyError) as raised:
        calculate()
    text = str(raised.value)
    assert text.startswith("Log made infinity from float64[2]")
    assert inside(calculate) in text
    assert "y = ops.log(x * 1)" in text


def test_nan_and_infinity_are_told_apart() -> None:
    with detect_anomaly():
        with pytest.raises(AnomalyError, match="Sqrt made NaN"):
            ops.sqrt(leaf([-1.0]))
        with pytest.raises(AnomalyError, match="Exp made infinity"):
            ops.exp(leaf([1e4]))
        with no_grad(), pytest.raises(AnomalyError, match=r"Divide made NaN from float64\[1\], float64\[1\]"):
            Tensor(np.zeros(1)) / Tensor(np.zeros(1))


def test_backward_names_the_forward_line() -> None:
    x = leaf([4.0, 0.0])

    def calculate():
        y = ops.sqrt(x)
        return (y * 2).sum()

    with detect_anomaly():
        z = calculate()
        with pytest.raises(AnomalyError) as raised:
            z.backward()
    text = str(raised.value)
    assert text.startswith("Sqrt.backward made infinity in the gradient of input 0, of shape (2,)")
    assert inside(calculate) in text
    assert x.grad is None


def test_a_graph_made_before() -> None:
    y = ops.sqrt(leaf([0.0]))
    with detect_anomaly(), pytest.raises(AnomalyError, match="called outside detect_anomaly"):
        y.backward()


def test_infinity_may_pass_and_masks_are_no_alarm() -> None:
    with detect_anomaly():
        scores = ops.where(np.array([True, False]), leaf([1.0, 2.0]), -np.inf)
        loss = ops.linear_cross_entropy(ops.softmax(scores)[None], leaf(np.ones((3, 2))), None, np.array([2]))
        loss.backward(retain_graph=True)  # returns arrays that the call held
        loss.backward()
        assert np.isneginf(ops.masked_fill(leaf([1.0, 2.0]), np.array([True, False]), -np.inf).data[0])
        with pytest.raises(AnomalyError, match="Subtract made NaN"):
            scores - scores


def test_nan_that_was_there_before() -> None:
    x = leaf([np.nan, 1.0])
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"Multiply: input 0 of shape \(2,\) already contains NaN"):
        x * 2


def test_the_layers_in_between_are_named() -> None:
    model = Sequential(Linear(2, 3), Linear(3, 1))
    model[0].weight.data[...] = 1.0
    model[1].weight.data[...] = 3e38
    x = Tensor(np.full((4, 2), 10.0, np.float32))

    def calculate():
        return model(x)

    with detect_anomaly(), pytest.raises(AnomalyError) as raised:
        calculate()
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("Linear made infinity from float32[4, 3], float32[1, 3], float32[1]")
    assert inside(calculate) in lines[1]
    assert lines[2].strip() == "return model(x)"
    assert lines[-1].endswith("in Linear.forward")


def test_bad_gradients_from_outside() -> None:
    x = leaf([1.0, 2.0])
    with detect_anomaly():
        with pytest.raises(
            AnomalyError, match=r"arrives at output 0 of Multiply contains NaN: it was passed to backward"
        ):
            (x * 2).backward(np.array([1.0, np.nan]))
        y = x * 2
        y.register_hook(lambda g: g * np.inf)
        with pytest.raises(AnomalyError, match="output 0 of Multiply contains infinity"):
            (y * 3).sum().backward()


class Scale(Function):
    """Multiply x by a table that is an attribute; keep x too."""

    def __init__(self, table):
        self.table = table

    def forward(self, x):
        self.keep(x)
        return x * self.table

    def backward(self, g):
        return g * self.table


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (0, r"Multiply: input 0 of shape \(2,\), which its backward pass needs, was changed"),
        (1, r"Multiply: input 1 of shape \(2,\), which its backward pass needs, was changed"),
        (2, r"Scale: table of shape \(2,\), which its backward pass needs, was changed"),
    ],
)
def test_writes_from_outside(write, message) -> None:
    x, constant, table = leaf([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])
    with detect_anomaly():
        y = Scale(table)(x * Tensor(constant)).sum()
        (x.data, constant, table)[write][0] = 9.0
        with pytest.raises(AnomalyError, match=message) as raised:
            y.backward()
    assert "y = Scale(table)(x * Tensor(constant)).sum()" in str(raised.value)


def test_off_again_whatever_happens() -> None:
    assert function.observer is None
    with pytest.raises(AnomalyError), detect_anomaly(), detect_anomaly():
        ops.log(leaf([0.0]))
    assert function.observer is None
    with detect_anomaly():
        with detect_anomaly():
            pass
        assert function.observer is not None
    assert function.observer is None
    with np.errstate(divide="ignore"):
        assert np.isneginf(ops.log(leaf([0.0])).data)
    decorate = detect_anomaly()
    with pytest.raises(AnomalyError):
        decorate(decorate(ops.log))(leaf([0.0]))
