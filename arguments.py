"""Command lines: a parser with one-line errors, and types for whole numbers and paths."""

import argparse
import difflib
import functools
import itertools
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .errors import InputError, printable, short


class OptionError(InputError):
    """An error for an invalid command line; `usage` says where the options are explained."""

    def __init__(self, message: str, usage: str):
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """An argument parser that reports each error in one line."""

    def __init__(self, **options: Any):
        if sys.argv[0].startswith("handloom "):  # the command `handloom` started this program
            for name in {"prog", "description"} & options.keys():
                options[name] = re.sub(r"python (-m handloom|examples/)[.\w]*", sys.argv[0], options[name] or "")
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")  # argparse lacks -1e-3

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line. A word that begins with - and contains a blank is an option, unless it follows --; for
        argparse it is a text if its option is unknown.
        """
        args = list(sys.argv[1:] if args is None else args)
        for word in itertools.takewhile("--".__ne__, args):
            if word[:1] == "-" and " " in word and self._parse_optional(word) is None:
                self.error(f"unrecognized arguments: {word}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        print_error(self.refusal(message))
        sys.exit(2)

    def refusal(self, message: str) -> OptionError:
        """Return an error with this message; for an unknown option it also names the most similar option."""
        text, found, unknown = message.partition("unrecognized arguments: ")
        if found and not text:
            options = [name for name in self._option_string_actions if name.startswith("--")]
            near = difflib.get_close_matches(re.split("[= ]", unknown)[0], options, 1)
            message = message if len(message) <= 200 else f"{message[:200]}..."
            message += f"; did you mean {near[0]}?" if near else ""
            message += "; put -- before texts that begin with -" if " " in unknown and not near else ""
        return OptionError(message, f"{self.prog} --help lists the options")

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse ignores a full disk


@dataclass(frozen=True)
class Whole:
    """A type for argparse: a whole number from `low` to `high`, in decimal digits."""

    low: int
    high: int

    def __call__(self, text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(self.high))
        if not (digits and self.low <= int(text) <= self.high):
            bounds = f"from {self.low:,} to {self.high:,}"
            raise argparse.ArgumentTypeError(f"{short(text)} is not a whole number {bounds}")
        return int(text)


whole = Whole(0, 10**18 - 1)
positive = Whole(1, 10**9 - 1)


def path(text: str) -> Path:
    """A type for argparse: a path. A leading ~ means the home folder, even if the shell did not expand it."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(os.path.expanduser(text))


#: Arguments of the library as its messages name them, and the options of the commands for them.
_OPTIONS: tuple[tuple[str, Any], ...] = (
    (r"\bresume=True, out=('[^']*'|\"[^\"]*\")", lambda found: f"--resume {shlex.quote(found[1][1:-1])}"),
    (r"\bload\('([\w-]+)'\)", r"--init \1"),
    (r"\bor rename the old run\b", "or use --overwrite to rename the old run"),
    (r"\bcopy=True", "--set copy=true"),
    (r"\b(resume|graphs)=True", r"--\1"),
    (r"\bsource=(\w+), target=", r"--from \1 --to "),
    (r"\bstop_at=", "--stop-at "),
    (r"(?<!--set )(?<!--grid )(?<!--change )(?<![,'\w])(steps|lr|device|precision)=", r"--\1 "),  # not as it was typed
)


def in_options(message: object) -> str:
    """Return a message of the library with the options of the commands instead of the arguments in Python."""
    return functools.reduce(lambda text, option: re.sub(option[0], option[1], text), _OPTIONS, str(message))


def print_error(error: object) -> None:
    """Print an error as one line on standard error; for an OptionError, also print its usage line."""
    print(f"error: {printable(in_options(error))}", file=sys.stderr)
    if isinstance(error, OptionError):
        print(f"usage: {error.usage}", file=sys.stderr)
