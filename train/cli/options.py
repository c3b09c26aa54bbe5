"""Command-line options with their uses: a new run, a resumed run, or a trained model."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from ...arguments import OptionError, Parser
from ...errors import InputError, short
from ...models.fields import Bounds, parse_value, without_none
from ...models.shipped import model_name

#: The uses of a command line: start a run, resume one (--resume), or use its model (--checkpoint).
Use = Literal["train", "resume", "checkpoint"]

_RESUME = "continue the run in the folder RUN from its last save, with its saved options"
#: Options of earlier versions. Other training data, which they may have caused, are noticed by their checksum.
_RETIRED = {"prefetch", "augment_share"}


class OptionParser(Parser):
    """A parser that distinguishes typed values from defaults: `parse_args` returns only the options of a `group` that
    are on the command line.

    Attributes:
        uses: dictionary from an option's name to the uses in which the option has an effect. In other uses the option
            is refused. `group` adds the names; the dictionary is empty for a program with a single use.
        defaults: dictionary from the name of each option of a group to its default.
        texts: the input of a trained model, such as "German sentences".
        shipped: name in `models.shipped` of the model that is used for texts without --checkpoint; "" for none.
    """

    texts = ""
    shipped = ""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.uses: dict[str, frozenset[str]] = {}
        self.defaults: dict[str, Any] = {}
        self._options: dict[str, argparse.Action] = {}

    def group(self, title: str, *uses: Use) -> Callable[..., None]:
        """Return a function like `add_argument` for a group with these uses; `uses=` changes those of one option."""
        add = self.add_argument_group(title).add_argument

        def add_option(*names: str, uses: Sequence[Use] = uses, **settings: Any) -> None:
            option = add(*names, **settings)
            self.uses[option.dest], self._options[option.dest] = frozenset(uses), option
            self.defaults[option.dest], option.default = option.default, argparse.SUPPRESS

        return add_option

    def error(self, message: str) -> NoReturn:
        raise self.refusal(message)

    def format_help(self) -> str:
        if "resume" in self.uses:
            names = [self.spelled(name) for name, uses in self.uses.items() if "resume" in uses and name != "resume"]
            self._options["resume"].help = f"{_RESUME}; only {listed(names)} can be changed"
        return super().format_help()

    def refuse_useless(self, given: Iterable[str], use: Use) -> None:
        """Raise OptionError if one of the options `given` has no effect in the use `use`."""
        useless = [self.spelled(name) for name in given if use not in self.uses[name]]
        if not useless:
            return
        is_are, it, s = ("is", "it", "s") if len(useless) == 1 else ("are", "them", "")
        if use == "checkpoint":
            self.error(f"{listed(useless)} {is_are} for training, not for using a trained model: leave {it} out")
        self.error(f"{listed(useless)} need{s} a trained model: add --checkpoint RUN")

    def stored(self, options: Any, origin: str) -> dict[str, Any]:
        """Return the options that config.json records for a run, parsed like a command line.

        Options that have no effect on training are left out. Raises InputError for an invalid value or an unknown
        option; the message calls the file `origin`.
        """
        for name in options:
            if name not in self.uses and name not in _RETIRED:
                raise InputError(f"{origin} has an unknown option {name!r}. Restore a copy.")
        kept = {name: value for name, value in options.items() if "train" in self.uses.get(name, ())}
        try:
            given = vars(self.parse_args(self.typed(kept)))
        except OptionError as error:
            raise InputError(f"{origin} can't be used: {str(error)[:200]}. Restore a copy.") from None
        parsed = {name: given.get(name, self.defaults[name]) for name in kept}
        for name, value in kept.items():
            if not _same(plain(parsed[name]), value):
                raise InputError(f"{origin} can't be used: {self.spelled(name)} is {short(value)}. Restore a copy.")
        return parsed

    def typed(self, options: Mapping[str, Any]) -> list[str]:
        """Return command-line arguments for `options`, which have the form of config.json. Defaults are omitted."""
        changed = {name: value for name, value in options.items() if not _same(plain(self.defaults[name]), value)}
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


#: A type for argparse: a number above 0 and at most 1.
share = OfKind(Annotated[float, Bounds(0, 1, above=True)])


def listed(words: Sequence[str]) -> str:
    """Join words as in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def plain(value: Any) -> Any:
    """Convert a parsed value to a JSON value."""
    return model_name(value) if isinstance(value, Path) else value


def _typed(option: argparse.Action, value: Any) -> list[str]:
    """Return the command-line arguments that set the option to `value`, or [] if no command line can set it."""
    (name,) = option.option_strings
    if value is True:
        return [name]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [name, *value] if option.nargs else [f"{name}={one}" for one in value]
    if isinstance(value, (str, int, float)) and value is not False and "\0" not in str(value):
        return [f"{name}={value}"]
    return []


def _same(parsed: Any, stored: Any) -> bool:
    return parsed == stored and isinstance(parsed, bool) == isinstance(stored, bool)
