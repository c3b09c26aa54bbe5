"""Training options, generated from the fields of a preset: --set changes any field, and some fields have flags."""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..errors import InputError, near
from ..models.fields import Choices, described, field_kinds, parse_value, plain_kind, settings
from ..models.hyperparameters import MODEL_FIELDS, ClassifierPreset, LanguageModelPreset, Preset, TranslationPreset
from ..models.presets import PRESET_NAMES
from ..models.shipped import model_path
from .generation import check_lengths, strategy_of
from .options import OfKind, OptionParser

AnyPreset = TypeVar("AnyPreset", bound=Preset)


def add_preset_options(parser: OptionParser, choose: Callable[[str, str], Preset]) -> None:
    """Add --set for the fields of a preset, the flags of these fields, --teacher and --init.

    --help shows the values of the preset that `choose` returns for --preset and --data.
    """
    size, data = _on_command_line("preset", "laptop"), _on_command_line("data", "embedded")
    known = size in PRESET_NAMES
    chosen = choose(size if known else "laptop", data)
    preset = type(chosen)
    add = parser.group("training settings")
    words = "change a value of the preset, for example activation=swiglu or pattern=local:16; the end of this help "
    words += "lists all names; can be repeated"
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=words)
    kinds, defaults = field_kinds(preset), {field.name: field.default for field in dataclasses.fields(preset)}
    for name, (words, flag) in settings(preset).items():
        if flag is None:
            continue
        kind, rule, _ = plain_kind(kinds[name])
        default = None if flag.preset else defaults[name]
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
        words = f"{words} (default: {shown})" if shown != "" else words
        add(option_of(name), resumes=flag.resumes, help=words, **how)
    words = "knowledge distillation: also learn from the predicted probabilities of the model in the run folder RUN"
    add("--teacher", type=model_path, metavar="RUN", help=words)
    words = "start training from the weights, sizes and tokenizer of MODEL: a run folder, a folder of a Hugging Face "
    words += "transformers model, or a name on the Hugging Face Hub"
    add("--init", type=model_path, metavar="MODEL", help=words)
    of = f"the preset {size} with --data {data}" if known else "a preset"
    rows = [f"values for --set, with the defaults of {of}:"]
    for name, (words, _) in settings(preset).items():
        value = f" (default: {_plain(getattr(chosen, name))})" if known else ""
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


def preset_of(arguments: Any, preset: AnyPreset) -> AnyPreset:
    """Return the preset with the changes of --set, of --positions if the program has that option, and of the flags.
    A change that has no effect with the other options is an error.
    """
    own = {"positions": arguments.positions} if getattr(arguments, "positions", None) else {}
    made = changed(preset, [*arguments.set, *(f"{name}={value}" for name, value in own.items())])
    typed = {setting.partition("=")[0] for setting in arguments.set}
    defaults = {field.name: field.default for field in dataclasses.fields(preset)}
    flags = {name: flag for name, (_, flag) in settings(type(preset)).items() if flag is not None}
    changes: dict[str, Any] = {}
    for name, flag in flags.items():
        default = None if flag.preset else defaults[name]
        value = getattr(arguments, name, default)
        if value != default:
            changes[name] = value * getattr(made, name) if flag.times else value
    made = dataclasses.replace(made, **changes)
    if "beam" in arguments and isinstance(made, TranslationPreset):
        check_lengths(strategy_of(arguments), made.max_length)
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
    for name in sorted(MODEL_FIELDS):
        yield name, bool(arguments.init), "the model of --init determines it. Leave it out"
    yield "vocab_size", bool(arguments.teacher), "the vocabulary of the --teacher is used. Leave it out"
    characters = getattr(arguments, "tokenizer", "") == "character"
    yield "vocab_size", characters, "the characters of the text are the vocabulary. Leave it out"
    noam, cure = made.schedule == "noam", "Leave it out, or choose another --schedule"
    yield "lr", noam, f"the schedule noam does not use it. {cure}"
    yield "lr_factor", not noam, f"only the schedule noam uses it. {cure}"
    for name in ("betas", "eps"):
        yield name, made.optimizer == "sgd", "only adam and adamw use it. Leave it out"
    yield "name_overflows", made.precision != "fp16", "gradients overflow only in fp16. Add --precision fp16"
    yield "average", made.ema is not None, "--ema already averages the weights. Leave out one of the two"
    if isinstance(made, TranslationPreset):
        yield "lowercase", made.words, "the words are in lower case. Leave it out"
        yield "new_encoder_layers", not arguments.init, "the layers are added to the model of --init. Add --init"
        yield "title_case", made.lowercase, "lowercase replaces it. Leave out one of the two"
    if isinstance(made, ClassifierPreset):
        yield "word_vectors", bool(arguments.init), "the model of --init determines it. Leave it out"
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
    """Return a copy of `preset` with the changes `values`, each in the form NAME=VALUE; "none" means None."""
    kinds = field_kinds(type(preset))
    made: dict[str, Any] = {}
    for given in values:
        name, _, text = given.partition("=")
        if name not in kinds:
            cure = near(name, kinds, f"It has {', '.join(sorted(kinds))}.")
            raise InputError(f"--set {given}: the preset has no {name!r}. {cure}")
        if name in made:
            raise InputError(f"--set {given}: {name} is given twice. Give it once.")
        try:
            made[name] = parse_value(kinds[name], text.strip())
        except ValueError as error:
            raise InputError(f"--set {given}: {error}. The preset's value is {getattr(preset, name)}.") from None
    return dataclasses.replace(preset, **made)
