"""Several threads inside one operation.

The large ops divide their rows into as many parts as there are threads and compute all parts at once; NumPy and BLAS
release Python's lock. This is faster than leaving the threads to BLAS, which can use them only in matrix products:
everything between the products (softmax, dropout, normalisation) then runs on all of them too, on numbers that are
still in the cache.

While an op computes large products, NumPy's BLAS has one thread (`one_blas_thread`). The number of its threads belongs
to the process, and the last bits of a product depend on it. So the first op that begins sets it, and the last that ends
restores it: the bits of an op don't depend on what other Python threads do, and other NumPy code of the process has all
threads of BLAS as soon as no op is computing.

The number of threads is the one that BLAS had when this module was imported (`OPENBLAS_NUM_THREADS` and the like decide
it) unless `set_num_threads` says otherwise. If the BLAS can't be set to one thread, the ops run in one part, and the
BLAS uses its threads.
"""

import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import get_ident
from typing import Any

import numpy as np

from .. import quick
from ..backend import blas_of_numpy, openblas_function

#: Nanoseconds of work that justify waking a thread, which takes some 40 microseconds. The ops' costs on one core are
#: rough: an error of 50 % only changes which small calls run on one thread. Results do not depend on them.
PART_NS = 1e5
#: Multiply-adds of a matrix product that one core does in a nanosecond; (m, k) by (k, n) takes m k n of them.
FLOPS = 50
#: BLAS uses one thread for products with at most so many multiplications; its own limit for a vector is 9,216.
MIN_SHARED, MIN_SHARED_VECTOR = 1 << 18, 1 << 13

Body = Callable[[int, int], None]


class _Job:
    """The parts of an op. The calling thread and the worker threads take them one by one.

    An interrupt can reach the calling thread between any two instructions. It therefore uses no counter and no lock:
    all state to be undone is an entry in a list or a set, and `end` can be called twice.
    """

    def __init__(self, run: Callable[[int], None], parts: int):
        self.left = [partial(run, part) for part in reversed(range(parts))]
        self.context = contextvars.copy_context()  # np.errstate lives in it
        self.helpers: set[int] = set()
        self.bell: SimpleQueue[None] = SimpleQueue()
        self.errors: list[BaseException] = []

    def work(self) -> None:
        """Compute parts until all are taken."""
        while True:
            try:
                part = self.left.pop()
            except IndexError:
                return
            part()

    def help(self) -> None:
        """Compute parts in a worker thread, where no interrupts occur: Python handles signals in the main thread."""
        me = get_ident()
        self.helpers.add(me)  # before it takes a part, so that `end` waits for this worker or has left no part
        try:
            self.context.copy().run(self.work)
        except BaseException as error:
            self.errors.append(error)
        self.helpers.discard(me)
        self.bell.put(None)

    def end(self) -> None:
        """Wait for the workers, even after Ctrl-C, because they write into arrays of the op."""
        self.left.clear()
        while self.helpers:
            try:
                self.bell.get()
            except KeyboardInterrupt as error:
                self.errors.append(error)


def _serve(inbox: SimpleQueue[_Job]) -> None:
    while True:
        inbox.get().help()


def _inboxes(count: int) -> list[SimpleQueue[_Job]]:
    """Return the queues of `count` workers, one queue each, since a shared queue would wake only one waiting worker."""
    while len(_workers) < count:
        inbox: SimpleQueue[_Job] = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), name="handloom", daemon=True).start()
        _workers.append(inbox)
    return _workers[:count]


# A call in a thirtieth of the time where a processor has many cores, not in older versions, returns the former number.
_exchange = openblas_function("set_num_threads_local")
_get_blas_threads = openblas_function("get_num_threads")
_set_blas_threads = _exchange or openblas_function("set_num_threads", None)
_threads = max(blas_of_numpy().threads, 1) if _set_blas_threads else 1


class _OneBlasThread:
    """Context manager: BLAS has one thread, in the whole process, until the last thread has left the block.

    An interrupt may end `__enter__` or `__exit__` after any instruction. The thread is then still in `inside`, and
    `before` holds the right number, so its next block restores what this one didn't. Blocks are not nested.
    """

    def __init__(self) -> None:
        self.lock, self.before = threading.RLock(), _threads
        self.inside: set[int] = set()

    def __enter__(self) -> None:
        if _set_blas_threads is None or _get_blas_threads is None or (not self.inside and _get_blas_threads() == 1):
            return
        with self.lock:
            if not self.inside:
                self.before = _get_blas_threads()
            self.inside.add(get_ident())
            _set_blas_threads(1)

    def __exit__(self, *exception: object) -> None:
        if not self.inside:  # BLAS had one thread before
            return
        me = get_ident()
        with self.lock:
            if len(self.inside) == 1 and me in self.inside and _set_blas_threads is not None:
                _set_blas_threads(self.before)
            self.inside.discard(me)

    def forked(self) -> None:
        """Restore the number in a forked child: the other threads, which may be in a block, don't exist there."""
        self.lock = threading.RLock()
        if self.inside and _set_blas_threads is not None:
            self.inside.clear()
            _set_blas_threads(self.before)


one_blas_thread = _OneBlasThread()
_workers: list[SimpleQueue[_Job]] = []
_chosen: int | None = None


def set_num_threads(count: int | None) -> None:
    """Set the number of threads of large ops, at least 1; None: as many as BLAS had when handloom was imported."""
    global _chosen
    if count is not None and count < 1:
        raise ValueError(f"set_num_threads: {count} threads")
    _chosen = count


def get_num_threads() -> int:
    """Return the number of threads of a large op."""
    return _chosen or _threads if _set_blas_threads else 1


@quick.replaces(quick.parallel_for)
def parallel_for(xp: Any, count: int, body: Body, cost: float) -> None:
    """Divide range(count) into one part per thread, call body(start, stop) for each part, and wait for all threads.

    The arguments are those of `quick.parallel_for`. Since the number of parts must not change the result, sums over
    range(count) must be computed in pieces of a fixed size and added afterwards. The parts don't depend on other Python
    threads, so an op gives the same bits when other ops run at the same time.
    """
    parallel_jobs(xp, [(count, body, cost)])


def parallel_jobs(xp: Any, jobs: Sequence[tuple[int, Body, float]]) -> None:
    """Run independent jobs (count, body, cost), as `parallel_for` runs one; each thread runs a part of each job."""
    price = most = dearest = 0.0
    for count, _, cost in jobs:
        price, most, dearest = price + count * cost, max(most, count), max(dearest, count * cost)
    threads = get_num_threads() if xp is np else 1
    parts = max(min(threads, int(most), int(price / PART_NS)), 1)
    if parts > 1 or (dearest * FLOPS > MIN_SHARED + 1 and xp is np):
        with one_blas_thread:
            _run_parts(jobs, parts)
    else:
        for count, body, _ in jobs:
            body(0, count)


def _run_parts(jobs: Sequence[tuple[int, Body, float]], parts: int) -> None:
    if parts == 1:
        for count, body, _ in jobs:
            body(0, count)
        return

    def run(part: int) -> None:
        for count, body, _ in jobs:
            body(count * part // parts, count * (part + 1) // parts)

    job = _Job(run, parts)
    try:
        try:
            for inbox in _inboxes(parts - 1):
                inbox.put(job)
            job.work()
        finally:
            job.end()
    finally:
        job.end()  # again, because an interrupt may have cut the first call short
    if job.errors:
        raise job.errors.pop()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    # A forked child has no threads: new ones start when an op needs them.
    os.register_at_fork(after_in_child=_workers.clear)
    os.register_at_fork(after_in_child=one_blas_thread.forked)
