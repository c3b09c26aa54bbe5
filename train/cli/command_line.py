"""What the examples' command lines have in common."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ...autograd.backend import DeviceError
from ...errors import InputError
from ..distributed import find_ranks
from ..runs.folder import RunFolder
from ..runs.locks import FolderInUseError
from ..runs.stopping import TrainingStopped

# What may differ between a run and its continuation; all else comes from the run.
_FREE_ON_RESUME = {"resume", "stop_at", "steps", "device", "table"}


def add_training_options(parser: argparse.ArgumentParser, *, data: str, presets: Sequence[str], preset: str) -> None:
    """The options that every example that trains has. `data` describes --data, `preset` is the default of --preset."""
    group = parser.add_argument_group("training")
    group.add_argument("--data", default="embedded", help=data)
    group.add_argument(
        "--preset", choices=presets, default=preset, help=f"sizes of model and run (default: {preset})"
    )
    group.add_argument("--out", type=Path, metavar="RUN", help="folder for the run (default: a new one under runs/)")
    group.add_argument("--overwrite", action="store_true", help="replace an older run in the --out folder")
    group.add_argument("--seed", type=whole, default=0, help="the same seed gives the same numbers (default: 0)")
    group.add_argument("--steps", type=positive, help="updates to make (default: the preset's)")
    group.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    group.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was stopped or killed, exactly where it was; all options come from it; --steps, "
        "--device and --table may be changed",
    )
    group.add_argument(
        "--stop-at", type=positive, metavar="STEP", help="save and stop after this update, as Ctrl-C would"
    )


def parse_training_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> Any:
    """Parse; with --resume the options are those of the run, and `out` is its folder.

    Raises InputError if the run can't be resumed. Other options beside --resume end the process, as argparse does.
    """
    given = parser.parse_args(arguments)
    if given.overwrite and not given.out:
        parser.error("--overwrite needs the folder to clear: add --out")
    if not given.resume:
        return given
    run = RunFolder.open(given.resume)
    stored = run.config.get("options")
    if not isinstance(stored, dict):
        raise InputError(f"{given.resume} does not say with which options it was started, so it can't be resumed.")
    own, program = Path(sys.argv[0]).name, run.config.get("program")
    if program not in (None, own):
        raise InputError(f"{given.resume} is a run of {program}, not of {own}: resume it with {program}.")
    for name, value in vars(given).items():
        if value != parser.get_default(name) and name not in _FREE_ON_RESUME and value != stored.get(name):
            parser.error(f"--{name.replace('_', '-')} can't be changed while resuming: leave it out, the run has it")
    merged = {**vars(given), **stored, "out": given.resume, "resume": given.resume, "stop_at": given.stop_at}
    absent: dict[str, Any] = dict.fromkeys(("steps", "device", "table"), object())  # argparse leaves what it finds
    asked = vars(parser.parse_args(arguments, argparse.Namespace(**absent)))
    merged |= {name: asked[name] for name, nothing in absent.items() if asked[name] is not nothing}
    return argparse.Namespace(**merged)


def start_run(arguments: Any, name: str, config: Mapping[str, Any]) -> RunFolder:
    """The folder of the run: --resume's, or a new one with the options and `config` in its config.json.

    Raises InputError if it can't be used.
    """
    options = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(arguments).items()
        if key not in ("out", "overwrite", "resume", "stop_at")
    }
    full = {"program": Path(sys.argv[0]).name, "options": options, **config}
    made: list[RunFolder] = []

    def make() -> Path:
        made.append(RunFolder.resume(arguments.resume) if arguments.resume else _new_run(arguments, name, full))
        return made[0].path

    path = find_ranks().from_first(make)  # which alone locks the folder
    return made[0] if made else RunFolder.open(path)


def _new_run(arguments: Any, name: str, config: Mapping[str, Any]) -> RunFolder:
    while True:
        path = arguments.out or free_run_folder(name)
        try:
            run = RunFolder.create(path, config, overwrite=arguments.overwrite)
        except FolderInUseError:
            if arguments.out:
                raise
            continue  # another process found the same name free
        if run.replaces:
            fate = "until this one has a model; if this one fails, it comes back"
            print(f"the old run waits in {run.replaces} {fate}", flush=True)
        return run


def whole(text: str) -> int:
    """A type for argparse: a whole number from zero on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from zero on")
    return int(text)


def positive(text: str) -> int:
    """A type for argparse: a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def number(text: str) -> float:
    """A type for argparse: a finite number from zero on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from zero on")
    return value


def share(text: str) -> float:
    """A type for argparse: a number above 0 and not above 1."""
    value = number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie above 0 and not above 1")
    return value


def run_main(main: Callable[[], None], *, several_processes: bool = False) -> None:
    """Call `main`; what can't be used or done is told in one paragraph, with exit code 2.

    Unless `main` is made for `several_processes`, it refuses to run as one of those that mpirun started. Of several
    processes only the first speaks, and an error of one ends them all.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal's encoding has what a model may say
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        if find_ranks().size > 1 and not several_processes:
            raise InputError("This program runs in one process: start it without mpirun.")
        if not find_ranks().first:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
        main()
    except (InputError, DeviceError, FloatingPointError) as error:
        _fail(str(error))
    except TrainingStopped as stop:
        if find_ranks().first:
            print(f"\n{stop}", file=sys.stderr)
        sys.exit(stop.exit_code)
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
    ranks = find_ranks()
    if ranks.first:
        print(f"error: {message}", file=sys.stderr)
    else:
        time.sleep(1)  # where all ranks meet the same error the first one tells it, and ends this one
        print(f"error on rank {ranks.rank} of {ranks.size}: {message}", file=sys.stderr)
    ranks.abort(2)
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
            raise InputError(f"Text {number} is empty. Give one with words in it, or none at all to type texts in.")
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
