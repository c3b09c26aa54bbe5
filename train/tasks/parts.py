"""Makes the parts that a preset describes: model, optimiser, schedule, and options of the Trainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ...errors import InputError
from ...models.hyperparameters import Preset
from ...nn import Module, MultiHeadAttention, checkpoint_activations
from ..distributed import local_device
from ..optim.optimizers import SGD, Adam, AdamW, Optimizer
from ..optim.schedules import Plateau, Schedule, constant, cosine, linear, noam
from ..trainer import Record
from ..updates import UpdateOptions
from ..validation import Validation

AnyModel = TypeVar("AnyModel", bound=Module)


def make_model(preset: Preset, build: Callable[[Any], AnyModel], config: Any, device: str) -> AnyModel:
    """Make the model on its device. Raises InputError if the configuration doesn't fit together."""
    try:
        model = build(config).to(local_device(device))
    except ValueError as error:
        raise InputError(f"This model can't be built: {error}. Change the preset, or the values of --set.") from None
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.deterministic = preset.deterministic
    if preset.checkpoint_activations:
        checkpoint_activations(model)
    return model


def make_optimizer(preset: Preset, model: Module) -> Optimizer:
    """Make the optimiser that the preset names."""
    options: dict[str, Any] = {} if preset.weight_decay is None else {"weight_decay": preset.weight_decay}
    if preset.optimizer == "sgd":
        return SGD(model.parameters(), momentum=0.9, **options)
    kind = AdamW if preset.optimizer == "adamw" else Adam
    return kind(model.parameters(), betas=preset.betas, eps=preset.eps, **options)


def make_schedule(preset: Preset, steps: int) -> Schedule:
    """Make the schedule over `steps` updates. Raises InputError if its learning rate is missing."""
    if preset.schedule == "noam":
        return noam(preset.d_model, max(preset.warmup, 1), preset.lr_factor)
    if preset.lr is None:
        raise InputError(f"The schedule {preset.schedule} needs a learning rate: add --lr, 1e-3 for example.")
    warmup = min(preset.warmup, steps // 2)
    if preset.schedule == "plateau":
        return Plateau(preset.lr, warmup=warmup)
    if preset.schedule == "constant":
        return constant(preset.lr, warmup)
    return {"linear": linear, "cosine": cosine}[preset.schedule](preset.lr, warmup, steps)


def update_options(preset: Preset) -> UpdateOptions:
    """Return the options of an update as the preset sets them."""
    return UpdateOptions(**{field.name: getattr(preset, field.name) for field in dataclasses.fields(UpdateOptions)})


def make_validation(preset: Preset, batches: Iterable[Any], epoch: int, steps: int) -> Validation:
    """Make the validation on these batches by the preset's metric.
    `epoch` is the number of training batches in an epoch.
    """
    return Validation(
        batches,
        every=min(preset.validate_every or epoch, steps),
        monitor=preset.monitor,
        higher_is_better=preset.monitor.endswith("accuracy"),
        patience=preset.patience,
        average=preset.average,
    )


def make_record(preset: Preset, dropout: float, unit: str) -> Record:
    """Make the logging options. A label explains why the training loss may exceed the validation loss."""
    smoothing = f", label smoothing {preset.label_smoothing}" if preset.label_smoothing else ""
    return Record(
        every=preset.log_every,
        keep=preset.keep,
        gradient_norms=preset.gradient_norms,
        label=f"training (dropout {dropout}{smoothing})",
        unit=unit,
    )
