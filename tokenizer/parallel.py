"""Run a function with several arguments in forked processes."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import InputError

A = TypeVar("A")
R = TypeVar("R")


def map_in_processes(function: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Return the function's result for each argument, in order.
    If the system can fork, all results except the first are computed in other processes.

    Raises the exceptions of the function, and InputError if a process is killed.
    """
    if len(arguments) < 2 or sys.platform != "linux":
        return [function(argument) for argument in arguments]
    import multiprocessing  # slow to import, and needed for large data only
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    with warnings.catch_warnings():
        # Python warns where other threads run, such as those of NumPy's BLAS; the processes do not use them.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Ctrl-C reaches all processes of a terminal; this process reports it, and the others end silently.
        others, fork = len(arguments) - 1, multiprocessing.get_context("fork")
        with ProcessPoolExecutor(others, fork, signal.signal, (signal.SIGINT, signal.SIG_DFL)) as pool:
            rest = [pool.submit(function, argument) for argument in arguments[1:]]
            try:
                return [function(arguments[0]), *(result.result() for result in rest)]
            except BrokenProcessPool:
                cause = "one of the processes was killed, as happens when memory runs out"
                raise InputError(f"{cause}: free memory, or use processes=1, which needs less memory") from None
