"""Time and memory of a computation, on a CPU and on a GPU."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from ..backend import import_cupy


def seconds(run: Callable[[], Any], repeats: int, device: str) -> float:
    """Return the median time of several calls of `run`, after one call for warm-up."""

    def once() -> float:
        _finish(device)
        start = time.perf_counter()
        run()
        _finish(device)
        return time.perf_counter() - start

    once()
    return sorted(once() for _ in range(repeats))[repeats // 2]


def peak_bytes(run: Callable[[], Any], device: str) -> int:
    """Return the peak memory of a call of `run`, without the memory already in use before the call."""
    if device == "cpu":
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    pool = import_cupy().get_default_memory_pool()
    _finish(device)
    pool.free_all_blocks()
    before = pool.total_bytes()
    run()
    _finish(device)
    return pool.total_bytes() - before


def _finish(device: str) -> None:
    if device != "cpu":
        import_cupy().cuda.Device().synchronize()
