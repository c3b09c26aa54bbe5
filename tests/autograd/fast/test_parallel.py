"""Threads inside ops: every part is done once, errors arrive, and the numbers don't depend on how many there are."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, quick
from handloom.autograd.catalogue import CATALOGUE
from handloom.autograd.fast import parallel
from tests.support.implementations import computed, names_with, samples_of

COSTLY = 1e9  # nanoseconds an item: always worth a thread

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


def test_parts_run_in_threads_of_their_own_and_blas_keeps_its_number() -> None:
    before, threads = parallel._get_blas_threads(), set()
    barrier = threading.Barrier(3, timeout=300)  # breaks unless all three run at once

    def body(start: int, stop: int) -> None:
        barrier.wait()
        threads.add((threading.get_ident(), parallel._get_blas_threads()))

    parallel.parallel_for(np, 3, body, COSTLY)
    assert len(threads) == 3
    assert {count for _, count in threads} == {1}
    assert parallel._get_blas_threads() == before


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    before = parallel._get_blas_threads()
    parallel._set_blas_threads(2)
    yield
    parallel._set_blas_threads(before)


def blas_threads(count: int, cost: float) -> set[int]:
    """The numbers of BLAS's threads in the parts of a job."""
    seen = set()
    parallel.parallel_for(np, count, lambda start, stop: seen.add(parallel._get_blas_threads()), cost)
    return seen


def test_a_small_job_gets_one_blas_thread_and_a_large_one_that_cannot_be_divided_keeps_them(
    two_blas_threads: None,
) -> None:
    assert blas_threads(1, parallel.MIN_PARALLEL_NS) == {1}
    assert blas_threads(100, parallel.MIN_PARALLEL_NS / 50) == {1}
    assert blas_threads(100, parallel.MIN_PARALLEL_NS / 200) == {2}  # so small that BLAS itself hardly divides it
    assert blas_threads(1, COSTLY) == {2}
    assert parallel._get_blas_threads() == 2


def test_one_blas_thread_leaves_the_ops_theirs(two_blas_threads: None) -> None:
    parallel.set_num_threads(None)
    with parallel.one_blas_thread(), parallel.one_blas_thread():
        assert parallel._get_blas_threads() == 1
        assert parallel.get_num_threads() == 2
        assert blas_threads(2, COSTLY) == {1}
    assert parallel._get_blas_threads() == parallel.get_num_threads() == 2


def test_blas_gets_its_threads_back_when_the_last_of_several_threads_is_done(two_blas_threads: None) -> None:
    parallel.set_num_threads(None)
    first, second = threading.Event(), threading.Event()

    def search() -> None:
        with parallel.one_blas_thread():
            first.set()
            second.wait(300)

    other = threading.Thread(target=search)
    other.start()
    first.wait(300)

    def body(start: int, stop: int) -> None:
        if start == 0:
            second.set()
            other.join()  # the other search ends while this job runs
            assert parallel._get_blas_threads() == 1

    parallel.parallel_for(np, 2, body, COSTLY)
    assert parallel._get_blas_threads() == parallel.get_num_threads() == 2


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


def test_an_op_computes_the_same_parts_with_one_blas_thread_whoever_else_computes(two_blas_threads: None) -> None:
    inner: list[tuple[int, int]] = []
    beside: list[tuple[int, int, int]] = []
    begun, alone = threading.Event(), threading.Event()

    def other(start: int, stop: int) -> None:
        begun.set()
        alone.wait(300)
        beside.append((start, stop, parallel._get_blas_threads()))

    thread = threading.Thread(target=lambda: parallel.parallel_for(np, 3, other, COSTLY))

    def body(start: int, stop: int) -> None:
        if start == 0:
            parallel.parallel_for(np, 9, lambda a, b: inner.append((a, b)), COSTLY)
            thread.start()
            begun.wait(300)

    parallel.parallel_for(np, 3, body, COSTLY)
    alone.set()
    thread.join()
    assert sorted(inner) == [(0, 3), (3, 6), (6, 9)]
    assert sorted(beside) == [(0, 1, 1), (1, 2, 1), (2, 3, 1)]


class Signal(int):
    """A signal's number. Reading `pending` lets the signal arrive, to be handled where Python next looks for signals.

    A property implemented in C: Python does not look for signals after it, so the trace function itself isn't hit.
    """

    pending = property(_thread.interrupt_main)


@pytest.fixture
def ctrl_c() -> Iterator[Signal]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def nothing_is_torn(threads: int) -> None:
    """BLAS has its threads, and the next op computes on three threads and waits for all of them."""
    assert parallel._get_blas_threads() == threads
    seen, barrier = np.zeros(3, int), threading.Barrier(3, timeout=300)

    def body(start: int, stop: int) -> None:
        barrier.wait()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        seen[start:stop] += 1

    parallel.parallel_for(np, 3, body, COSTLY)
    assert (seen == 1).all()


def test_an_interrupt_after_any_instruction_tears_nothing(ctrl_c: Signal, two_blas_threads: None) -> None:
    count = at = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != parallel.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                sys.settrace(None)  # or the signal would be handled in the next call of this function
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
        nothing_is_torn(2)
        np.testing.assert_array_equal(seen, left)  # nobody still works on an op that has ended
    assert interrupted == at - 1 > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    test_every_item_once(7)
    child = os.fork()
    if not child:
        try:
            test_every_item_once(7)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_number_of_threads_must_be_positive() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        parallel.set_num_threads(0)


@pytest.mark.parametrize("name", names_with("cpu", "blocked", "standard", "in place"))
def test_values_and_gradients_do_not_depend_on_the_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PART_NS", 1e-9)  # each item pays for a thread
    monkeypatch.setattr(quick, "PIECE", 8)  # for `blocks`
    for sample in samples_of(name, np.float32, 20):
        results = []
        for threads in (1, 3):
            parallel.set_num_threads(threads)
            results.append(computed(CATALOGUE[name], sample, False, "cpu"))
        for (what, _, one), (_, _, three) in zip(*results, strict=True):
            # Products of other sizes may take other paths through the BLAS: the last bits can differ.
            scale = np.abs(one[np.isfinite(one)]).max(initial=1e-3)
            np.testing.assert_allclose(three, one, rtol=2e-5, atol=2e-5 * scale, err_msg=f"{what}: {sample}")


def test_masks_do_not_depend_on_the_threads() -> None:
    masks = []
    for threads in (1, 3):
        parallel.set_num_threads(threads)
        masks.append(Generator(5).keep_mask((1 << 18,), 0.3)[0])
    assert (masks[0] == masks[1]).all()
    assert abs(masks[0].mean() - 0.7) < 0.005
