"""--set changes a preset; what it has not, or can't be, is refused."""

from __future__ import annotations

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.train.cli.training import changed


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
