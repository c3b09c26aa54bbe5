"""Every number that optimisers, schedules, clipping, averages, loss scales and the Trainer take, in every form."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handloom import Parameter, Tensor, nn, train
from handloom.models.fields import field_kinds, plain_kind
from handloom.models.hyperparameters import Settings
from handloom.train import (
    SGD,
    Adam,
    AdamW,
    EarlyStopping,
    ExponentialAverage,
    LossScaler,
    Plateau,
    TokenBatches,
    Trainer,
    clip_grad_norm,
    constant,
    cosine,
    linear,
    noam,
)
from handloom.train.runs.progress import Progress


def weights(make: Callable[[Parameter], Any], change: Callable[[Any], None] = lambda optimizer: None) -> np.ndarray:
    """Return a weight after two updates."""
    weight = Parameter(np.full((2, 2), 3.0, np.float32))
    optimizer = make(weight)
    change(optimizer)
    for gradient in (0.5, -2.0):
        weight.grad = np.full((2, 2), gradient, np.float32)
        optimizer.step()
    assert weight.data.dtype == np.float32
    return weight.data


def clipped(**options: Any) -> np.ndarray:
    weight = Parameter(np.ones(4, np.float32))
    weight.grad = np.full(4, 8.0, np.float32)
    norm = clip_grad_norm(weight, **options)
    return np.append(weight.grad, norm)


def averaged(decay: Any) -> np.ndarray:
    weight = Parameter(np.ones(4, np.float32))
    average = ExponentialAverage(weight, decay)
    weight.data[...] = 5
    for _ in range(20):
        average.update()
    return average.averages[0]


def falling(**options: Any) -> list[float]:
    schedule = Plateau(**options)
    for value in (1.0, 1.0, 0.6, 0.6, 0.6, 0.6):
        schedule.observe(value)
    return [schedule(step) for step in range(1, 5)]


def scales(**options: Any) -> list[float]:
    scaler, found = LossScaler(**options), []
    for finite in [True] * 6 + [False] * 9:
        scaler.update(finite)
        found.append(scaler.scale)
    return found


def stopped(patience: Any) -> list[str]:
    said: list[str] = []
    trainer: Any = type(
        "T", (), {"validation": [], "settings": Settings(), "stop": lambda self, why: said.append(why)}
    )()
    trainer.progress = Progress(0, best=1.0, stale=3)
    EarlyStopping(patience).on_start(trainer)
    return said


def rates(schedule: Callable[..., Any]) -> Callable[..., list[float]]:
    return lambda **options: [schedule(**options)(step) for step in range(1, 9)]


def updates(make: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda **options: weights(lambda weight: make(weight, **options))


def set_lr(lr: Any) -> np.ndarray:
    return weights(SGD, lambda optimizer: setattr(optimizer, "lr", lr))


def trained(rate: Any) -> np.ndarray:
    model = nn.Linear(2, 1)
    model.weight.data[...] = 1
    Trainer(
        model, lambda model, x: model(Tensor(x)).sum(), SGD(model.parameters()), lambda step: rate, callbacks=[]
    ).fit([np.ones((1, 2), np.float32)], steps=2)
    return model.weight.data


def batched(**options: Any) -> list[int]:
    pairs = [[5] * (1 + i % 5) for i in range(40)]
    made = TokenBatches(pairs, pairs, seed=0, **options)
    parts = [part for k in range(3) for batch in made.epoch(k) for part in (batch.target_input, batch.target_output)]
    return [number for part in parts for number in (-1, *part.shape, *part.ravel())]


ADAM = {"lr": 0.5, "betas": (0.5, 0.75), "eps": 0.25, "weight_decay": 0.125}
#: Of each function: a call that shows the effect of its numbers, and a value of each of them.
CALLS: dict[Any, tuple[Callable[..., Any], dict[str, Any]]] = {
    SGD: (updates(SGD), {"lr": 0.5, "momentum": 0.25, "weight_decay": 0.125}),
    Adam: (updates(Adam), ADAM),
    AdamW: (updates(AdamW), ADAM),
    "groups": (
        lambda **group: weights(lambda weight: SGD([{"params": weight, **group}], 0.5)),
        {"lr_scale": 0.5, "weight_decay": 0.25},
    ),
    "attribute": (set_lr, {"lr": 0.25}),
    "schedule": (trained, {"rate": 0.25}),
    constant: (rates(constant), {"lr": 0.5, "warmup": 3}),
    noam: (rates(noam), {"d_model": 4, "warmup": 2, "factor": 0.5}),
    linear: (rates(linear), {"lr": 0.5, "warmup": 2, "steps": 7, "floor": 0.25}),
    cosine: (rates(cosine), {"lr": 0.5, "warmup": 2, "steps": 7, "floor": 0.25}),
    Plateau: (
        falling,
        {"lr": 0.5, "factor": 0.5, "patience": 1, "threshold": 0.25, "floor": 0.03125, "warmup": 2},
    ),
    clip_grad_norm: (clipped, {"max_norm": 4.0, "scale": 0.5}),
    ExponentialAverage: (averaged, {"decay": 0.5}),
    LossScaler: (scales, {"initial": 8.0, "interval": 3, "least": 0.5}),
    EarlyStopping: (stopped, {"patience": 3}),
    TokenBatches: (
        batched,
        {
            "tokens_per_batch": 14, "pairs_per_batch": 3, "pad_id": 3, "bos_id": 6, "eos_id": 8, "max_length": 5,
            "curriculum": 1, "pad_to": 2,
        },
    ),
    Settings: (
        lambda **options: dataclasses.astuple(Settings(**options)),
        {"clip_norm": 0.5, "accumulate": 3, "ema": 0.5},
    ),
}  # fmt: skip
FORMS: list[Callable[[Any], Any]] = [
    np.float32, np.float64, np.array, Tensor, lambda value: Tensor(np.float32(value), requires_grad=True),
]  # fmt: skip
WHOLE: list[Callable[[Any], Any]] = [np.int64, np.int8, np.array, Tensor]
WRONG = [
    "0.5",
    -1,
    -0.5,
    np.nan,
    True,
    1j,
    [0.5, 0.5],
    np.ones(2),
    Tensor(np.ones(2)),
    Tensor(-1.0),
    np.float32(np.nan),
]
ARGUMENTS = [(call, name) for call, (_, values) in CALLS.items() for name in values]


@pytest.mark.parametrize(("call", "name"), ARGUMENTS)
def test_a_number_means_the_same_in_every_form(call, name) -> None:
    """Otherwise, `array -= tensor` would bind a name anew, and nothing would be trained."""
    function, values = CALLS[call]
    want, value = function(**values), values[name]
    changed = {bool: True, tuple: (0.25, 0.5), int: value + 1 if isinstance(value, int) else 0, float: 0.75}[
        type(value)
    ]
    assert not np.array_equal(np.ravel(want), np.ravel(function(**{**values, name: changed}))), "it has an effect"
    for form in WHOLE if isinstance(value, int) else FORMS:
        given = tuple(map(form, value)) if isinstance(value, tuple) else form(value)
        if call is Settings and not isinstance(given, np.generic):
            with pytest.raises(ValueError, match=f"{name} is "):
                function(**{**values, name: given})
        else:
            np.testing.assert_array_equal(function(**{**values, name: given}), want)


@pytest.mark.parametrize(("call", "name"), ARGUMENTS)
def test_what_is_no_such_number_is_refused_by_its_name(call, name) -> None:
    function, values = CALLS[call]
    for wrong in WRONG:
        if name == "scale" and isinstance(wrong, float | int | np.generic | Tensor) and np.size(wrong) == 1:
            continue  # any number
        if isinstance(values[name], tuple) and isinstance(wrong, list):
            continue
        with pytest.raises((TypeError, ValueError), match=rf"\b{'learning rate' if name == 'rate' else name}\b"):
            function(**{**values, name: wrong})


def test_the_table_has_every_number_of_the_public_functions() -> None:
    missing = {}
    for name in train.__all__:
        public = getattr(train, name)
        function = public.__init__ if isinstance(public, type) else public
        if callable(function) and hasattr(function, "__wrapped__") and public is not Trainer:
            parameters = inspect.signature(function).parameters.items()
            ruled = {key for key, p in parameters if "Bounds" in str(p.annotation) or p.annotation == "Count"}
            missing[name] = ruled - CALLS.get(public, (None, {}))[1].keys()
    missing.pop("Optimizer")
    assert len(missing) > 8
    assert not any(missing.values()), missing


@pytest.mark.parametrize("name", field_kinds(Settings))
def test_every_setting_of_the_trainer_is_checked(name) -> None:
    for wrong in ("no", -1, 1.5, np.nan, [1], 1j, Tensor(1.0), None):
        kind = field_kinds(Settings)[name]
        if (wrong is None and plain_kind(kind)[2]) or (name == "monitor" and wrong == "no"):
            continue
        if name == "clip_norm" and wrong == 1.5:
            continue
        with pytest.raises(ValueError, match=rf"^{name} is "):
            Settings(**{name: wrong})
