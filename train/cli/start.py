"""The first import of a program: from then on Ctrl-C ends it with one line and exit code 130, its imports too.

While Python imports, Ctrl-C would show a traceback; or nothing, where the KeyboardInterrupt is raised where something
swallows exceptions, such as a destructor, or a module that does without another that can't be imported. So this module
imports nothing that takes long, and has the signal end the process at once: there is nothing to be put in order yet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn


def run_main(main: Callable[[], None], *, several_processes: bool = False) -> None:
    """`command_line.run_main`; from here on Ctrl-C raises KeyboardInterrupt, so that `main` can put things in order."""
    from .command_line import run_main as run

    sys.unraisablehook = _unraisable
    try:
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run(main, several_processes=several_processes)
    except KeyboardInterrupt:  # before `run` was ready for it
        _end()


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    try:
        with contextlib.suppress(OSError):  # nobody reads it
            os.write(2, b"\nstopped\n")
    finally:
        os._exit(128 + number)


def _unraisable(unraisable: Any) -> None:
    """For sys.unraisablehook: a KeyboardInterrupt in a destructor or a callback would be printed and forgotten."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(unraisable)


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """For sys.excepthook: what can't be used is one line, also where an import finds it (an environment variable)."""
    if kind.__name__ != "InputError":
        sys.__excepthook__(kind, error, trace)
        return
    print(f"error: {error}", file=sys.stderr, flush=True)
    os._exit(2)


def _importer() -> str:
    """The name of the module that imports this one: "__main__" for a program, another one in a test."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code is _MODULE or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else frame.f_globals.get("__name__", "")


_MODULE = sys._getframe().f_code
if _importer() == "__main__":
    sys.excepthook = _uncaught
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where SIGINT is ignored
    ):
        signal.signal(signal.SIGINT, _end)
