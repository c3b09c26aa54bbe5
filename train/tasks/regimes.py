"""How to train, beside the model's preset: optimiser, schedule, precision, averages, early stopping, as options."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ...errors import InputError
from ...models.presets import Preset
from ...nn import Module, MultiHeadAttention, checkpoint_activations
from ..distributed import local_device
from ..optim.optimizers import SGD, Adam, AdamW, Optimizer
from ..optim.schedules import Plateau, Schedule, constant, cosine, linear, noam
from ..trainer import Trainer

AnyModel = TypeVar("AnyModel", bound=Module)
SCHEDULES = ("noam", "constant", "linear", "cosine", "plateau")


@dataclass(frozen=True)
class Regime:
    """How to train. The defaults are Adam with the preset's schedule.

    Attributes:
        optimizer: "adam", "adamw" (weight decay 0.01 unless given) or "sgd" (momentum 0.9).
        schedule: "noam", or one with the peak `lr`: "constant", "linear", "cosine", "plateau"; None for the preset's.
        lr: peak of the schedule, None for the preset's; Noam's follows from the preset's warm-up.
        weight_decay: of matrices; None for the preset's, or else the optimiser's own.
        accumulate, ema, precision, name_overflows, graphs, prefetch, log_every, gradient_norms, keep: of `Trainer`.
        deterministic: on a device attention sums in a fixed order, so that the same run gives the same bits.
        patience, monitor: of `Trainer`; None for what the task has.
        checkpoint_activations: compute activations anew in the backward pass.
        curriculum: epochs in which batches come in the order of difficulty.
        pad_to: of `TokenBatches`; windows of running text are of one length as they are.

    Raises InputError for a rate, a decay or an average out of its range.
    """

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    schedule: Literal["noam", "constant", "linear", "cosine", "plateau"] | None = None
    lr: float | None = None
    weight_decay: float | None = None
    accumulate: int = 1
    ema: float | None = None
    patience: int | None = None
    monitor: str | None = None
    precision: Literal["fp32", "fp16"] = "fp32"
    name_overflows: bool = False
    graphs: bool = False
    deterministic: bool = False
    prefetch: int = 0
    checkpoint_activations: bool = False
    curriculum: int = 0
    pad_to: int = 1
    log_every: int = 20
    gradient_norms: bool = False
    keep: int = 2

    def __post_init__(self) -> None:
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise InputError(f"--lr {self.lr}: give a learning rate above 0, 1e-3 for example.")
        if self.weight_decay is not None and not 0 <= self.weight_decay < math.inf:
            raise InputError(f"--weight-decay {self.weight_decay}: give a number from 0 on, 0.01 for example.")
        if self.ema is not None and not 0 <= self.ema < 1:
            raise InputError(f"--ema {self.ema}: give a decay from 0 on and below 1, 0.999 for example.")

    def make_model(self, build: Callable[[Any], AnyModel], config: Any, device: str) -> AnyModel:
        """The model on its device. Raises InputError if the configuration doesn't fit together."""
        try:
            model = build(config).to(local_device(device))
        except ValueError as error:
            raise InputError(f"This model can't be built: {error}. Change the preset, or what --set changes.") from None
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.deterministic = self.deterministic
        if self.checkpoint_activations:
            checkpoint_activations(model)
        return model

    def make_optimizer(self, model: Module, preset: Preset) -> Optimizer:
        """The optimiser, with the betas and eps of the preset. Raises InputError if they can't be used."""
        decay = self.weight_decay if self.weight_decay is not None else preset.weight_decay or None
        options: dict[str, Any] = {} if decay is None else {"weight_decay": decay}
        if self.optimizer == "sgd":
            return SGD(model.parameters(), momentum=0.9, **options)
        kind = AdamW if self.optimizer == "adamw" else Adam
        try:
            return kind(model.parameters(), betas=preset.betas, eps=preset.eps, **options)
        except ValueError as error:
            raise InputError(f"{error}. Change what --set or --weight-decay says.") from None

    def make_schedule(self, preset: Preset, steps: int) -> Schedule:
        """The schedule over `steps` updates. Raises InputError if it lacks its rate, or has one that it doesn't use."""
        schedule, lr = self.schedule or preset.schedule, self.lr or preset.lr
        if schedule == "noam":
            if self.lr is not None:
                raise InputError("Noam's schedule has its rate from the preset: leave out --lr, or choose --schedule.")
            return noam(preset.d_model, max(preset.warmup, 1), preset.lr_factor)
        if schedule not in SCHEDULES:
            raise InputError(f"There is no schedule {schedule!r}: take one of {', '.join(SCHEDULES)}.")
        if not lr:
            raise InputError(f"The schedule {schedule} needs a learning rate: add --lr, 1e-3 for example.")
        warmup = min(preset.warmup, steps // 2)
        if schedule == "plateau":
            return Plateau(lr, warmup=warmup)
        if schedule == "constant":
            return constant(lr, warmup)
        return {"linear": linear, "cosine": cosine}[schedule](lr, warmup, steps)

    def trainer_options(self, monitor: str = "valid_loss", patience: int | None = None) -> dict[str, Any]:
        """What `Trainer` takes by these names; `monitor` and `patience` are the task's own."""
        names = ["accumulate", "ema", "precision", "name_overflows", "graphs", "prefetch"]
        names += ["log_every", "gradient_norms", "keep"]
        own = {name: getattr(self, name) for name in names}
        own |= {"monitor": self.monitor or monitor, "patience": self.patience or patience}
        return own | {"higher_is_better": own["monitor"].endswith(("accuracy", "bleu"))}


def fit(trainer: Trainer, *, resume: bool, stop_at: int | None, say: Callable[[str], None]) -> float:
    """`Trainer.fit`, from the run's last save on if `resume`; what is found there is said."""
    if resume:
        for problem in trainer.load():
            say(f"warning: {problem} An older save is used.")
        say(f"resumed after step {trainer.progress.step:,}")
    return trainer.fit(stop_at)
