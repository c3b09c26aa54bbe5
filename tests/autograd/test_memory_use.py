"""How much memory a graph holds, and when it lets go of it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from handloom.autograd import Tensor, ops

MEGABYTE = 2**20


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_activations_are_freed_while_the_backward_pass_goes_on(traced) -> None:
    """Each call saves its output (1 MB); gradients are as large. Kept until the end, they would double the peak."""
    depth = 20
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x
    for _ in range(depth):
        y = ops.tanh(y)
    loss = y.sum()
    del y
    held = tracemalloc.get_traced_memory()[0]
    assert held > depth * MEGABYTE
    tracemalloc.reset_peak()
    loss.backward()
    now, peak = tracemalloc.get_traced_memory()
    assert peak - held < 6 * MEGABYTE
    assert now < 3.5 * MEGABYTE  # x, its gradient


def test_values_that_no_rule_saved_are_free_to_go(traced) -> None:
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x
    for _ in range(20):
        y = y + 1.0
    assert tracemalloc.get_traced_memory()[0] < 3.5 * MEGABYTE
    y.backward(np.ones(y.shape, np.float32))
    np.testing.assert_array_equal(x.grad[:3], [1.0, 1.0, 1.0])


def test_accumulating_a_gradient_takes_one_buffer(traced) -> None:
    x = Tensor(np.zeros(MEGABYTE // 4, np.float32), requires_grad=True)
    y = x * 1.0
    for _ in range(20):
        y = y + x
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    y.backward(np.broadcast_to(np.float32(1), y.shape))
    assert tracemalloc.get_traced_memory()[1] - held < 4.5 * MEGABYTE
    np.testing.assert_array_equal(x.grad[:2], [21.0, 21.0])
