"""The engine's overhead per op stays small: this test counts calls, and the benchmark measures microseconds."""

import numpy as np
import pytest

from benchmarks import overhead
from handloom.autograd import Tensor, no_grad
from tests.support.work import calls_in

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["add", "tanh"])
def test_an_op_costs_a_few_calls(name) -> None:
    """About ten Python calls take one or two microseconds, the overhead that an op may add to NumPy's time."""
    op, ones = overhead.OPS[name], np.ones((4, 4), np.float32)
    leaf, fixed = Tensor(ones, requires_grad=True), Tensor(ones)

    def chain(links: int) -> Tensor:
        x = leaf
        for _ in range(links):
            x = op.handloom(x, fixed)
        return x

    def calls_a_link(calls) -> float:
        return (calls(30) - calls(10)) / 20

    def forward(links: int) -> int:
        return calls_in(lambda: chain(links))

    def backward(links: int) -> int:
        end = chain(links)
        return calls_in(lambda: end.backward(ones))

    assert calls_a_link(forward) < 30
    assert calls_a_link(backward) < 26
    with no_grad():
        assert calls_a_link(forward) < 20
