"""--set changes a preset; what it has not, or can't be, is refused."""

from __future__ import annotations

from argparse import Namespace

import pytest

from handloom.errors import InputError
from handloom.models.presets import SMOKE
from handloom.train.cli.training import changed, preset_of


def test_changed_values() -> None:
    preset = changed(SMOKE, ["d_model=64", "norm_first=true", "betas=0.8,0.9", "clip_norm=none", "positions=rotary"])
    assert (preset.d_model, preset.norm_first, preset.betas, preset.clip_norm) == (64, True, (0.8, 0.9), None)
    assert preset.positions == "rotary"
    assert SMOKE.d_model == 32


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("d_modell=3", "the preset has no 'd_modell'. It has .*d_model"),
        ("d_model", "must be a whole number from 1 to 1,000,000. The preset has 32"),
        ("d_model=1e3", "must be a whole number"),
        ("steps=0", "must be a whole number from 1"),
        ("warmup=-1", "must be a whole number from 0"),
        ("layers=10000000", "from 1 to 1,000"),
        ("norm_first=maybe", "must be true or false"),
        ("betas=0.9", "must be 2 values"),
        ("betas=2,3", "each a number from 0 to below 1"),
        ("lr=nan", "must be a number from 0 on"),
        ("eps=-1", "must be a number above 0"),
        ("clip_norm=0", "must be a number above 0, or none"),
        ("lr_factor=0", "must be a number above 0"),
        ("dropout=1", "to below 1"),
        ("label_smoothing=2", "to below 1"),
        ("schedule=sinus", "must be one of noam, constant"),
        ("activation=swigloo", "must be one of relu, gelu"),
        ("pattern=local", "must be full, local:SIZE or strided:SIZE"),
    ],
)
def test_values_that_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(SMOKE, [setting])


def test_a_value_given_twice() -> None:
    with pytest.raises(InputError, match="--set d_model=64: d_model is given twice"):
        changed(SMOKE, ["d_model=32", "d_model=64"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"set": ["lr=0.1"]}, "--set lr: the schedule noam has no use for it"),
        ({"set": ["lr_factor=2"], "schedule": "cosine"}, "--set lr_factor: the schedule cosine has no use for it"),
        ({"set": ["weight_decay=0.1"], "weight_decay": 0.2}, "--set weight_decay and --weight-decay are the same"),
        ({"set": ["steps=5"], "steps": 5}, "--set steps and --steps are the same"),
        ({"set": ["positions=none"], "positions": "alibi"}, "positions is given twice"),
        ({"set": ["vocab_size=500"], "teacher": "run"}, "no tokens are learned, those of the --teacher"),
        ({"set": ["max_length=9", "d_model=16"], "init": "run"}, "--set d_model: the model of --init has its own"),
        ({"set": ["vocab_size=500"], "init": "run"}, "--set vocab_size: the model of --init has its own"),
        ({"set": [], "positions": "alibi", "init": "run"}, "--positions alibi: the model of --init has its own"),
        ({"set": ["vocab_size=500"], "tokenizer": "character"}, "characters are as many as the text has"),
    ],
)
def test_a_change_without_effect(given: dict, message: str) -> None:
    arguments = Namespace(**{"schedule": None, "teacher": None, "init": None, **given}, given=given.keys() - {"set"})
    with pytest.raises(InputError, match=message):
        preset_of(arguments, SMOKE)


def test_changes_beside_each_other() -> None:
    given = {"set": ["accumulate=2", "lr=0.1"], "schedule": "linear", "positions": "alibi"}
    arguments = Namespace(**given, teacher=None, init=None, given={"accumulate"})
    preset = preset_of(arguments, SMOKE)
    assert (preset.accumulate, preset.lr, preset.positions) == (2, 0.1, "alibi")
