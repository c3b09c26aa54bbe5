"""Work that is counted instead of timed, so that other work on the machine doesn't change a test; or in a thread."""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_in(function: Callable[[], Any], within: str = "") -> int:
    """The number of calls of Python and C functions that `function()` makes in this thread, generator steps included.

    Loops inside a C function are not counted: for these, count the sizes of its arguments. With `within`, only calls in
    modules whose names begin with it are counted.
    """
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call") and frame.f_globals.get("__name__", "").startswith(within)

    collecting, before = gc.isenabled(), sys.getprofile()
    gc.disable()  # its callbacks would be counted at random
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count - (not within)  # the call that ends the counting


def in_threads(*functions: Callable[[], Any]) -> None:
    """Call each in a thread of its own, all at once, and wait for their ends."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
