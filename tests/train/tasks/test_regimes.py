"""How to train: values out of range are refused before anything is computed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.train.tasks.regimes import Regime, fit


@pytest.mark.parametrize(
    "values",
    [{"lr": 0.0}, {"lr": math.nan}, {"weight_decay": -1.0}, {"ema": 1.0}, {"ema": math.nan}, {"accumulate": 0},
     {"lr": "x"}, {"optimizer": "adamm"}, {"schedule": 3}, {"graphs": 1}],
)  # fmt: skip
def test_ranges_and_kinds(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(values)).replace('_', '-')} .*: it must be"):
        Regime(**values)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match="leave out --lr"):
        Regime(lr=1.0).make_schedule(SMOKE, 10)


@pytest.mark.parametrize(
    ("resume", "steps", "stop_at", "message"),
    [
        (True, 20, None, "has made 30 updates already, more than --steps 20"),
        (True, 40, 30, "--stop-at 30: the run is at step 30 of 40"),
        (True, 40, 41, "--stop-at 41: the run is at step 30 of 40"),
        (False, 40, 41, "--stop-at 41: the run is at step 0 of 40"),
    ],
)
def test_steps_that_a_run_has_behind_it_or_never_reaches(resume, steps, stop_at, message) -> None:
    """Before anything of the run is touched: this trainer can do nothing."""
    trainer: Any = SimpleNamespace(saves=SimpleNamespace(steps=lambda: [10, 30]), steps=steps)
    with pytest.raises(InputError, match=message):
        fit(trainer, resume=resume, stop_at=stop_at, say=print)
