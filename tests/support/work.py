"""Counts calls instead of time, so that other work on the machine can't change a test; runs functions in threads."""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_in(function: Callable[[], Any], within: str = "") -> int:
    """Return the number of Python and C function calls of `function()` in this thread, generator steps included.

    Loops inside a C function are not counted; to measure them, count the sizes of its arguments. With `within`, only
    calls in modules whose names begin with `within` are counted.
    """
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call") and frame.f_globals.get("__name__", "").startswith(within)

    collecting, before = gc.isenabled(), sys.getprofile()
    gc.disable()  # otherwise its callbacks would be counted at random
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count - (not within)  # without the call that ends the counting


def in_threads(*functions: Callable[[], Any]) -> None:
    """Call each function in its own thread, all at the same time, and wait until all threads end."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
