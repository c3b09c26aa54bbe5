"""How to train, as options: those of `Regime`, --set for the preset, --teacher, --init."""

from __future__ import annotations

import argparse
import dataclasses
import math
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InputError
from ...models.presets import Preset
from ..tasks.regimes import SCHEDULES, Regime
from .command_line import number, positive

AnyPreset = TypeVar("AnyPreset", bound=Preset)


def add_regime_options(parser: argparse.ArgumentParser) -> None:
    """Options for everything in `Regime`, --set for the preset, --teacher and --init."""
    group = parser.add_argument_group("how to train")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a value of the preset, such as norm_first=true, activation=swiglu, positions=relative, "
        "pattern=local:16, pattern=strided:8, label_smoothing=0.1; a name that doesn't exist lists them all",
    )
    group.add_argument("--optimizer", choices=("adam", "adamw", "sgd"), default="adam", help="(default: adam)")
    group.add_argument("--schedule", choices=SCHEDULES, help="of the learning rate (default: the preset's)")
    group.add_argument("--lr", type=number, help="peak learning rate of the schedules other than noam")
    group.add_argument("--weight-decay", type=number, help="of matrices, decoupled (default: the preset's)")
    group.add_argument("--accumulate", type=positive, default=1, metavar="K", help="batches an update (default: 1)")
    group.add_argument("--precision", choices=("fp32", "fp16"), default="fp32", help="(default: fp32)")
    group.add_argument(
        "--name-overflows", action="store_true", help="with fp16: log the parameter whose gradient overflowed first"
    )
    group.add_argument(
        "--graphs", action="store_true", help="on a device: launch each pass and update as one CUDA graph"
    )
    group.add_argument(
        "--deterministic", action="store_true", help="on a device: sums in a fixed order, the same bits each time"
    )
    group.add_argument(
        "--checkpoint-activations", action="store_true", help="less memory: recompute in the backward pass"
    )
    group.add_argument("--ema", type=number, metavar="DECAY", help="validate and keep an exponential average")
    group.add_argument("--patience", type=positive, metavar="N", help="stop after N validations without a better one")
    group.add_argument("--monitor", help="metric that decides, such as valid_loss (default: the task's)")
    group.add_argument("--curriculum", type=positive, default=0, metavar="EPOCHS", help="from easy to hard at first")
    group.add_argument(
        "--pad-to", type=positive, default=1, metavar="N", help="pad batches to multiples of N tokens, for --graphs"
    )
    group.add_argument("--teacher", type=Path, metavar="RUN", help="learn from the model of an earlier run as well")
    group.add_argument("--init", type=Path, metavar="MODEL", help="begin with a model's weights: of a run, a folder of "
                       "transformers or a name on the Hub; its sizes and its tokens count, not the preset's")
    group.add_argument("--prefetch", type=positive, default=0, metavar="N", help="make N batches ahead in a thread")


def regime_of(arguments: Any) -> Regime:
    """The regime that the parsed options describe."""
    return Regime(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Regime)})


def run_options(arguments: Any) -> dict[str, Any]:
    """What every training task takes of the parsed options: seed, steps, device, resume, stop_at, regime."""
    own = {name: getattr(arguments, name) for name in ("seed", "steps", "device", "stop_at")}
    return {**own, "resume": arguments.resume is not None, "regime": regime_of(arguments)}


def changed(preset: AnyPreset, settings: Sequence[str]) -> AnyPreset:
    """A preset with some values changed, each given as NAME=VALUE; "none" where there may be none.

    Raises InputError for an unknown name, or a value of another kind.
    """
    kinds = typing.get_type_hints(type(preset))
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in kinds:
            raise InputError(f"--set {setting}: the preset has no {name!r}. It has {', '.join(sorted(kinds))}.")
        try:
            values[name] = value = _parsed(kinds[name], text.strip())
        except (KeyError, TypeError, ValueError):
            shown = kinds[name].__name__ if isinstance(kinds[name], type) else kinds[name]
            raise InputError(f"--set {setting}: {name} is {getattr(preset, name)!r}; give another {shown}.") from None
        if type(value) is int and value < (0 if name == "warmup" else 1):
            raise InputError(f"--set {setting}: {name} must be at least 1.")
        if type(value) is float and not 0 <= value < math.inf:
            raise InputError(f"--set {setting}: {name} must be a number from 0 on.")
        if name in ("dropout", "label_smoothing") and value >= 1:
            raise InputError(f"--set {setting}: {name} must be below 1.")
    return dataclasses.replace(preset, **values)


def _parsed(kind: Any, text: str) -> Any:
    """The value that a text means, of a kind such as int, float | None or tuple[float, float]."""
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in kind.__args__ if one is not type(None))
        return None if text.lower() == "none" else _parsed(kind, text)
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if typing.get_origin(kind) is tuple:
        parts = text.split(",")
        return tuple(_parsed(one, part) for one, part in zip(kind.__args__, parts, strict=True))
    return kind(text)
