"""Memory that large ops use again: two arrays that exist never share it, and little is kept when none exists."""

import threading

import numpy as np
import pytest

from handloom.autograd import Tensor, ops
from handloom.autograd.fast import buffers
from handloom.autograd.ops.recurrence import lstm_step


@pytest.fixture(autouse=True)
def no_free_memory() -> None:
    buffers._free.clear()


def test_memory_is_used_again_when_no_view_of_an_array_exists() -> None:
    first = buffers.buffer((3, 5), np.float32)
    part, address = first[1:, 2], first.ctypes.data
    del first
    other = buffers.buffer((3, 5), np.float32)
    assert other.ctypes.data != address
    assert not np.shares_memory(other, part)
    del part
    again = buffers.buffer((4, 4), np.float32)  # of the same size class
    assert again.ctypes.data == address
    assert again.flags.writeable
    assert again.flags.c_contiguous
    assert buffers.buffer((0, 4), np.float64).shape == (0, 4)
    assert buffers.buffer((), np.int8).shape == ()


def test_at_most_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "LIMIT", 3000)
    arrays = [buffers.buffer((1000,), np.uint8) for _ in range(4)]
    del arrays
    assert sum(memory.size for free in buffers._free.values() for memory in free) == 2048


def test_threads_never_get_the_same_memory() -> None:
    wrong: list[int] = []

    def use(number: int) -> None:
        for _ in range(300):
            array = buffers.buffer((64,), np.int64)
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_and_gradients_of_a_recurrence_outlive_the_next_pass() -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 3, 8), (8, 2), (8,), (2, 2), (2, 2)
    leaves = [Tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]

    def passed() -> list[np.ndarray]:
        out, h, c = ops.recurrence(*leaves, step=lstm_step)
        for leaf in leaves:
            leaf.grad = None
        (out * out).sum().backward()
        return [out.data, h.data, c.data, *(leaf.grad for leaf in leaves)]

    first = passed()
    kept = [array.copy() for array in first]
    leaves[0].data[:] += 1
    leaves[0].mark_changed()
    passed()
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
