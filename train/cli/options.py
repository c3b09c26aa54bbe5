"""Command-line options: their uses (a new run, a resumed run, a trained model), and those of a preset's fields."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from ...arguments import OptionError, Parser
from ...errors import InputError
from ...models import ClassifierConfig, LanguageModelConfig, Seq2SeqConfig
from ...models.fields import (
    Bounds,
    Choices,
    Flag,
    described,
    field_kinds,
    parse_value,
    plain_kind,
    settings,
    short,
    without_none,
)
from ...models.hyperparameters import ClassifierPreset, LanguageModelPreset, Preset
from ...models.presets import PRESET_NAMES
from ...models.shipped import model_name, model_path

#: The uses of a command line: start a run, resume one (--resume), or use its model (--checkpoint).
Use = Literal["train", "resume", "checkpoint"]

_RESUME = "continue the run in the folder RUN from its last save, with its saved options"


class OptionParser(Parser):
    """A parser that distinguishes typed values from defaults.

    Attributes:
        uses: dictionary from an option's name to the uses in which the option has an effect. In other uses the option
            is refused. `group` adds the names; the dictionary is empty for a program with a single use.
        texts: the input of a trained model, such as "German sentences".
        shipped: name in `models.shipped` of the model that is used for texts without --checkpoint; "" for none.
    """

    texts = ""
    shipped = ""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.uses: dict[str, frozenset[str]] = {}
        self._options: dict[str, argparse.Action] = {}

    def group(self, title: str, *uses: Use) -> Callable[..., None]:
        """Return a function like `add_argument` for a group of options with these uses.
        Its argument `uses=` changes the uses of one option.
        """
        add = self.add_argument_group(title).add_argument

        def add_option(*names: str, uses: Sequence[Use] = uses, **settings: Any) -> None:
            option = add(*names, **settings)
            self.uses[option.dest], self._options[option.dest] = frozenset(uses), option

        return add_option

    def error(self, message: str) -> NoReturn:
        raise self.refusal(message)

    def format_help(self) -> str:
        if "resume" in self.uses:
            names = [self.spelled(name) for name, uses in self.uses.items() if "resume" in uses and name != "resume"]
            self._options["resume"].help = f"{_RESUME}; only {listed(names)} can be changed"
        return super().format_help()

    def given(self, arguments: Sequence[str] | None = None) -> dict[str, Any]:
        """Return a dictionary of the options that are on the command line. Options with default values are left out."""
        defaults = {option: option.default for option in self._options.values()}
        for option in defaults:
            option.default = argparse.SUPPRESS
        try:
            return vars(self.parse_args(arguments))
        finally:
            for option, default in defaults.items():
                option.default = default

    def refuse_useless(self, given: Iterable[str], use: Use) -> None:
        """Raise OptionError if one of the options `given` has no effect in the use `use`."""
        useless = [self.spelled(name) for name in given if use not in self.uses[name]]
        if not useless:
            return
        is_are, it, s = ("is", "it", "s") if len(useless) == 1 else ("are", "them", "")
        if use == "checkpoint":
            self.error(f"{listed(useless)} {is_are} for training, not with --checkpoint: leave {it} out")
        self.error(f"{listed(useless)} need{s} a trained model: add --checkpoint RUN")

    def stored(self, options: Any, origin: str) -> dict[str, Any]:
        """Return the options that config.json records for a run, parsed like a command line.

        Options that have no effect on training are left out. Raises InputError for an invalid value or an unknown
        option; the message calls the file `origin`.
        """
        for name in options:
            if name not in self.uses:
                raise InputError(f"{origin} has an unknown option {name!r}. Restore a copy.")
        kept = {name: value for name, value in options.items() if "train" in self.uses[name]}
        try:
            given = self.given(self.typed(kept))
        except OptionError as error:
            raise InputError(f"{origin} can't be used: {str(error)[:200]}. Restore a copy.") from None
        parsed = {name: given.get(name, self.get_default(name)) for name in kept}
        for name, value in kept.items():
            if not _same(plain(parsed[name]), value):
                raise InputError(f"{origin} can't be used: {self.spelled(name)} is {short(value)}. Restore a copy.")
        return parsed

    def typed(self, options: Mapping[str, Any]) -> list[str]:
        """Return command-line arguments for `options`, which have the form of config.json. Defaults are omitted."""
        own = ((self._options[name], value) for name, value in options.items())
        return [
            word for option, value in own if not _same(plain(option.default), value) for word in _typed(option, value)
        ]

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


AnyPreset = TypeVar("AnyPreset", bound=Preset)

#: Fields whose values come from the model of --init instead of the preset.
MODEL_FIELDS = {
    field.name
    for config in (Seq2SeqConfig, LanguageModelConfig, ClassifierConfig)
    for field in dataclasses.fields(config)
} - {"max_length", "dropout"}


def add_preset_options(
    parser: OptionParser, preset: type[Preset], choose: Callable[[str, str], Preset] | None = None
) -> None:
    """Add --set for the fields of the class `preset`, the flags of these fields, --teacher and --init.

    --help shows the values of the preset that `choose` returns for --preset and --data.
    """
    add = parser.group("training settings", "train")
    words = "change a value of the preset, for example activation=swiglu or pattern=local:16; the end of this help "
    words += "lists all names; can be repeated"
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=words)
    kinds, defaults = field_kinds(preset), {field.name: field.default for field in dataclasses.fields(preset)}
    for name, (words, flag) in settings(preset).items():
        if flag is None:
            continue
        kind, rule = plain_kind(kinds[name])
        default = _default(flag, defaults[name])
        how: dict[str, Any] = {"type": OfKind(kinds[name]), "default": default}
        if kind is bool:
            how = {"action": "store_true"}
        elif isinstance(rule, Choices):
            how = {"choices": tuple(rule.words), "default": default}
        if flag.metavar:
            how["metavar"] = flag.metavar
        shown = "the preset's value" if flag.preset else "" if default in (None, False) else default
        if flag.times:
            words, shown = f"{words}, as a multiple of the preset's value", default
        uses: tuple[Use, ...] = ("train", "resume") if flag.resumes else ("train",)
        add(option_of(name), uses=uses, help=f"{words} (default: {shown})" if shown != "" else words, **how)
    words = "knowledge distillation: also learn from the predicted probabilities of the model in the run folder RUN"
    add("--teacher", type=model_path, metavar="RUN", help=words)
    words = "start training from the weights, sizes and tokenizer of MODEL: a run folder, a folder of a Hugging Face "
    words += "transformers model, or a name on the Hugging Face Hub"
    add("--init", type=model_path, metavar="MODEL", help=words)
    size, data = _on_command_line("preset", "laptop"), _on_command_line("data", "embedded")
    shown = choose(size, data) if choose and size in PRESET_NAMES else None
    of = "a preset" if shown is None else f"the preset {size} with --data {data}"
    rows = [f"values for --set, with the defaults of {of}:"]
    for name, (words, _) in settings(preset).items():
        value = "" if shown is None else f" (default: {_plain(getattr(shown, name))})"
        rows.append(f"  {name:<24}{words}; {described(kinds[name])}{value}")
    rows += ["", "HANDLOOM_DATA: folder of data sets. Data sets not in this folder are downloaded on first use."]
    parser.epilog = "\n".join(rows)


def _on_command_line(option: str, default: str) -> str:
    """Return the text after the option on the command line, or `default`; argparse has not parsed it yet."""
    words = " ".join(sys.argv[1:])
    found = re.search(rf"(?:^| )--{option}[= ](\S+)", words)
    return found[1] if found else default


def _plain(value: Any) -> str:
    """Write a preset's value in the syntax of --set."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def option_of(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.replace('_', '-')}"


def run_options(arguments: Any) -> dict[str, Any]:
    """Return the options for `tasks.task.train_model` from the parsed command line."""
    own = {name: getattr(arguments, name) for name in ("seed", "device", "stop_at")}
    return {**own, "resume": arguments.resume is not None}


def preset_of(arguments: Any, preset: AnyPreset) -> AnyPreset:
    """Return the preset with the changes of --set, of --positions if the program has that option, and of the flags.

    Raises InputError for an invalid change, and for a change that has no effect with the other options.
    """
    own = {"positions": arguments.positions} if getattr(arguments, "positions", None) else {}
    made = changed(preset, [*arguments.set, *(f"{name}={value}" for name, value in own.items())])
    typed = {setting.partition("=")[0] for setting in arguments.set}
    defaults = {field.name: field.default for field in dataclasses.fields(preset)}
    flags = {name: flag for name, (_, flag) in settings(type(preset)).items() if flag is not None}
    changes: dict[str, Any] = {}
    for name, flag in flags.items():
        default = _default(flag, defaults[name])
        value = getattr(arguments, name, default)
        if value != default:
            changes[name] = value * getattr(made, name) if flag.times else value
    made = dataclasses.replace(made, **changes)
    if getattr(arguments, "resume", None) is not None:  # some options may then be changed
        return made
    for name in sorted(typed & arguments.given & flags.keys()):
        if not flags[name].times:
            raise InputError(f"--set {name} and {option_of(name)} set the same value: leave out one of them.")
    for name, idle, why in _idle(arguments, made):
        if idle and name in typed | own.keys() | changes.keys():
            raise InputError(f"{f'--set {name}' if name in typed else option_of(name)} has no effect: {why}.")
    return made


def _idle(arguments: Any, made: Preset) -> Iterator[tuple[str, bool, str]]:
    """Yield (name, whether the option has no effect, reason) for options that depend on other options."""
    for name in sorted(MODEL_FIELDS | {"tied"}):
        yield name, bool(arguments.init), "the model of --init determines it. Leave it out"
    yield "vocab_size", bool(arguments.teacher), "the vocabulary of the --teacher is used. Leave it out"
    characters = getattr(arguments, "tokenizer", "") == "character"
    yield "vocab_size", characters, "the characters of the text are the vocabulary. Leave it out"
    noam, cure = made.schedule == "noam", "Leave it out, or choose another --schedule"
    yield "lr", noam, f"the schedule noam does not use it. {cure}"
    yield "lr_factor", not noam, f"only the schedule noam uses it. {cure}"
    for name in ("betas", "eps"):
        yield name, made.optimizer == "sgd", "only adam and adamw use it. Leave it out"
    yield "average", made.ema is not None, "--ema already averages the weights. Leave out one of the two"
    yield "name_overflows", made.precision == "fp32", "gradients overflow only in fp16. Add --precision fp16"
    if isinstance(made, ClassifierPreset):
        yield "epochs", made.steps is not None, "the number of steps replaces it. Leave out one of the two"
        own_words = bool(arguments.teacher or arguments.init)
        yield "min_frequency", own_words, "the vocabulary of --teacher or --init is used. Leave it out"
    if isinstance(made, LanguageModelPreset):
        yield "pad_to", True, "all windows of a text have the same length. Leave it out"
        yield "recurrent_steps", arguments.steps is not None, "--steps sets it for all models. Leave out one of the two"
        recurrent = getattr(arguments, "table", "baselines") == "baselines"
        for name in ("recurrent_size", "recurrent_embedding", "recurrent_steps", "recurrent_lr"):
            yield name, not recurrent, "only --table baselines trains recurrent models. Leave it out"


def changed(preset: AnyPreset, values: Sequence[str]) -> AnyPreset:
    """Return a copy of `preset` with the changes `values`, each in the form NAME=VALUE.
    The value "none" means None, if the field allows None.

    Raises InputError for an unknown name, a name given twice, or a value that the field does not allow.
    """
    kinds = field_kinds(type(preset))
    made: dict[str, Any] = {}
    for given in values:
        name, _, text = given.partition("=")
        if name not in kinds:
            raise InputError(f"--set {given}: the preset has no {name!r}. It has {', '.join(sorted(kinds))}.")
        if name in made:
            raise InputError(f"--set {given}: {name} is given twice. Give it once.")
        try:
            made[name] = parse_value(kinds[name], text.strip())
        except ValueError as error:
            raise InputError(f"--set {given}: {error}. The preset's value is {getattr(preset, name)}.") from None
    return dataclasses.replace(preset, **made)


def _default(flag: Flag, default: Any) -> Any:
    """Return the default of the option of a field: None if the preset's value applies."""
    return None if flag.preset else default
