"""The memory of a computation, on a CPU and on a GPU."""

import tracemalloc
from collections.abc import Callable
from typing import Any

from ..backend import import_cupy


def peak_bytes(run: Callable[[], Any], device: str) -> int:
    """Return the peak memory of a call of `run`, without the memory already in use before the call."""
    if device == "cpu":
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    cupy = import_cupy()
    pool = cupy.get_default_memory_pool()
    cupy.cuda.Device().synchronize()
    pool.free_all_blocks()
    before = pool.total_bytes()
    run()
    cupy.cuda.Device().synchronize()
    return pool.total_bytes() - before
