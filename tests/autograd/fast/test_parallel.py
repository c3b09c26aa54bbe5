"""Threads inside ops: each part runs once, errors reach the caller, results do not depend on the number of threads."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, ops, quick
from handloom.autograd.catalogue import CATALOGUE
from handloom.autograd.fast import compiled, parallel, products
from tests.support.implementations import computed, names_with, samples_of

COSTLY = 1e9  # nanoseconds per item: each item justifies a thread

pytestmark = pytest.mark.skipif(
    parallel._set_blas_threads is None, reason="the BLAS that NumPy uses can't be told its threads"
)


@pytest.fixture(autouse=True)
def three_threads(restored_threads: None) -> None:
    parallel.set_num_threads(3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
def test_every_item_once(count: int) -> None:
    seen = np.zeros(count, int)

    def body(start: int, stop: int) -> None:
        seen[start:stop] += 1

    parallel.parallel_for(np, count, body, COSTLY)
    assert (seen == 1).all()


@pytest.mark.parametrize("guilty", [0, 2])
def test_an_error_in_a_part_is_raised_and_the_next_call_works(guilty: int) -> None:
    def body(start: int, stop: int) -> None:
        if start <= guilty < stop:
            raise ValueError("part")

    with pytest.raises(ValueError, match="part"):
        parallel.parallel_for(np, 3, body, COSTLY)
    test_every_item_once(7)


def test_errstate_reaches_the_parts() -> None:
    out = np.ones(3)

    def body(start: int, stop: int) -> None:
        out[start:stop] /= np.zeros(stop - start)

    with np.errstate(divide="ignore"):
        parallel.parallel_for(np, 3, body, COSTLY)
    assert np.isinf(out).all()


class Signal(int):
    """A signal number. Reading `pending` simulates the signal, which Python handles at its next check for signals.

    `pending` is implemented in C. Python checks for no signals after it, so the trace function is not interrupted.
    """

    pending = property(_thread.interrupt_main)


@pytest.fixture
def ctrl_c() -> Iterator[Signal]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def nothing_is_torn() -> None:
    """Check that the next op computes on three threads and waits for all of them."""
    seen, barrier = np.zeros(3, int), threading.Barrier(3, timeout=300)

    def body(start: int, stop: int) -> None:
        barrier.wait()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        seen[start:stop] += 1

    parallel.parallel_for(np, 3, body, COSTLY)
    assert (seen == 1).all()
    assert not parallel.one_blas_thread.inside


def test_an_interrupt_after_any_instruction_tears_nothing(ctrl_c: Signal) -> None:
    count = at = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != parallel.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                sys.settrace(None)  # otherwise the next call of this function would handle the signal
                ctrl_c.pending  # noqa: B018  # see Signal
        return trace

    interrupted = 0
    while count >= at:
        count, at = 0, at + 1
        seen = np.zeros(3, int)

        def body(start: int, stop: int, seen: np.ndarray = seen) -> None:
            if start:
                time.sleep(0.001)
            seen[start:stop] += 1

        parallel._workers.clear()
        try:
            sys.settrace(trace)
            parallel.parallel_for(np, 3, body, COSTLY)
            sys.settrace(None)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        left = seen.copy()
        nothing_is_torn()
        np.testing.assert_array_equal(seen, left)  # no thread still works on an op that has ended
    assert interrupted == at - 1 > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    threads = parallel._get_blas_threads()
    test_every_item_once(7)
    child = os.fork()
    if not child:
        try:
            test_every_item_once(7)
            assert parallel._get_blas_threads() == threads
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


MATRICES = [
    *[((5, 4), (4, 7)), ((1, 8), (8, 5)), ((7, 3), (3, 1)), ((2, 3, 4), (4, 9)), ((2, 3, 4), (1, 4, 6))],
    *[((2, 1, 3, 4), (3, 4, 2)), ((3, 0), (0, 4)), ((0, 3), (3, 4))],
]
SUMS = [
    *[("ij,jk->ki", (5, 4), (4, 7)), ("bij,bjk->ik", (2, 3, 4), (2, 4, 8)), ("...ij,jk->...ik", (2, 1, 3, 4), (4, 2))],
    *[("bij,bjk->bik", (1, 3, 4), (6, 4, 2)), ("ij,ij->", (3, 4), (3, 4)), ("ij,jk->ik", (3, 1), (4, 5))],
    *[("ij,jk->ik", (0, 3), (3, 2)), ("ij,kj->ijk", (3, 0), (2, 0))],
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("equation", "left", "right"), [(None, *shapes) for shapes in MATRICES] + SUMS)
def test_a_divided_product(
    equation: str | None, left: tuple[int, ...], right: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "PART_NS", 1e-9)
    monkeypatch.setattr(products, "MIN_DIVIDED", 1)
    parallel.set_num_threads(threads)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(left), rng.standard_normal(right[::-1]).T
    found = (ops.einsum(equation, x, y) if equation else ops.matmul(x, y)).data
    expected = np.einsum(equation, x, y) if equation else x @ y
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, strict=True)


BESIDE_OTHERS = """
import threading
from functools import partial
import numpy as np
from handloom.autograd import Tensor, ops
from handloom.autograd.fast import parallel

def results(op, *arrays):
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    out = op(*leaves)
    out.backward(np.ones_like(out.data))
    return [array.tobytes() for array in (out.data, *(leaf.grad for leaf in leaves))]

rng = np.random.default_rng(0)
calls = []
for m, k, n in [(101, 513, 203), (33, 1000, 777), (255, 129, 1001), (1, 700, 3001), (700, 1031, 5), (64, 96, 64)]:
    x, y = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    calls += [partial(results, ops.matmul, x, y), partial(results, ops.linear, x, y.T.copy(), x[0, :1].repeat(n))]
    calls += [partial(results, ops.matmul, np.stack([x, x]), np.stack([y, y]))]
    calls += [partial(results, partial(ops.einsum, "ij,jk->ki"), x, y)]
calls.append(partial(results, ops.attention, *rng.standard_normal((3, 1, 3, 131, 45), np.float32)))
alone = [call() for call in calls]
begun, done = threading.Event(), threading.Event()

def body(start, stop):
    begun.set()
    done.wait(300)

other = threading.Thread(target=parallel.parallel_for, args=(np, 2, body, 1e9))
other.start()
begun.wait(300)
beside = [call() for call in calls]
done.set()
other.join()
among = {}

def compute(number):
    order = np.random.default_rng(number).permutation(len(calls))
    among[number] = dict(zip(order, [calls[i]() for i in order]))

four = [threading.Thread(target=compute, args=(number,)) for number in range(4)]
for thread in four:
    thread.start()
for thread in four:
    thread.join()
different = [i for i in range(len(calls)) if any(found[i] != alone[i] for found in (beside, *among.values()))]
print(parallel._get_blas_threads(), parallel.get_num_threads(), len(among), different)
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_a_call_has_the_bits_of_the_same_call_alone_whatever_other_threads_compute(threads: int) -> None:
    """The calls run alone, then while another thread is inside an op, then in four threads at once."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, "-c", BESIDE_OTHERS], capture_output=True, text=True, env=environment)
    given = min(threads, os.cpu_count() or 1)  # OpenBLAS has no more threads than there are processors
    assert (done.stdout.strip(), done.stderr) == (f"{given} {given} 4 []", "")


LEAVES_BLAS_ALONE = """
import os, threading
import numpy as np
from handloom import nn
from handloom.autograd import Tensor, ops
from handloom.autograd.fast import parallel

def threads():
    return parallel._get_blas_threads()

class Count:
    def __init__(self):
        self.set = threads()
    def check(self, where):
        assert threads() == self.set and not parallel.one_blas_thread.inside, (where, threads(), self.set)

count = Count()
x = np.random.default_rng(0).standard_normal((300, 200), np.float32)
layer = nn.Linear(200, 300)

def work():
    within = Tensor(x, requires_grad=True)
    out = ops.einsum("ij,kj->ik", ops.relu(layer(within)), layer(within)).sum() + ops.matmul(x, x.T).sum()
    out.backward()
    ops.attention(*np.ones((3, 1, 2, 200, 32), np.float32))

def fail():
    within = []
    def body(start, stop):
        within.append(threads())
        raise RuntimeError("part")
    for wrong in (lambda: parallel.parallel_for(np, 8, body, 1e9), lambda: ops.matmul(x, x), lambda: layer(x.T)):
        try:
            wrong()
        except (RuntimeError, ValueError):
            pass
        else:
            raise AssertionError("no error")
    assert set(within) == {1}, within

for chosen in (count.set, 1, count.set):
    parallel._set_blas_threads(chosen)  # as threadpoolctl does
    count.set = chosen
    work()
    count.check("a step")
    fail()
    count.check("errors")
    many = [threading.Thread(target=task) for task in (work, fail, work)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    count.check("threads")

if hasattr(os, "fork"):
    began, done = threading.Event(), threading.Event()
    def body(start, stop):
        began.set()
        done.wait(300)
    other = threading.Thread(target=parallel.parallel_for, args=(np, 2, body, 1e9))
    other.start()
    began.wait(300)
    child = os.fork()
    if not child:
        count.check("a forked child")
        work()
        count.check("a step of a forked child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    other.join()
    count.check("after a fork")
print("as it was")
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_the_threads_of_blas_are_the_persons_own_after_every_op(threads: int) -> None:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", LEAVES_BLAS_ALONE], capture_output=True, text=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("as it was", "")


def test_a_number_of_threads_must_be_positive() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        parallel.set_num_threads(0)


@pytest.mark.parametrize("least", [0, compiled.MIN_ARRAY_SIZE])  # for compiled loops, if Numba is installed
@pytest.mark.parametrize("name", names_with("cpu", "blocked", "standard", "in place"))
def test_values_and_gradients_do_not_depend_on_the_threads(
    name: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "MIN_ARRAY_SIZE", least)
    monkeypatch.setattr(parallel, "PART_NS", 1e-9)  # one item justifies a thread
    monkeypatch.setattr(quick, "PIECE", 8)  # small pieces in `blocks`
    for sample in samples_of(name, np.float32, 20):
        results = []
        for threads in (1, 3):
            parallel.set_num_threads(threads)
            results.append(computed(CATALOGUE[name], sample, False, "cpu"))
        for (what, _, one), (_, _, three) in zip(*results, strict=True):
            # BLAS may compute products of different sizes by different code, so the last bits can differ.
            scale = np.abs(one[np.isfinite(one)]).max(initial=1e-3)
            np.testing.assert_allclose(three, one, rtol=2e-5, atol=2e-5 * scale, err_msg=f"{what}: {sample}")


def test_masks_do_not_depend_on_the_threads() -> None:
    masks = []
    for threads in (1, 3):
        parallel.set_num_threads(threads)
        masks.append(Generator(5).keep_mask((1 << 18,), 0.3)[0])
    assert (masks[0] == masks[1]).all()
    assert abs(masks[0].mean() - 0.7) < 0.005
