"""How to train, as options: those of `Regime`, --set for the preset, --teacher, --init."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InputError
from ...models import ClassifierConfig, LanguageModelConfig, Seq2SeqConfig
from ...models.fields import field_kinds, parse_value
from ...models.presets import SCHEDULES, Preset
from ..tasks.regimes import METRICS, Regime
from .command_line import number, positive
from .options import OptionParser

AnyPreset = TypeVar("AnyPreset", bound=Preset)

#: What a model of --init brings along, so that the preset can't say it.
MODEL_FIELDS = {
    field.name
    for config in (Seq2SeqConfig, LanguageModelConfig, ClassifierConfig)
    for field in dataclasses.fields(config)
} - {"max_length"}


def add_regime_options(parser: OptionParser) -> None:
    """Options for everything in `Regime`, --set for the preset, --teacher and --init."""
    add = parser.group("how to train", "train")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a value of the preset, such as norm_first=true, activation=swiglu, positions=relative, "
        "pattern=local:16, pattern=strided:8, label_smoothing=0.1; a name that doesn't exist lists them all",
    )
    add("--optimizer", choices=("adam", "adamw", "sgd"), default="adam", help="(default: adam)")
    add("--schedule", choices=SCHEDULES, help="of the learning rate (default: the preset's)")
    add("--lr", type=number, help="peak learning rate of the schedules other than noam")
    add("--weight-decay", type=number, help="of matrices, decoupled (default: the preset's)")
    add("--accumulate", type=positive, default=1, metavar="K", help="batches an update (default: 1)")
    add("--precision", choices=("fp32", "fp16"), default="fp32", help="(default: fp32)")
    add(
        "--name-overflows", action="store_true", help="with fp16: log the parameter whose gradient overflowed first"
    )
    add("--log-every", type=positive, default=20, metavar="N", help="steps a row (default: 20)")
    add("--gradient-norms", action="store_true", help="log the norm of each layer's gradient")
    add("--keep", type=positive, default=2, metavar="N", help="how many saves to keep (default: 2)")
    add(
        "--graphs", action="store_true", help="on a device: launch each pass and update as one CUDA graph"
    )
    add(
        "--deterministic", action="store_true", help="on a device: sums in a fixed order, the same bits each time"
    )
    add(
        "--checkpoint-activations", action="store_true", help="less memory: recompute in the backward pass"
    )
    add("--ema", type=number, metavar="DECAY", help="validate and keep an exponential average")
    add("--patience", type=positive, metavar="N", help="stop after N validations without a better one")
    add("--monitor", choices=METRICS, help="metric that decides (default: the task's)")
    add("--curriculum", type=positive, default=0, metavar="EPOCHS", help="from easy to hard at first")
    add(
        "--pad-to", type=positive, default=1, metavar="N", help="pad batches to multiples of N tokens, for --graphs"
    )
    add("--teacher", type=Path, metavar="RUN", help="learn from the model of an earlier run as well")
    add(
        "--init",
        type=Path,
        metavar="MODEL",
        help="begin with a model's weights: of a run, a folder of transformers or a name on the Hub; its sizes and its "
        "tokens count, not the preset's",
    )
    add("--prefetch", type=positive, default=0, metavar="N", help="make N batches ahead in a thread")


def regime_of(arguments: Any) -> Regime:
    """The regime that the parsed options describe."""
    return Regime(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Regime)})


def run_options(arguments: Any) -> dict[str, Any]:
    """What every training task takes of the parsed options: seed, steps, device, resume, stop_at, regime."""
    own = {name: getattr(arguments, name) for name in ("seed", "steps", "device", "stop_at")}
    return {**own, "resume": arguments.resume is not None, "regime": regime_of(arguments)}


def preset_of(arguments: Any, preset: AnyPreset) -> AnyPreset:
    """The preset with the changes of --set, and of --positions where there is one.

    Raises InputError as `changed`, or for a change that has no effect beside the other options.
    """
    positions = getattr(arguments, "positions", None)
    made = changed(preset, [*arguments.set, *([f"positions={positions}"] if positions else [])])
    names = {setting.partition("=")[0] for setting in arguments.set}
    flags = {field.name for field in dataclasses.fields(Regime)} | {"steps"}
    for name in sorted(names & arguments.given & flags - {"accumulate"}):  # the two accumulations are multiplied
        raise InputError(f"--set {name} and --{name.replace('_', '-')} are the same: leave out one of them.")
    if arguments.init and positions:
        raise InputError(f"--positions {positions}: the model of --init has its own. Leave it out.")
    if arguments.init and (own := sorted(names & MODEL_FIELDS)):
        raise InputError(f"--set {own[0]}: the model of --init has its own. Leave it out.")
    own_tokens = not (arguments.teacher or arguments.init) and getattr(arguments, "tokenizer", "") != "character"
    if "vocab_size" in names and not own_tokens:
        reason = "those of the --teacher are taken" if arguments.teacher else "characters are as many as the text has"
        raise InputError(f"--set vocab_size: no tokens are learned, {reason}. Leave it out.")
    schedule = arguments.schedule or made.schedule
    useless = "lr" if schedule == "noam" else "lr_factor"
    if useless in names:
        raise InputError(f"--set {useless}: the schedule {schedule} has no use for it. Choose another --schedule.")
    return made


def changed(preset: AnyPreset, settings: Sequence[str]) -> AnyPreset:
    """A preset with some values changed, each given as NAME=VALUE; "none" where there may be none.

    Raises InputError for an unknown name, a name given twice, or a value that its field does not allow.
    """
    kinds = field_kinds(type(preset))
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in kinds:
            raise InputError(f"--set {setting}: the preset has no {name!r}. It has {', '.join(sorted(kinds))}.")
        if name in values:
            raise InputError(f"--set {setting}: {name} is given twice. Give it once.")
        try:
            values[name] = parse_value(kinds[name], text.strip())
        except ValueError as error:
            now = getattr(preset, name)
            raise InputError(f"--set {setting}: {error}. The preset has {now}.") from None
    return dataclasses.replace(preset, **values)
