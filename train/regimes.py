"""How to train, beside the model's preset: optimiser, schedule, precision, averages, early stopping, as options."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..errors import InputError
from ..models.presets import TranslationPreset
from ..nn import Module
from .command_line import positive
from .optimizers import SGD, Adam, AdamW, Optimizer
from .schedules import Plateau, Schedule, constant, cosine, linear, noam

Preset = TypeVar("Preset")


@dataclass(frozen=True)
class Regime:
    """How to train. The defaults are Adam with Noam's schedule, as in the presets.

    Attributes:
        optimizer: "adam", "adamw" (weight decay 0.01 unless given) or "sgd" (momentum 0.9).
        schedule: "noam", or one with the peak `lr`: "constant", "linear", "cosine", "plateau".
        lr: peak of the schedule; Noam's follows from the preset.
        weight_decay: of matrices; None for the optimiser's own.
        accumulate, ema, patience, monitor, precision, prefetch: of `Trainer`.
        checkpoint_activations: compute activations anew in the backward pass.
        curriculum: epochs in which batches come short to long.
    """

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    schedule: Literal["noam", "constant", "linear", "cosine", "plateau"] = "noam"
    lr: float | None = None
    weight_decay: float | None = None
    accumulate: int = 1
    ema: float | None = None
    patience: int | None = None
    monitor: str = "valid_loss"
    precision: Literal["fp32", "fp16"] = "fp32"
    prefetch: int = 0
    checkpoint_activations: bool = False
    curriculum: int = 0

    def make_optimizer(self, model: Module, preset: TranslationPreset) -> Optimizer:
        """The optimiser, with the betas and eps of the preset."""
        decay: dict[str, Any] = {} if self.weight_decay is None else {"weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            return SGD(model.parameters(), momentum=0.9, **decay)
        kind = AdamW if self.optimizer == "adamw" else Adam
        return kind(model.parameters(), betas=preset.betas, eps=preset.eps, **decay)

    def make_schedule(self, preset: TranslationPreset, steps: int) -> Schedule:
        """The schedule over `steps` updates. Raises InputError if it lacks its rate, or has one that it doesn't use."""
        if self.schedule == "noam":
            if self.lr is not None:
                raise InputError("Noam's schedule has its rate from the preset: leave out --lr, or choose --schedule.")
            return noam(preset.d_model, preset.warmup, preset.lr_factor)
        if self.lr is None:
            raise InputError(f"The schedule {self.schedule} needs a learning rate: add --lr, 1e-3 for example.")
        warmup = min(preset.warmup, steps // 2)
        if self.schedule == "plateau":
            return Plateau(self.lr, warmup=warmup)
        if self.schedule == "constant":
            return constant(self.lr, warmup)
        return {"linear": linear, "cosine": cosine}[self.schedule](self.lr, warmup, steps)

    def trainer_options(self) -> dict[str, Any]:
        """What `Trainer` takes by these names."""
        names = ("accumulate", "ema", "patience", "monitor", "precision", "prefetch")
        higher = self.monitor.endswith(("accuracy", "bleu"))
        return {name: getattr(self, name) for name in names} | {"higher_is_better": higher}


def add_regime_options(parser: argparse.ArgumentParser) -> None:
    """Options for everything in `Regime`, and --set for the preset."""
    group = parser.add_argument_group("how to train")
    group.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a value of the preset")
    group.add_argument("--optimizer", choices=("adam", "adamw", "sgd"), default="adam", help="(default: adam)")
    schedules = ("noam", "constant", "linear", "cosine", "plateau")
    group.add_argument("--schedule", choices=schedules, default="noam", help="of the learning rate (default: noam)")
    group.add_argument("--lr", type=float, help="peak learning rate of the schedules other than noam")
    group.add_argument("--weight-decay", type=float, help="of matrices, decoupled (default: the optimiser's)")
    group.add_argument("--accumulate", type=positive, default=1, metavar="K", help="batches an update (default: 1)")
    group.add_argument("--precision", choices=("fp32", "fp16"), default="fp32", help="(default: fp32)")
    group.add_argument(
        "--checkpoint-activations", action="store_true", help="less memory: recompute in the backward pass"
    )
    group.add_argument("--ema", type=float, metavar="DECAY", help="validate and keep an exponential average")
    group.add_argument("--patience", type=positive, metavar="N", help="stop after N validations without a better one")
    group.add_argument("--monitor", default="valid_loss", help="metric that decides (default: valid_loss)")
    group.add_argument("--curriculum", type=positive, default=0, metavar="EPOCHS", help="short to long at first")
    group.add_argument("--prefetch", type=positive, default=0, metavar="N", help="make N batches ahead in a thread")


def regime_of(arguments: Any) -> Regime:
    """The regime that the parsed options describe."""
    return Regime(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Regime)})


def changed(preset: Preset, settings: Sequence[str]) -> Preset:
    """A preset with some values changed, each given as NAME=VALUE.

    Raises InputError for an unknown name, or a value of another kind.
    """
    own = {field.name: getattr(preset, field.name) for field in dataclasses.fields(preset)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in own:
            raise InputError(f"--set {setting}: the preset has no {name!r}. It has {', '.join(sorted(own))}.")
        kind = type(own[name])
        try:
            values[name] = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"--set {setting}: {name} is {own[name]!r}; give another {kind.__name__}.") from None
    return dataclasses.replace(preset, **values)  # type: ignore[type-var]
