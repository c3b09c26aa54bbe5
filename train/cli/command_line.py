"""Shared code of the examples' command lines."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from ...arguments import path, positive, print_error, whole
from ...autograd.backend import DeviceError, GraphError
from ...autograd.quick import libraries
from ...errors import InputError, printable, remedy
from ...models.shipped import MODELS
from ..distributed import find_process_group
from ..runs.checkpoints import make_folder
from ..runs.folder import RunFolder, run_of_group
from ..runs.progress import TrainingStopped
from ..runs.results import checksum
from .options import OptionParser, Use, plain

# Options that are not saved with a run, because they concern only one invocation of the program.
_OF_THE_PROCESS = ("out", "overwrite", "stop_at", "explore")


def add_training_options(
    parser: OptionParser, *, data: str, presets: Sequence[str], preset: str, draws: bool = True
) -> None:
    """Add the options that all training examples share.

    `data` is the help text of --data, and `preset` is the default of --preset. With `draws`, --seed also has an effect
    together with --checkpoint, because the output of a trained model can be sampled.
    """
    add = parser.group("training", "train")
    add("--data", default="embedded", help=data)
    add("--preset", choices=presets, default=preset, help=f"model sizes and training settings (default: {preset})")
    add("--out", type=path, metavar="RUN", help="folder of the new run (default: a new folder in runs/)")
    add("--overwrite", action="store_true", help="if --out already contains a run, first rename it to RUN.old-1")
    go_on: tuple[Use, ...] = ("train", "resume")
    seeded: tuple[Use, ...] = ("train", "checkpoint") if draws else ("train",)
    add("--seed", type=whole, default=0, help="random seed (default: 0)", uses=seeded)
    add("--device", default="cpu", help="device: cpu, cuda or cuda:N (default: cpu)", uses=go_on)
    add("--resume", type=path, metavar="RUN", uses=("resume",))
    words = "stop after update STEP and save the run, so that --resume can continue it"
    add("--stop-at", type=positive, metavar="STEP", help=words, uses=go_on)


def parse_training_arguments(parser: OptionParser, arguments: Sequence[str] | None = None) -> Any:
    """Return the parsed options. With --resume, they are the saved options of the run, and `out` is the run's folder.

    The result has three more attributes: `given` contains the names of the options on the command line, `options`
    contains the options that a new run saves, and `typed` is a command line with `options`. Raises InputError if the
    run can't be resumed, and OptionError for an option that has no effect.
    """
    typed = parser.given(arguments)
    trains = any("checkpoint" not in parser.uses[name] for name in typed)
    asks = {"texts", "interactive"} & typed.keys()
    chosen = {"checkpoint", "resume"} & typed.keys()
    if parser.shipped and not chosen and (asks or (not trains and _text_waits())):
        typed["checkpoint"] = MODELS[parser.shipped]
        print(f"{parser.shipped}, which comes with handloom; --checkpoint MODEL uses another one", file=sys.stderr)
    use: Use = "checkpoint" if "checkpoint" in typed else "resume" if "resume" in typed else "train"
    values = {name: parser.get_default(name) for name in parser.uses}
    if use == "resume":
        values |= _options_of_run(parser, typed["resume"])
        for name, value in typed.items():
            if use not in parser.uses[name] and (name in _OF_THE_PROCESS or value != values[name]):
                spelled = parser.spelled(name)
                parser.error(f"{spelled} can't be changed when a run is resumed: leave it out")
        values["out"] = typed["resume"]
    else:
        parser.refuse_useless(typed, use)
    if "overwrite" in typed and "out" not in typed:
        parser.error("--overwrite needs the folder to replace: add --out")
    values |= typed
    kept = (name for name in parser.uses if "train" in parser.uses[name] and name not in _OF_THE_PROCESS)
    options = {name: plain(values[name]) for name in kept}
    typed_again = shlex.join(parser.typed(options))
    return argparse.Namespace(**values, given=frozenset(typed), options=options, typed=typed_again)


def _text_waits() -> bool:
    """Return whether standard input is a file or a non-empty pipe, which then contains texts to process.

    If it is a pipe, this waits for its first line.
    """
    stream = getattr(sys.stdin, "buffer", None)  # a program may be started with standard input closed
    if not isinstance(stream, io.BufferedReader):
        return False
    mode = os.fstat(stream.fileno()).st_mode
    return (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)) and bool(stream.peek(1))


def _program() -> str:
    """Return the file name of the running example, even if it was started as `handloom train NAME`."""
    return f"{Path(sys.argv[0].split(' ')[-1]).stem}.py"


def _options_of_run(parser: OptionParser, folder: Path) -> dict[str, Any]:
    run = RunFolder.open(folder)
    stored = run.config.get("options")
    if not isinstance(stored, dict):
        raise InputError(f"{folder} can't be resumed: its config.json has no options. Start a new run.")
    own, program = _program(), run.config.get("program")
    if program not in (None, own):
        raise InputError(f"{folder} is a run of {program}, not of {own}: resume it with {program}.")
    options = {name: value for name, value in stored.items() if name not in _OF_THE_PROCESS}
    return parser.stored(options, str(folder / "config.json"))


@contextmanager
def start_run(arguments: Any, name: str, data: Any) -> Iterator[RunFolder]:
    """Yield the folder of the run to resume (--resume), or a new run folder.

    The config.json of a new folder contains the options and a description of `data`, a data set with a method `summary`
    and an attribute `notes`.

    Raises InputError if the folder can't be used. If the run can be resumed after a KeyboardInterrupt, the message of
    the exception says how.
    """
    with _run_folder(arguments, name, data) as run:
        try:
            yield run
        except KeyboardInterrupt as stop:
            if run.stays:
                raise type(stop)(f"Continue with --resume {run.path}") from None
            raise


def _run_folder(arguments: Any, name: str, data: Any) -> RunFolder:
    program = _program()
    started = sys.argv[0] if sys.argv[0].startswith("handloom ") else f"python examples/{program}"
    full: dict[str, Any] = {"program": program, "command": f"{started} {arguments.typed}".rstrip()}
    full |= {"options": arguments.options, "data": data.summary(), "data_sha256": checksum(data)}
    now = {name: library for name, (library, _) in libraries().items()}
    full |= {"notes": list(data.notes), **now}
    run = run_of_group(
        lambda: RunFolder.resume(arguments.resume) if arguments.resume else _new_run(arguments, name, full)
    )
    for said in other_libraries(run.config, now) if arguments.resume else []:
        print(said)
    watch(arguments, run.path)
    run.config = {**full, **run.config}  # an older run may lack some of these records
    return run


def other_libraries(config: dict[str, Any], now: dict[str, str | None]) -> Iterator[str]:
    """Yield a message if a resumed run started with other library versions."""
    names = {"compiled_loops": ("loops compiled by {}", "no compiled loops"), "mkl": ("{}", "NumPy's products")}
    for key, (with_it, without) in names.items():
        if key in config and config[key] != now[key]:  # an older run has no such key
            began, goes_on = (with_it.format(name) if name else without for name in (config[key], now[key]))
            yield f"This run began with {began} and continues with {goes_on}: the last bits of its numbers may change."


def _new_run(arguments: Any, name: str, config: dict[str, Any]) -> RunFolder:
    run = RunFolder.create(arguments.out or free_run_folder(name), config, overwrite=arguments.overwrite)
    if run.replaced:
        print(f"the old run is now {run.replaced}", flush=True)
    return run


def watch(arguments: Any, run: Path) -> None:
    """With --explore, show the run in the browser from a separate process, and wait for that process at the end."""
    if getattr(arguments, "explore", False) and find_process_group().first:
        explorer = subprocess.Popen([sys.executable, "-m", f"{__name__.partition('.')[0]}.explorer", str(run)])

        def wait() -> None:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the explorer too
                explorer.wait()

        atexit.register(wait)


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
        _check_streams()
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
            print(f"\n{stop}", file=sys.stderr)
        sys.exit(stop.exit_code)
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        _fail(f"there is not enough memory{reason}. Use a smaller preset, or close other programs.")
    except KeyboardInterrupt as stop:
        code = 143 if isinstance(stop, Terminated) else 130
        if find_process_group().first:
            print(f"\nstopped{f'. {stop}' if str(stop) else ''}", file=sys.stderr)
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


def _check_streams() -> None:
    """End the program if standard output or error is closed: the next opened file would get its file descriptor."""
    if sys.stdin is None:
        empty = os.open(os.devnull, os.O_RDONLY)
        sys.stdin = open(empty, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the process ends
    if sys.stdout is None or sys.stderr is None:
        which = "output" if sys.stdout is None else "error"
        _fail(f"Standard {which} is closed, so messages would be lost: redirect it to a file or to /dev/null.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the encoding may lack characters


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


def free_run_folder(name: str, parent: str = "runs") -> Path:
    """Return runs/NAME, or the first of runs/NAME-2, runs/NAME-3, ... that does not exist."""
    path, number = Path(parent, name), 1
    while path.exists():
        number += 1
        path = Path(parent, f"{name}-{number}")
    return path


def check_text(text: str, name: str) -> None:
    """Raise InputError if the text is not valid UTF-8. The error message calls the text `name`."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes of other encodings
        raise InputError(f"{name} is not UTF-8 text. Set the terminal to UTF-8, or convert the text first.")


@contextmanager
def results_folder(path: Path | None, name: str) -> Iterator[Path]:
    """Yield the folder for a command's results: `path`, or a new folder in runs/ if `path` is None.

    A new folder that is empty after an error is removed.

    Raises InputError if the folder contains files, or can't be made.
    """
    path = path or free_run_folder(name)
    new = not path.is_dir()
    if not new and any(path.iterdir()):
        raise InputError(f"The folder {path} is not empty: choose a new folder for --out.")
    make_folder(path)
    try:
        yield path
    except BaseException:
        if new:
            with suppress(OSError):
                path.rmdir()
        raise


def sentences_from(arguments: list[str], prompt: str) -> Iterator[str]:
    """Yield the texts in `arguments`, or the lines of standard input if there are none.

    Print `prompt` if standard input is a terminal. For a blank line of a file or a pipe, yield "", so that the output
    has as many lines as the input. Raises InputError for a blank argument, or if standard input is not UTF-8 text.
    """
    for number, sentence in enumerate(arguments, 1):
        if not sentence.strip():
            raise InputError(f"Text {number} is empty. Give a text that contains words.")
    if arguments:
        yield from arguments
        return
    asked = sys.stdin.isatty()
    if asked:
        print(prompt, file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8").removeprefix("\ufeff").strip()  # a file may start with a byte order mark
            if "\0" in text:
                raise InputError(f"Line {number} of standard input contains a NUL byte: convert it to UTF-8 text.")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of standard input is not UTF-8 text ({error.reason} at byte {error.start + 1}). "
                "Convert it first, for example with iconv -f latin1 -t utf-8."
            ) from None
        if text or not asked:
            yield text
