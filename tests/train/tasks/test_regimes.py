"""How to train: values out of range are refused before anything is computed."""

from __future__ import annotations

import math

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.nn import Linear
from handloom.train.cli.training import changed
from handloom.train.tasks.regimes import Regime


@pytest.mark.parametrize(
    "values", [{"lr": 0.0}, {"lr": math.nan}, {"weight_decay": -1.0}, {"ema": 1.0}, {"ema": math.nan}]
)
def test_ranges(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(values)).replace('_', '-')}"):
        Regime(**values)


def test_an_optimiser_that_cannot_be_made() -> None:
    with pytest.raises(InputError, match=r"betas.*--set"):
        Regime().make_optimizer(Linear(2, 2), changed(SMOKE, ["betas=2,3"]))
    with pytest.raises(InputError, match="no schedule"):
        Regime().make_schedule(changed(SMOKE, ["schedule=sinus"]), 10)
