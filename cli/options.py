"""Command-line options that distinguish typed values from defaults, and can be saved with a run."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

from ..arguments import OptionError, Parser
from ..errors import InputError, short
from ..models.fields import Bounds, Length, parse_value, without_none
from ..models.shipped import model_name

_RESUME = "continue the run in the folder RUN from its last save, with its saved options"


class OptionParser(Parser):
    """A parser that distinguishes typed values from defaults: `parse_args` returns only the options of a `group` that
    are on the command line, and `defaults` has the others. `resumable` are those that can be given with --resume.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.defaults: dict[str, Any] = {}
        self.resumable: set[str] = set()
        self._options: dict[str, argparse.Action] = {}

    def group(self, title: str) -> Callable[..., None]:
        """Return a function like `add_argument`, with the further argument `resumes`, for a group with this title."""
        add = self.add_argument_group(title).add_argument

        def add_option(*names: str, resumes: bool = False, **settings: Any) -> None:
            option = add(*names, **settings)
            self._options[option.dest] = option
            self.resumable |= {option.dest} if resumes else set()
            self.defaults[option.dest], option.default = option.default, argparse.SUPPRESS

        return add_option

    def error(self, message: str) -> NoReturn:
        raise self.refusal(message)

    def format_help(self) -> str:
        if "resume" in self._options:
            names = [self.spelled(name) for name in self._options if name in self.resumable and name != "resume"]
            self._options["resume"].help = f"{_RESUME}; only {listed(names)} can be changed"
        return super().format_help()

    def stored(self, options: Mapping[str, Any], origin: str) -> dict[str, Any]:
        """Return the known options that config.json, called `origin` in errors, records for a run."""
        kept = {name: value for name, value in options.items() if name in self._options}
        try:
            given = vars(self.parse_args(self.typed(kept)))
        except OptionError as error:
            raise InputError(f"{origin} can't be used: {str(error)[:200]}. Restore a copy.") from None
        return {name: given.get(name, self.defaults[name]) for name in kept}

    def typed(self, options: Mapping[str, Any]) -> list[str]:
        """Return command-line arguments for `options`, which have the form of config.json. Defaults are omitted."""
        changed = {name: value for name, value in options.items() if value != plain(self.defaults[name])}
        return [word for name, value in changed.items() for word in _typed(self._options[name], value)]

    def spelled(self, name: str) -> str:
        """Return an option with its dashes, such as "--seed", or the name of a positional argument in --help."""
        option = self._options[name]
        return option.option_strings[0] if option.option_strings else f"{option.metavar}"


class OfKind:
    """A type for argparse that accepts the values of an annotation of `models.fields`, except None."""

    def __init__(self, kind: Any):
        self.kind = without_none(kind)

    def __call__(self, text: str) -> Any:
        try:
            return parse_value(self.kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{short(text)}: {error}") from None


#: Types for argparse: a number above 0 and at most 1, and the length of a sequence.
share = OfKind(Annotated[float, Bounds(0, 1, above=True)])
length = OfKind(Length)


def listed(words: Sequence[str]) -> str:
    """Join words as in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def plain(value: Any) -> Any:
    """Convert a parsed value to a JSON value."""
    return model_name(value) if isinstance(value, Path) else value


def _typed(option: argparse.Action, value: Any) -> list[str]:
    """Return the command-line arguments that set the option to `value`, or [] for False and None."""
    (name,) = option.option_strings
    if isinstance(value, list):
        return [name, *map(str, value)] if option.nargs else [f"{name}={one}" for one in value]
    return [name] if value is True else [] if value in (None, False) else [f"{name}={value}"]
