"""Shared code of all programs: how they end, the texts that they read, and folders for their results."""

import io
import itertools
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ..arguments import in_options, print_error
from ..autograd.backend import DeviceError, GraphError
from ..errors import InputError, printable, remedy
from ..files import make_folder
from ..train.data.files import decode_lines, iter_lines
from ..train.distributed import find_process_group
from ..train.runs.progress import TrainingStopped


class Terminated(KeyboardInterrupt):
    """An exception raised on SIGTERM, so that the process ends as after Ctrl-C."""


def run_main(main: Callable[[], None], *, several_processes: bool = False) -> None:
    """Call `main`. An InputError ends the program with one line on standard error and exit code 2.

    Under mpirun, only the first process prints, and an error in one process ends all processes. Without
    `several_processes`, the program refuses to run under mpirun.
    """
    os.environ["MPLBACKEND"] = "agg"  # pictures are only written to files, so the user's backend is ignored
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        if None in (sys.stdout, sys.stderr):  # the next opened file would get its file descriptor
            _fail("Standard output or error is closed, so messages would be lost: redirect it to /dev/null.")
        sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # None if it is closed
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # the encoding may lack characters
        try:
            find_process_group()
        except InputError as error:  # every other error is printed by the first process of the group
            print_error(error)
            sys.exit(2)
        if find_process_group().size > 1 and not several_processes:
            raise InputError("This program runs in one process: start it without mpirun.")
        if not find_process_group().first:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
        try:
            main()
        finally:
            sys.stdout.flush()  # to report a full disk here, before Python does at exit
    except (InputError, DeviceError, FloatingPointError) as error:
        _fail(error)
    except GraphError as error:
        _fail(f"{error}: leave out --graphs")
    except TrainingStopped as stop:
        if find_process_group().first:
            print(f"\n{in_options(stop)}", file=sys.stderr)
        sys.exit(stop.exit_code)
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        _fail(f"there is not enough memory{reason}. Use a smaller preset, or close other programs.")
    except KeyboardInterrupt as stop:
        code = 143 if isinstance(stop, Terminated) else 130
        if find_process_group().first:
            print(f"\nstopped{f'. {in_options(stop)}' if str(stop) else ''}", file=sys.stderr)
        find_process_group().abort(code)  # the other processes may be waiting for this process
        sys.exit(code)
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has ended. Python would report another error at exit.
        sys.stdout = None
        sys.exit(141)
    except OSError as error:  # a path that is too long or not readable: a traceback would explain nothing
        where = "" if error.filename is None else f"{error.filename}: "
        try:
            sys.stdout.flush()
        except OSError:
            sys.stdout = None  # otherwise Python flushes it again at exit
        _fail(f"{where}{error.strerror or error}. {remedy(error)}")


def _terminate(number: int, frame: Any) -> NoReturn:
    raise Terminated


def _fail(error: object) -> NoReturn:
    group = find_process_group()
    if group.first:
        print_error(error)
    else:
        time.sleep(1)  # if all ranks have the same error, the first one reports it and ends this one
        print(f"error on rank {group.rank} of {group.size}: {printable(str(error))}", file=sys.stderr)
    group.abort(2)
    sys.exit(2)


def free_run_folder(name: str) -> Path:
    """Return runs/NAME, or the first of runs/NAME-2, runs/NAME-3, ... that does not exist."""
    names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(path for own in names if not (path := Path("runs", own)).exists())


def check_text(text: str, name: str) -> None:
    """Raise InputError if the text is not valid UTF-8. The error message calls the text `name`."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes of other encodings
        raise InputError(f"{name} is not UTF-8 text. Set the terminal to UTF-8, or convert the text first.")


def results_folder(path: Path | None, name: str) -> Path:
    """Return the folder for a command's results: `path`, or a new folder in runs/ if `path` is None.

    Raises InputError if the folder contains files, or can't be made.
    """
    path = path or free_run_folder(name)
    if path.is_dir() and any(path.iterdir()):
        raise InputError(f"The folder {path} is not empty: choose a new folder for --out.")
    return make_folder(path)


def file_of(text: str, number: int) -> str | None:
    """Return the contents of the file that the argument `text` names, or None if it is a text. A name has an ending or
    a folder, such as letter.txt or ./letter. Raises InputError for a blank argument, for one that is not UTF-8, and for
    a file that does not exist or is not a text.
    """
    check_text(text, f"Text {number}")
    if not text.strip():
        raise InputError(f"Text {number} is empty. Give a text that contains words.")
    if text == "-":
        raise InputError("- reads standard input, and can't be combined with other texts: leave out one of them.")
    if os.path.isdir(text) and os.path.dirname(text):
        raise InputError(f"{text} is a folder. Give the path of a file or a text; - reads standard input.")
    if not os.path.isfile(text):
        if re.fullmatch(r"[^\s:]+\.(?:txt|md|srt|tsv|csv|html?|pdf|docx?)", text):
            raise InputError(f"There is no file {text}. Give the path of a file or a text; - reads standard input.")
        return None
    if not os.path.splitext(text)[1] and not os.path.dirname(text):
        print(f"note: {text} is also a file; ./{text} would be read", file=sys.stderr)
        return None
    lines, raw = [*iter_lines(text)], Path(text).read_bytes()
    new_line = "\r\n" if b"\r\n" in raw else "\n"
    return new_line.join(lines) + new_line * raw.endswith(b"\n")


def sentences_from(arguments: list[str]) -> Iterator[str]:
    """Yield the texts in `arguments` and the lines of the files that they name (`file_of`), or the lines of standard
    input if there are no arguments or only "-". Raises InputError for text that is not UTF-8, and as `file_of` does.

    A line keeps its blanks, and a blank line is yielded, so that the output has as many lines as the input.
    """
    if arguments in ([], ["-"]):
        yield from decode_lines(sys.stdin.buffer, "standard input")
        return
    contents = [file_of(text, number) for number, text in enumerate(arguments, 1)]
    for text, found in zip(arguments, contents, strict=True):
        yield from [text] if found is None else found.splitlines()
