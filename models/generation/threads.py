"""Array work on several threads: NumPy lets go of the interpreter while it computes.

Matrix products have threads of their own, in the linear algebra library; this is for the rest of a decoding step.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def thread_count() -> int:
    """As many as the linear algebra library was told to take, or else as there are processors."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(variable, "").isdecimal():
            return max(int(os.environ[variable]), 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One for each process: threads don't survive a fork."""
    return ThreadPoolExecutor(thread_count() - 1, thread_name_prefix="handloom-generation")


def in_parts(work: Callable[[slice], None], length: int, smallest: int) -> None:
    """Call `work` for slices that make up range(length), side by side; none is shorter than `smallest` of them."""
    parts = min(thread_count(), length // max(smallest, 1))
    if parts < 2:
        work(slice(0, length))
        return
    bounds = [length * part // parts for part in range(parts + 1)]
    slices = [slice(*pair) for pair in itertools.pairwise(bounds)]
    others = [_pool(os.getpid()).submit(work, part) for part in slices[1:]]
    work(slices[0])
    for other in others:
        other.result()
