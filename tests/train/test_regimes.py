"""How to train: values out of range are refused before anything is computed."""

from __future__ import annotations

import math

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.nn import Linear
from handloom.train.regimes import Regime, changed


def test_changed_values() -> None:
    preset = changed(SMOKE, ["d_model=64", "norm_first=true", "betas=0.8,0.9", "clip_norm=none", "positions=rotary"])
    assert (preset.d_model, preset.norm_first, preset.betas, preset.clip_norm) == (64, True, (0.8, 0.9), None)
    assert preset.positions == "rotary"
    assert SMOKE.d_model == 32


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("d_modell=3", "the preset has no 'd_modell'. It has .*d_model"),
        ("d_model", "give another int"),
        ("d_model=1e3", "give another int"),
        ("steps=0", "must be at least 1"),
        ("warmup=-1", "must be at least 1"),
        ("norm_first=maybe", "give another bool"),
        ("betas=0.9", "give another tuple"),
        ("lr=nan", "must be a number from 0 on"),
        ("eps=-1", "must be a number from 0 on"),
        ("dropout=1", "must be below 1"),
        ("label_smoothing=2", "must be below 1"),
    ],
)
def test_values_that_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(SMOKE, [setting])


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
