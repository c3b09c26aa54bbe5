"""Several threads inside one operation.

The large ops divide their rows into as many parts as there are threads and compute all parts at once; NumPy and BLAS
release Python's lock. A part calls BLAS with one thread. That is faster than leaving the threads to BLAS, which can use
them only in matrix products: everything between the products (softmax, dropout, normalisation) then runs
on all of them too, on numbers that are still in the cache.

The number of threads is BLAS's own (`OPENBLAS_NUM_THREADS` and the like decide it) unless `set_num_threads` says
otherwise. Where the BLAS can't be told to use one thread, the ops run in one part and leave the threads to it.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .blas import openblas_function

#: Nanoseconds of work that pay for waking a thread, which takes some 40 microseconds.
PART = 1e5
#: Nanoseconds of work below which a job isn't worth telling BLAS to use one thread, which takes 5 microseconds.
LEAST = 2e4

Body = Callable[[int, int], None]

#: Elements processed at a time by the ops that go over them more than once: a few such arrays fit into a core's cache.
#: A constant, since sums over rows are taken by pieces: with another length their last bits would change. Ops without
#: such sums cut their arrays by the machine's own cache (`processor.blocks`).
PIECE = 1 << 17


class _Worker:
    """A thread that waits for tasks."""

    def __init__(self) -> None:
        self.begin, self.end = threading.Lock(), threading.Lock()
        self.begin.acquire()
        self.end.acquire()
        self.task: Callable[[], None] | None = None
        self.error: BaseException | None = None
        threading.Thread(target=self._work, name="handloom", daemon=True).start()

    def _work(self) -> None:
        while True:
            self.begin.acquire()
            try:
                if self.task is not None:
                    self.task()
            except BaseException as error:
                self.error = error
            self.task = None
            self.end.release()

    def start(self, task: Callable[[], None]) -> None:
        self.task, self.error = task, None
        self.begin.release()


_get_blas_threads = openblas_function("get_num_threads")
_set_blas_threads = openblas_function("set_num_threads", None)
_workers: list[_Worker] = []
_turn = threading.Lock()  # held while one op uses the workers; another thread's ops run in one part meanwhile
_chosen: int | None = None
_limits_lock = threading.Lock()
_limits = 0  # how many want BLAS to use one thread now
_blas_threads = 0  # its own number, while it is limited


def set_num_threads(count: int | None) -> None:
    """Let the large ops use `count` threads, or None for as many as BLAS uses.

    Raises ValueError for a count below 1.
    """
    global _chosen
    if count is not None and count < 1:
        raise ValueError(f"set_num_threads: {count} threads")
    _chosen = count


def get_num_threads() -> int:
    """The number of threads of a large op."""
    if _set_blas_threads is None:
        return 1
    if _chosen is not None:
        return _chosen
    with _limits_lock:
        return _blas_threads if _limits else max(int(_get_blas_threads()), 1)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within the block BLAS uses one thread, and the large ops as many as before.

    For work that alternates between small products outside the ops and the ops' threads: after a product on several
    threads BLAS keeps its own turning for a tenth of a second, and they take the processors from ours.
    """
    _limit_blas()
    try:
        yield
    finally:
        _free_blas()


def _limit_blas() -> None:
    global _limits, _blas_threads
    if _set_blas_threads is None:
        return
    with _limits_lock:
        if not _limits:
            _blas_threads = max(int(_get_blas_threads()), 1)
            _set_blas_threads(1)
        _limits += 1


def _free_blas() -> None:
    global _limits
    if _set_blas_threads is None:
        return
    with _limits_lock:
        _limits -= 1
        if not _limits:
            _set_blas_threads(_blas_threads)


def parallel_for(xp: Any, count: int, body: Body, cost: float) -> None:
    """Call body(start, stop) for parts of range(count) that cover it, one per thread, and wait for all.

    `xp` is the arrays' module: what a device computes stays in one part. `cost` is the rough time of one item in
    nanoseconds: waking a thread takes some 40 microseconds, and a part pays off from 100 on. The parts must not
    depend on each other, and their number must not change the result: sums over range(count) are kept by pieces of a
    fixed size, and added afterwards.
    """
    parallel_jobs(xp, [(count, body, cost)])


def parallel_jobs(xp: Any, jobs: Sequence[tuple[int, Body, float]]) -> None:
    """`parallel_for` for several independent jobs (count, body, cost): a thread does its part of each."""
    price, most = sum(count * cost for count, _, cost in jobs), max((count for count, _, _ in jobs), default=0)
    threads = get_num_threads() if xp is np else 1
    parts = max(min(threads, most, int(price / PART)), 1)
    left_to_blas = threads < 2 or (parts == 1 and not LEAST <= price < 2 * PART)
    if left_to_blas or not _turn.acquire(blocking=False):
        for count, body, _ in jobs:
            body(0, count)
        return

    def run(part: int) -> None:
        for count, body, _ in jobs:
            body(count * part // parts, count * (part + 1) // parts)

    # Small jobs in one part too: see `one_blas_thread`.
    _limit_blas()
    used: list[_Worker] = []
    try:
        while len(_workers) < parts - 1:
            _workers.append(_Worker())
        for part, worker in enumerate(_workers[: parts - 1], 1):
            context = contextvars.copy_context()  # np.errstate lives in it
            worker.start(partial(context.run, run, part))
            used.append(worker)
        run(0)
    finally:
        interrupted = _wait(used)
        _free_blas()
        _turn.release()
    for worker in used:
        if worker.error is not None:
            error, worker.error = worker.error, None
            raise error
    if interrupted is not None:
        raise interrupted


def pieces(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of start..stop, each so many rows of `width` numbers that several arrays of them stay in the cache."""
    length = max(PIECE // max(width, 1), 1)
    for first in range(start, stop, length):
        yield slice(first, min(first + length, stop))


def _wait(workers: list[_Worker]) -> KeyboardInterrupt | None:
    """Wait until all are done, even if Ctrl-C comes meanwhile: their parts write into arrays that this op owns."""
    interrupted = None
    for worker in workers:
        while True:
            try:
                worker.end.acquire()
                break
            except KeyboardInterrupt as error:
                interrupted = error
    return interrupted


def _forget_workers() -> None:
    """In a forked child the threads are gone; new ones are started when an op asks for them."""
    global _turn, _limits, _limits_lock
    _workers.clear()
    _turn, _limits_lock = threading.Lock(), threading.Lock()
    if _limits:
        _limits = 0
        _set_blas_threads(_blas_threads)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_forget_workers)
