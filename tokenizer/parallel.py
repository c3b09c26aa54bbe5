"""Running functions in forked processes, which see this process's memory as it was at the fork."""

from __future__ import annotations

import marshal
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InputError


def run_all(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of the functions, in order; all but the first run in child processes where the system can fork.

    A result must be of Python's basic types. A child runs only its function, so locks that other threads held at the
    fork can't block it.

    Raises:
        InputError: a function raised it.
        RuntimeError: a function raised something else in its child, which printed the traceback.
    """
    if len(jobs) < 2 or sys.platform != "linux":
        return [job() for job in jobs]
    children = [_start(job) for job in jobs[1:]]
    try:
        results = [jobs[0]()]
    finally:
        answers = [_finish(*child) for child in children]
    for error, value in answers:
        if error is not None:
            raise InputError(error) if error else RuntimeError("A child process failed; see its traceback above.")
        results.append(value)
    return results


def _start(job: Callable[[], Any]) -> tuple[int, int]:
    """Start a child; return its process id and where its answer can be read."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python warns where other threads run, such as those of NumPy's BLAS; the child does not use them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    answer: tuple[str | None, Any]
    try:
        try:
            answer = (None, job())
        except InputError as error:
            answer = (str(error), None)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches the parent too, which reports it
                traceback.print_exc()
            answer = ("", None)
        with os.fdopen(writer, "wb") as pipe:
            marshal.dump(answer, pipe)
    finally:
        os._exit(0)  # without the parent's exit handlers and unwritten buffers


def _finish(child: int, reader: int) -> tuple[str | None, Any]:
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return marshal.loads(data) if data else ("", None)
