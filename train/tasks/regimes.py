"""How to train, beside the model's preset: optimiser, schedule, precision, averages, early stopping, as options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from ...errors import InputError
from ...models.fields import Choices, Count, NotNegative, Rate, Share, Whole, described, field_kinds, fits, short
from ...models.presets import SCHEDULES, Preset
from ...nn import Module, MultiHeadAttention, checkpoint_activations
from ..distributed import local_device
from ..optim.optimizers import SGD, Adam, AdamW, Optimizer
from ..optim.schedules import Plateau, Schedule, constant, cosine, linear, noam
from ..trainer import Trainer

#: What every task measures in validation.
METRICS = ("valid_loss", "valid_accuracy")
AnyModel = TypeVar("AnyModel", bound=Module)


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

    Raises InputError for a value that its field does not allow.
    """

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    schedule: Annotated[str, Choices(SCHEDULES)] | None = None
    lr: Rate | None = None
    weight_decay: NotNegative | None = None
    accumulate: Count = 1
    ema: Share | None = None
    patience: Count | None = None
    monitor: Annotated[str, Choices(METRICS)] | None = None
    precision: Literal["fp32", "fp16"] = "fp32"
    name_overflows: bool = False
    graphs: bool = False
    deterministic: bool = False
    prefetch: Whole = 0
    checkpoint_activations: bool = False
    curriculum: Whole = 0
    pad_to: Count = 1
    log_every: Count = 20
    gradient_norms: bool = False
    keep: Count = 2

    def __post_init__(self) -> None:
        for name, kind in field_kinds(Regime).items():
            value = getattr(self, name)
            if not fits(kind, value):
                words = described(kind, none=False)
                raise InputError(f"--{name.replace('_', '-')} {short(value)}: it must be {words}.")

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
        """The optimiser, with the betas and eps of the preset."""
        decay = self.weight_decay if self.weight_decay is not None else preset.weight_decay or None
        options: dict[str, Any] = {} if decay is None else {"weight_decay": decay}
        if self.optimizer == "sgd":
            return SGD(model.parameters(), momentum=0.9, **options)
        kind = AdamW if self.optimizer == "adamw" else Adam
        return kind(model.parameters(), betas=preset.betas, eps=preset.eps, **options)

    def make_schedule(self, preset: Preset, steps: int) -> Schedule:
        """The schedule over `steps` updates. Raises InputError if it lacks its rate, or has one that it doesn't use."""
        schedule, lr = self.schedule or preset.schedule, self.lr or preset.lr
        if schedule == "noam":
            if self.lr is not None:
                raise InputError("Noam's schedule has its rate from the preset: leave out --lr, or choose --schedule.")
            return noam(preset.d_model, max(preset.warmup, 1), preset.lr_factor)
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
    """`Trainer.fit`, from the run's last save on if `resume`; what is found there is said.

    Raises InputError, before anything is changed, if the run is past the trainer's last step or past `stop_at`.
    """
    done = max(trainer.saves.steps(), default=0) if resume else 0
    if done > trainer.steps:
        raise InputError(f"The run has made {done:,} updates already, more than --steps {trainer.steps:,}.")
    if stop_at is not None and not done < stop_at <= trainer.steps:
        raise InputError(f"--stop-at {stop_at:,}: the run is at step {done:,} of {trainer.steps:,}. Choose one ahead.")
    if resume:
        for problem in trainer.load():
            say(f"warning: {problem} An older save is used.")
        say(f"resumed after step {trainer.progress.step:,}")
    return trainer.fit(stop_at)
