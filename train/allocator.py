"""malloc for large arrays: pages are asked of the operating system once, not at every step."""

from __future__ import annotations

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed pages in this process instead of giving it back to the system.

    By default glibc maps every large array anew, and the kernel fills it with zeros page by page; a training step
    frees and makes the same arrays over and over, and spends a quarter of its time on that. Afterwards the process
    holds on to its peak. Returns whether it worked: with glibc on Linux, elsewhere nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
