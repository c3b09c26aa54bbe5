"""Tunes the C library's malloc, so that training steps reuse memory instead of requesting it from the system again."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process instead of returning it to the system.

    By default, glibc maps new pages for every large array, and the kernel fills them with zeros. A training step
    allocates and frees many large arrays, and can spend a quarter of its time on these pages. After this call, the
    process keeps its peak memory. Returns True if malloc was changed, which requires glibc on Linux.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
