"""Nothing without an entry: optimizers and schedules have their formula here, data sets a test and a row in docs."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Parameter
from handloom.models.fields import field_kinds, plain_kind
from handloom.models.hyperparameters import Preset
from handloom.train.data import captions, news, running_text, translation
from handloom.train.optim import optimizers, schedules

ROOT = Path(__file__).resolve().parents[2]


def sgd(options: dict[str, Any]) -> Callable[..., np.ndarray]:
    """v = momentum v + g; w = (1 - lr decay) w - lr v, or lr (g + momentum v) with nesterov (Sutskever et al. 2013)."""
    momentum = options.get("momentum", 0.0)

    def update(w: np.ndarray, g: np.ndarray, state: dict[str, Any], t: int) -> np.ndarray:
        v = state["v"] = momentum * state.get("v", 0) + g
        moved = g + momentum * v if options.get("nesterov") else v
        return (1 - options["lr"] * options.get("weight_decay", 0)) * w - options["lr"] * moved

    return update


def adam(options: dict[str, Any]) -> Callable[..., np.ndarray]:
    """Algorithm 1 of Kingma and Ba 2015, with the decoupled decay of Loshchilov and Hutter 2019."""
    b1, b2 = options["betas"]

    def update(w: np.ndarray, g: np.ndarray, state: dict[str, Any], t: int) -> np.ndarray:
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
        v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * g**2
        w = (1 - options["lr"] * options.get("weight_decay", 0)) * w
        return w - options["lr"] * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + options["eps"])

    return update


# Each optimizer with its formula, and options whose values all differ, so that two of them can't be exchanged.
ADAM = {"lr": 0.03, "betas": (0.7, 0.95), "eps": 1e-3}
OPTIMIZERS: dict[str, list[tuple[Callable[..., Any], dict[str, Any]]]] = {
    "SGD": [(sgd, {"lr": 0.1}), (sgd, {"lr": 0.1, "momentum": 0.6, "weight_decay": 0.2}),
            (sgd, {"lr": 0.1, "momentum": 0.6, "nesterov": True})],
    "Adam": [(adam, ADAM), (adam, ADAM | {"weight_decay": 0.2})],
    "AdamW": [(adam, ADAM | {"weight_decay": 0.2})],
}  # fmt: skip
# Each schedule, its arguments, and the rates at some steps.
SCHEDULES: dict[str, tuple[tuple[Any, ...], dict[int, float]]] = {
    "constant": ((0.5, 4), {1: 0.125, 4: 0.5, 99: 0.5}),
    "noam": ((64, 100, 2.0), {25: 2 / 8 * 25 / 1000, 100: 2 / 8 / 10, 400: 2 / 8 / 20}),
    "linear": ((0.5, 10, 110, 0.2), {5: 0.25, 10: 0.5, 60: 0.5 * 0.6, 110: 0.1}),
    "cosine": ((0.5, 10, 110, 0.2), {5: 0.25, 35: 0.5 * (0.2 + 0.4 * (1 + math.sqrt(0.5))), 60: 0.3, 110: 0.1}),
    "Plateau": ((0.5,), {1: 0.5, 99: 0.5}),  # its falls: test_schedules.py
}


def public(module: Any, kind: Callable[[Any], bool]) -> set[str]:
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return {name for name, value in own.items() if not name.startswith("_") and kind(value)}


def test_every_optimizer_and_schedule_is_in_the_tables_and_in_the_docs() -> None:
    base = optimizers.Optimizer
    found = public(optimizers, lambda value: isinstance(value, type) and issubclass(value, base) and value is not base)
    assert found == OPTIMIZERS.keys()
    assert public(schedules, callable) == SCHEDULES.keys()
    (row,) = re.findall(r"^\| optimizer, schedule \|.*$", (ROOT / "docs/training.md").read_text("utf-8"), re.MULTILINE)
    kinds = field_kinds(Preset)
    for field, names in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
        _, choices, _ = plain_kind(kinds[field])
        assert set(choices.words) == {name.lower() for name in names}, "the command's choices"
        assert all(f"`{name}`" in row or f"{name}`" in row for name in choices.words)


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, rows in OPTIMIZERS.items() for i in range(len(rows))])
def test_updates_are_those_of_the_papers_formula(name: str, number: int) -> None:
    formula, options = OPTIMIZERS[name][number]
    rng = np.random.default_rng(0)
    weight = Parameter(rng.normal(size=(3, 4)))
    expected, state, update = weight.data.copy(), {}, formula(options)
    optimizer = getattr(optimizers, name)([weight], **options)
    for t in range(1, 6):
        weight.grad = rng.normal(size=(3, 4))
        expected = update(expected, weight.grad.copy(), state, t)
        optimizer.step()
    np.testing.assert_allclose(weight.data, expected, rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_the_formula(name: str) -> None:
    arguments, rates = SCHEDULES[name]
    schedule = getattr(schedules, name)(*arguments)
    assert {step: schedule(step) for step in rates} == pytest.approx(rates)


def test_every_data_set_has_a_test_and_a_row_in_the_docs() -> None:
    rows = "\n".join(re.findall(r"^\|.*$", (ROOT / "docs/start.md").read_text(encoding="utf-8"), re.MULTILINE))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/train/data").glob("test_*.py"))
    loads = {name: getattr(load, "func", load).__name__ for name, (load, _) in translation.SETS.items()}
    names = [*loads, *running_text.SETS, *news.NEWS_NAMES, *captions.CAPTION_NAMES]
    assert [name for name in names if f"`{name}`" not in rows] == []
    assert [name for name in names if f'"{name}"' not in tests and loads.get(name, name) not in tests] == []
