"""Values from files and command lines are checked against the declarations of the fields."""

import dataclasses
import math
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from handloom.models import ClassifierConfig, LanguageModelConfig, RecurrentConfig, Seq2SeqConfig, fields
from handloom.models.fields import Choices, Count, Depth, Fraction, Pattern, Rate
from handloom.models.hyperparameters import ClassifierPreset, LanguageModelPreset, TranslationPreset
from handloom.models.presets import classifier_preset, translation_preset

Colour, Pair = Annotated[str, Choices(("red", "blue"))], tuple[Fraction, Fraction]
DECLARED = (
    Seq2SeqConfig, LanguageModelConfig, ClassifierConfig, RecurrentConfig, TranslationPreset, LanguageModelPreset,
    ClassifierPreset,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Count, [1, 10**9, np.int64(3)], [0, -1, 10**9 + 1, 10**400, 1.0, True, "1", None, [1], math.inf]),
        (Depth | None, [None, 1, 1000], [1001, False]),
        (Fraction, [0, 0.0, 0.999, np.float32(0.5)], [1, -0.1, math.nan, math.inf, "0.1", True]),
        (Rate, [1e-12, 3], [0, 0.0, math.nan, math.inf]),
        (bool, [True, False], [0, 1, "true", None]),
        (str, ["", "x"], [1, None, b"x"]),
        (Colour, ["red"], ["green", "", 1]),
        (Literal["a", "b"] | None, ["a", None], ["c"]),
        (Pattern, ["full", "local:0"], ["local:-1", "local", "ful", 3]),
        (Pair, [(0.1, 0.2), [0, 0.5]], [(0.1,), (0.1, 1), "ab", 0.1]),
    ],
)
def test_what_fits(kind: Any, good: list, bad: list) -> None:
    assert [value for value in good if not fields.fits(kind, value)] == []
    assert [value for value in bad if fields.fits(kind, value)] == []


@pytest.mark.parametrize(
    ("kind", "text", "value", "words"),
    [
        (Depth, "3", 3, "a whole number from 1 to 1,000"),
        (Count | None, "None", None, "a whole number from 1 to 1,000,000,000, or none"),
        (Rate, "1e-3", 1e-3, "a number above 0"),
        (Fraction, "0", 0.0, "a number from 0 to below 1"),
        (bool, "TRUE", True, "true or false"),
        (Colour, "blue", "blue", "one of red, blue"),
        (Pattern, "strided:2", "strided:2", "full, local:SIZE or strided:SIZE"),
        (Pair, "0.1,0.2", (0.1, 0.2), "2 values, separated by commas, each a number from 0 to below 1"),
    ],
)
def test_text_becomes_the_value_or_an_error(kind: Any, text: str, value: Any, words: str) -> None:
    assert fields.parse_value(kind, text) == value
    assert type(fields.parse_value(kind, text)) is type(value)
    assert fields.described(kind) == words
    for wrong in ("", "-1", "nan", "1e400", "x", "1,2,3", "9" * 5000):
        with pytest.raises(ValueError, match=f"^it must be {words.replace('(', '.')}$"):
            fields.parse_value(kind, wrong)


@pytest.mark.parametrize("declared", DECLARED)
def test_every_field_declares_something_that_can_be_checked(declared: type) -> None:
    """`fits` would accept everything, or nothing, for an annotation that it does not know."""
    for name, kind in fields.field_kinds(declared).items():
        assert fields.described(kind), name
        assert not fields.fits(kind, object()), name
        assert not fields.fits(kind, {}), name
    for field in dataclasses.fields(declared):
        if field.default is not dataclasses.MISSING:
            assert fields.fits(fields.field_kinds(declared)[field.name], field.default), field.name


def test_a_dataclass_names_the_field() -> None:
    with pytest.raises(ValueError, match=r"^clip_norm is 0, but it must be a number above 0, or none$"):
        dataclasses.replace(translation_preset("smoke", "embedded"), clip_norm=0)
    with pytest.raises(ValueError, match=r"^encoder_layers is 10000000, but it must be a whole number from 1 to "):
        Seq2SeqConfig(10, 10, encoder_layers=10**7)
    for config in (Seq2SeqConfig(10, 10, pad_id=9), ClassifierConfig(10, 2, pad_id=9)):
        with pytest.raises(ValueError, match=r"^pad_id is 10, but it must be an id of"):
            dataclasses.replace(config, pad_id=10)
    for rotary in ({"base": 0}, {"theta": 2.0}, {"factor": "2"}, [2.0]):
        with pytest.raises(ValueError, match=r"^rotary is .*, but it must be base, factor, low, high or length, each"):
            LanguageModelConfig(10, rotary=rotary)
    fields.check_fields(LanguageModelConfig(10, rotary={"base": 5e5, "length": None}))
    fields.check_fields(classifier_preset("paper", "news"))


def test_numpy_scalars_become_python_numbers() -> None:
    """A setting such as np.float32(0.25) ended a training at its first save, which is JSON."""
    preset = dataclasses.replace(
        translation_preset("smoke", "embedded"),
        dropout=np.float32(0.25),
        layers=np.int64(1),
        betas=(np.float32(0.5), 0.9),
    )
    values = preset.dropout, preset.layers, *preset.betas
    assert (values, [type(value) for value in values]) == ((0.25, 1, 0.5, 0.9), [float, int, float, float])
