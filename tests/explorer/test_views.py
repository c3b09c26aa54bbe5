"""What the views are given: the numbers of the model itself, and words for what can't be answered."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.explorer import attention
from handloom.explorer.asking import Ask
from handloom.explorer.subject import load_subject
from handloom.train.tasks.translation import Translator

from tests.support.explorer_run import SENTENCE


@pytest.fixture(scope="module")
def subject(run_folder: Path) -> Any:
    return load_subject(run_folder)


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), packed["type"]).reshape(packed["shape"])


def test_the_maps_are_those_of_attention_maps(subject: Any, run_folder: Path) -> None:
    seen = attention.translate(subject, Ask({"text": SENTENCE}))
    translator = Translator.load(run_folder)
    maps, source, written = translator.attention_maps(SENTENCE)
    assert seen["answer"] == translator.translate([SENTENCE])[0]
    assert [len(seen["tokens"][side]) for side in ("source", "written")] == [len(source), len(written)]
    assert {layer["name"] for layer in seen["layers"]} == set(maps)
    for layer in seen["layers"]:
        np.testing.assert_array_equal(unpacked(layer["weights"]), maps[layer["name"]])


@pytest.mark.parametrize("name", ["encoder.layers.0.self_attn", "decoder.layers.1.self_attn"])
def test_one_head_can_be_computed_from_what_is_given(subject: Any, name: str) -> None:
    given = attention.head(subject, Ask({"text": SENTENCE, "layer": name, "head": 1, "query": 2}))
    q, k, v, added, weights, output = (unpacked(given[key]) for key in ("q", "k", "v", "added", "weights", "output"))
    scores = k.astype(np.float64) @ q * given["scale"] + added
    own = np.exp(scores - scores.max())
    own /= own.sum()
    np.testing.assert_allclose(own, weights, atol=1e-6)
    np.testing.assert_allclose(own @ v, output, atol=1e-5)


def test_what_can_not_be_answered_is_said_as_the_command_line_says_it(subject: Any, run_folder: Path) -> None:
    translator = Translator.load(run_folder)
    for text in ("", "  ", "sehr lang " * 120):
        with pytest.raises(InputError) as said:
            attention.translate(subject, Ask({"text": text}))
        with pytest.raises(InputError) as expected:
            translator.translate([text])
        assert str(said.value) == str(expected.value)
    for text in ("🙂", "Ελληνικά δεν", "こんにちは", "x", "\u0000"):
        assert attention.translate(subject, Ask({"text": text}))["layers"]


@pytest.mark.parametrize(
    "body",
    [
        {"text": 3},
        {"text": "x" * 9999},
        {"text": "\ud800"},
        {"layer": "output", "head": 0, "query": 0},
        {"layer": "encoder.layers.0.self_attn", "head": 2, "query": 0},
        {"layer": "encoder.layers.0.self_attn", "head": 0, "query": 99},
        {"layer": "encoder.layers.0.self_attn", "head": True, "query": 0},
        {"layer": ["encoder.layers.0.self_attn"], "head": 0, "query": 0},
    ],
)
def test_wrong_requests_are_refused(subject: Any, body: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        attention.head(subject, Ask({"text": SENTENCE, **body}))
