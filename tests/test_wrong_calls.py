"""Calls that beginners get wrong: an error names the cause and the cure, and nothing is accepted without effect."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import handloom
from handloom import models, nn, tokenizer, train

layer = nn.Linear(2, 2)
language_model = models.LanguageModel(
    models.LanguageModelConfig(9, d_model=8, nhead=2, layers=1, dim_feedforward=8, max_length=8)
)
special = {"tokens_per_batch": 10, "seed": 0, "pad_id": 0, "bos_id": 1, "eos_id": 2}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: train.Adam(layer), "give Parameters, such as model.parameters(), not Linear"),
        (lambda: train.clip_grad_norm(layer, 1.0), "give Parameters, such as model.parameters(), not Linear"),
        (lambda: train.ExponentialAverage(layer), "give Parameters, such as model.parameters(), not Linear"),
        (lambda: handloom.Translator("smoke"), "Give both a model and its tokenizer, or neither; a preset is given as"),
        (lambda: handloom.Writer(language_model), "Give both a model and its tokenizer, or neither"),
        (lambda: tokenizer.WordTokenizer.train("a dog"), "several texts, not one string: give a list"),
        (lambda: tokenizer.CharacterTokenizer.train("a dog"), "several texts, not one string: give a list"),
        (lambda: layer.astype("int"), "astype: int64 is no floating dtype"),
        (lambda: layer.load_state_dict("model.pt"), "a state is a dict of arrays by name, not str"),
        (lambda: train.TokenBatches([[1]], [[2], [3]], **special), "1 sources and 2 targets"),
        (lambda: train.mean_losses(layer, abs, lambda epoch: []), "call the function: batches(0)"),
        (lambda: models.generate(language_model, [[1]], 3, strategy="beam"), "strategy is 'beam', but it must be a"),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2), "give a list of modules, not"),
    ],
)
def test_a_wrong_call_names_the_cause_and_the_cure(call: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        call()


def test_what_a_notebook_shows_is_short_and_has_no_address() -> None:
    data = train.load_text_data("embedded")
    adam = train.Adam(layer.parameters(), lr=0.01)
    shown = [
        tokenizer.CharacterTokenizer.train(["abc"]), tokenizer.BPETokenizer.train(["abc"], 270), data, adam,
        train.Trainer(layer, lambda model, batch: model(batch).mean(), adam), train.EarlyStopping(3),
        handloom.Writer(), handloom.Translator(),
    ]  # fmt: skip
    for one in shown:
        assert " at 0x" not in repr(one), repr(one)
        assert len(repr(one)) < 200, repr(one)
    assert repr(adam) == "Adam(lr=0.01, 2 parameters, 0 steps)"
    assert repr(shown[0]) == "CharacterTokenizer(7 tokens)"
    assert repr(layer.weight).startswith("Parameter([[")
