"""How to train: values out of range are refused before anything is computed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.train.tasks.regimes import Regime


@pytest.mark.parametrize(
    "values",
    [{"lr": 0.0}, {"lr": math.nan}, {"weight_decay": -1.0}, {"ema": 1.0}, {"ema": math.nan}, {"accumulate": 0},
     {"lr": "x"}, {"optimizer": "adamm"}, {"schedule": 3}, {"graphs": 1}],
)  # fmt: skip
def test_ranges_and_kinds(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(values)).replace('_', '-')} .*: it must be"):
        Regime(**values)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match=r"--name-overflows .*add --precision fp16"):
        Regime(name_overflows=True)
    with pytest.raises(InputError, match="leave out --lr"):
        Regime(lr=1.0).make_schedule(SMOKE, 10)
