"""Tunes malloc for large arrays, so that memory is allocated from the operating system once, not at every step."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process instead of returning it to the system.

    By default glibc maps new pages for every large array, and the kernel fills them with zeros; a training step frees
    and allocates the same arrays again and again, and spends a quarter of its time on that. Afterwards the process
    keeps its peak memory. Returns whether it worked. It works with glibc on Linux; elsewhere nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
