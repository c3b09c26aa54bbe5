"""What the examples' command lines have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..autograd.backend import DeviceError
from ..errors import InputError


def run_main(main: Callable[[], None]) -> None:
    """Call `main`; what the user gave and can't be used is told in one paragraph, with exit code 2."""
    try:
        main()
    except (InputError, DeviceError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does. Python would complain once more while it flushes at exit.
        sys.stderr.close()
        sys.exit(141)


def free_run_folder(name: str, parent: str = "runs") -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3, ... that does not exist."""
    path, number = Path(parent, name), 1
    while path.exists():
        number += 1
        path = Path(parent, f"{name}-{number}")
    return path


def sentences_from(arguments: list[str], prompt: str) -> Iterator[str]:
    """The sentences given as arguments, or else the lines of standard input; in a terminal a prompt asks for them.

    Raises InputError if standard input is not UTF-8 text.
    """
    if arguments:
        yield from arguments
        return
    if sys.stdin.isatty():
        print(prompt, file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of standard input is not UTF-8 text ({error.reason} at byte {error.start + 1}). "
                "Convert it first, for example with iconv -f latin1 -t utf-8."
            ) from None
        if text:
            yield text
