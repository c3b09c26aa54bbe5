"""Several threads at once: graphs of their own over shared leaves, modes of their own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from handloom.autograd import Tensor, detect_anomaly, is_grad_enabled, no_grad, ops, tensor
from handloom.autograd.origin import Leaf


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


def test_the_mode_belongs_to_the_thread() -> None:
    seen: list[bool] = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
        assert not is_grad_enabled()
    assert seen == [True]


def test_a_decorated_function_in_many_threads() -> None:
    @no_grad()
    def inside(_: int) -> bool:
        return is_grad_enabled()

    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(inside, range(200)))
        assert all(pool.map(lambda _: is_grad_enabled(), range(8)))


def test_anomaly_detection_spans_threads() -> None:
    def work(_: int) -> float:
        x = Tensor(np.ones(3), requires_grad=True)
        (x * x).sum().backward()
        return float(x.grad[0])

    with detect_anomaly(), ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(50))) == {2.0}
