"""Several threads at once: each thread has its own graphs, over shared leaf tensors, and its own gradient mode."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Function, Tensor, enable_grad, grad, is_grad_enabled, no_grad, ops, tensor
from handloom.autograd.origin import Leaf
from tests.support.work import in_threads


def test_two_threads_differentiate_graphs_that_share_leaves() -> None:
    weights = [Tensor(np.full((8, 8), 0.1), requires_grad=True) for _ in range(6)]
    workers, rounds = 4, 25
    ready = threading.Barrier(workers)

    def work(number: int) -> None:
        x = Tensor(np.full((4, 8), float(number)))
        ready.wait()
        for _ in range(rounds):
            y = x
            for weight in weights:
                y = ops.tanh(y @ weight) + y
            y.sum().backward()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    together = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    ready = threading.Barrier(1)
    for number in range(workers):
        work(number)
    for weight, gradient in zip(weights, together, strict=True):
        np.testing.assert_allclose(gradient, weight.grad, rtol=1e-12)


def test_threads_that_meet_a_leaf_for_the_first_time_agree_on_it(monkeypatch) -> None:
    class SlowLeaf(Leaf):
        __slots__ = ()

        def __init__(self, *args):
            time.sleep(0.01)
            super().__init__(*args)

    monkeypatch.setattr(tensor, "Leaf", SlowLeaf)
    x = Tensor(np.ones(2), requires_grad=True)
    ready = threading.Barrier(4)

    def meet(_: int) -> object:
        ready.wait()
        return x.origin

    with ThreadPoolExecutor(4) as pool:
        assert all(origin is x.origin for origin in list(pool.map(meet, range(4))))


class Interrupted(Function):
    """The square of x. While its backward rule runs, another thread makes a backward pass through the same call."""

    other: Any = None

    def forward(self, x):
        self.save(x)
        return x * x

    def backward(self, g):
        if Interrupted.other is not None:
            work, Interrupted.other = Interrupted.other, None
            in_threads(work)
        (x,) = self.saved
        return 2 * g * x


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("other_recorded", [False, True])
def test_two_passes_through_one_call(recorded, other_recorded) -> None:
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = Interrupted()(x)
    found = []
    Interrupted.other = lambda: found.append(grad(y, x, np.ones(2), create_graph=other_recorded, retain_graph=True))
    found.append(grad(y, x, np.ones(2), create_graph=recorded, retain_graph=True))
    for gradient, is_recorded in zip(found, (other_recorded, recorded), strict=True):
        np.testing.assert_array_equal(gradient.data, 2 * x.data)
        if is_recorded:
            np.testing.assert_array_equal(grad(gradient.sum(), x).data, [2.0, 2.0])


def test_a_decorated_function_in_many_threads() -> None:
    @no_grad()
    def inside() -> bool:
        time.sleep(1e-3)
        return is_grad_enabled()

    def restored(number: int) -> bool:
        with (no_grad, enable_grad)[number % 2]():
            return not inside() and is_grad_enabled() == number % 2

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(restored, range(100)))
