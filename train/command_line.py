"""What the examples' command lines have in common."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from ..autograd.backend import DeviceError
from ..errors import InputError


def run_main(main: Callable[[], None]) -> None:
    """Call `main`; what can't be used or done is told in one paragraph, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal's encoding has what a model may say
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        main()
    except (InputError, DeviceError, FloatingPointError) as error:
        _fail(str(error))
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        _fail(f"there is not enough memory{reason}. Take a smaller preset, or close other programs.")
    except KeyboardInterrupt as stop:
        print(f"\nstopped{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does. Python would complain once more while it flushes at exit.
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a path that is too long or may not be looked at: nothing that a traceback would explain
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{where}{error.strerror or error}. Choose another path, or see to its permissions.")


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def free_run_folder(name: str, parent: str = "runs") -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3, ... that does not exist."""
    path, number = Path(parent, name), 1
    while path.exists():
        number += 1
        path = Path(parent, f"{name}-{number}")
    return path


def sentences_from(arguments: list[str], prompt: str) -> Iterator[str]:
    """The sentences given as arguments, or else the lines of standard input; in a terminal a prompt asks for them.

    Blank lines are passed over. Raises InputError for a blank argument, or if standard input is not UTF-8 text.
    """
    for number, sentence in enumerate(arguments, 1):
        if not sentence.strip():
            raise InputError(f"Sentence {number} is empty. Give German text, or no sentence to type it in.")
    if arguments:
        yield from arguments
        return
    if sys.stdin.isatty():
        print(prompt, file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8").removeprefix("\ufeff").strip()  # a file may start with a byte order mark
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of standard input is not UTF-8 text ({error.reason} at byte {error.start + 1}). "
                "Convert it first, for example with iconv -f latin1 -t utf-8."
            ) from None
        if text:
            yield text
