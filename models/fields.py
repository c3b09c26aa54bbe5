"""The types, bounds and choices of configuration fields, declared as annotations.

    layers: Depth
    clip_norm: Rate | None
    positions: Annotated[str, Choices(POSITIONS)]

`check_fields` checks an object's values against these annotations; `parse_value` parses a value from text. Values from
files and from command lines are therefore checked in the same way.
"""

import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from numbers import Integral, Real
from typing import Annotated, Any, Literal

import numpy as np

from ..autograd.ops import ACTIVATIONS
from ..errors import short
from ..nn.positional import POSITIONS
from ..nn.sparse import with_pattern


@dataclass(frozen=True)
class Bounds:
    """A number from `low` to `high`; `above` and `below` exclude the bound itself, and `infinite` allows infinity."""

    low: float
    high: float = math.inf
    above: bool = False
    below: bool = False
    infinite: bool = False

    def hold(self, value: Any) -> bool:
        if not (isinstance(value, int) or math.isfinite(value)):  # a long int is finite, but too long to be converted
            return self.infinite and value == math.inf
        return (value > self.low or (value == self.low and not self.above)) and (
            value < self.high or (value == self.high and not self.below)
        )

    def __str__(self) -> str:
        if self.high == -self.low == math.inf:
            return "that is finite"
        if self.high == math.inf:
            return f"above {self.low:,}" if self.above else f"from {self.low:,} on"
        low = f"above {self.low:,}" if self.above else f"from {self.low:,}"
        return f"{low} to {'below ' if self.below else ''}{self.high:,}"


@dataclass(frozen=True)
class Choices:
    """A field whose value must be one of these words."""

    words: Sequence[Any]


@dataclass(frozen=True)
class Parsed:
    """A value for which `check` raises no ValueError; `words` describes the allowed values."""

    check: Callable[[Any], Any]
    words: str


Whole = Annotated[int, Bounds(0, 1_000_000_000)]
Count = Annotated[int, Bounds(1, 1_000_000_000)]
#: A number of features, or another size of a matrix.
Size = Annotated[int, Bounds(1, 1_000_000)]
#: A number of layers.
Depth = Annotated[int, Bounds(1, 1_000)]
#: A number of tokens.
Length = Annotated[int, Bounds(1, 1_000_000)]
#: A number above 0.
Rate = Annotated[float, Bounds(0, above=True)]
NotNegative = Annotated[float, Bounds(0)]
#: A number from 0 to below 1: dropout, decays.
Fraction = Annotated[float, Bounds(0, 1, below=True)]
Activation = Annotated[str, Choices(tuple(ACTIVATIONS))]
Positions = Annotated[str, Choices(POSITIONS)]
Pattern = Annotated[str, Parsed(lambda text: with_pattern(text, None), "full, local:SIZE or strided:SIZE")]


@dataclass(frozen=True)
class Flag:
    """A command-line option for a field, in addition to --set."""

    metavar: str = ""  # name of the value in --help; by default the name of the field
    preset: bool = False  # the option's default is the preset's value
    times: bool = False  # the option is a factor that multiplies the preset's value
    resumes: bool = False  # the option can be given with --resume


def setting(default: Any = MISSING, *, help: str, flag: Flag | None = None) -> Any:
    """Return a dataclass field with a help text and an option, which a subclass with another default keeps."""
    return field(default=default, metadata={"help": help, "flag": flag})


def settings(owner: Any) -> dict[str, tuple[str, Flag | None]]:
    """Return {field name: (help text, option)} for each `setting` of a dataclass and its base classes."""
    options: dict[str, tuple[str, Flag | None]] = {}
    for base in owner.__mro__:
        for entry in fields(base) if is_dataclass(base) else ():
            if "help" in entry.metadata:
                options.setdefault(entry.name, (entry.metadata["help"], entry.metadata["flag"]))
    return {entry.name: options[entry.name] for entry in fields(owner) if entry.name in options}


def field_kinds(owner: Any) -> dict[str, Any]:
    """Return {field name: annotation} for a dataclass, with annotations resolved by `typing.get_type_hints`."""
    return {name: kind for name, kind in _hints(owner).items() if kind is not KW_ONLY}


#: The result is cached, because resolving takes 0.1 ms and searches create objects for each batch.
_hints: Callable[[Any], dict[str, Any]] = cache(partial(typing.get_type_hints, include_extras=True))


def changed_fields(owner: Any) -> str:
    """Return the repr of a dataclass instance, with only the fields that differ from their defaults."""
    changes = []
    for entry in fields(owner):
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        if repr(value := getattr(owner, entry.name)) != repr(default):
            changes.append(f"{entry.name}={short(value)}")
    return f"{type(owner).__name__}({', '.join(changes)})"


def check_fields(owner: Any) -> None:
    """Raise a ValueError that names a field of a dataclass with an invalid value. NumPy scalars become Python's."""
    for name, kind in field_kinds(type(owner)).items():
        if not fits(kind, value := getattr(owner, name)):
            raise ValueError(f"{name} is {short(value)}, but it must be {described(kind)}")
        if isinstance(value, np.generic | tuple):
            object.__setattr__(owner, name, _plain(value))


def fits(kind: Any, value: Any) -> bool:
    """Return whether an annotation allows a value. NumPy scalars are like Python numbers; True is not a number."""
    plain, rule, optional = plain_kind(kind)
    if value is None or kind is Any:
        return optional or kind is Any
    kind = plain
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, tuple | list):
            return False
        kinds = kind.__args__[:1] * len(value) if kind.__args__[-1] is ... else kind.__args__
        return len(value) == len(kinds) and all(map(fits, kinds, value))
    if isinstance(rule, Choices):
        return any(value is word or (value == word and type(value) is type(word)) for word in rule.words)
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if not isinstance(value, {int: Integral, float: Real}.get(kind, typing.get_origin(kind) or kind)):
        return False
    if isinstance(rule, Parsed):
        try:
            rule.check(value)
        except ValueError:
            return False
        return True
    return rule is None or rule.hold(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return value.item() if getattr(value, "size", None) == 1 and hasattr(value, "item") else value


def parse_value(kind: Any, text: str) -> Any:
    """Parse text as a `kind`; "none" means None if that is allowed. Raises ValueError for an invalid value."""
    plain, _, optional = plain_kind(kind)
    if optional and text.lower() == "none":
        return None
    try:
        if plain is bool:
            value: Any = {"true": True, "false": False}[text.lower()]
        elif typing.get_origin(plain) is tuple:
            value = tuple(parse_value(each, word) for each, word in zip(plain.__args__, text.split(","), strict=True))
        else:
            value = plain(text)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"it must be {described(kind)}") from None
    if not fits(kind, value):
        raise ValueError(f"it must be {described(kind)}")
    return value


def described(kind: Any, none: bool = True) -> str:
    """Describe the values that an annotation allows, such as "a whole number from 1 to 1,000" or "one of a, b"."""
    kind, rule, optional = plain_kind(kind)
    if typing.get_origin(kind) is tuple and kind.__args__[-1] is ...:
        words = f"values, each of them {described(kind.__args__[0])}"
    elif typing.get_origin(kind) is tuple:
        words = f"{len(kind.__args__)} values, separated by commas, each {described(kind.__args__[0])}"
    elif isinstance(rule, Choices):
        words = f"one of {', '.join(map(str, rule.words))}"
    elif isinstance(rule, Parsed):
        words = rule.words
    else:
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        words = names.get(kind, getattr(kind, "__name__", str(kind)))
        words = words if rule is None else f"{words} {rule}"
    return f"{words}, or none" if optional and none else words


def without_none(kind: Any) -> Any:
    """Return an annotation without its `| None`."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    others = [other for other in typing.get_args(kind) if other is not type(None)]
    if len(others) != 1:
        raise TypeError(f"{kind} combines more than one type with None")
    return others[0]


def plain_kind(kind: Any) -> tuple[Any, Any, bool]:
    """Return an annotation's Python type, its rule (Bounds, Choices or Parsed) or None, and whether it allows None."""
    alone = without_none(kind)
    if typing.get_origin(alone) is Literal:
        return str, Choices(typing.get_args(alone)), alone is not kind
    if typing.get_origin(alone) is Annotated:
        return *typing.get_args(alone)[:2], alone is not kind
    return alone, None, alone is not kind
