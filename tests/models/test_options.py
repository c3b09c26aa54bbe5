"""Test options that the reports' models do not use: saving, cached generation, left padding, initialisers."""

import dataclasses

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import no_grad
from handloom.models import ClassifierConfig, LanguageModel, LanguageModelConfig, Rules, Seq2SeqConfig, greedy_search
from handloom.models.generation import Uncached

RNG = np.random.default_rng(0)
LLAMA = LanguageModelConfig(
    17, d_model=16, nhead=4, layers=2, dim_feedforward=24, dropout=0.0, activation="swiglu", positions="rotary",
    tie_output=False, norm="rms", norm_eps=1e-6, bias="none", kv_heads=2, output_bias=False, rotary={"base": 500.0},
)  # fmt: skip


@pytest.mark.parametrize("config", [LanguageModelConfig(9), ClassifierConfig(9, 2), Seq2SeqConfig(9, 9)])
def test_options_at_their_defaults_are_not_saved(config) -> None:
    saved = config.to_dict()
    options = {field.name for field in dataclasses.fields(config) if field.kw_only}
    assert len(options) > 5
    assert not options & set(saved)
    changed = dataclasses.replace(config, norm_eps=1e-12, kv_heads=2)
    assert {**saved, "norm_eps": 1e-12, "kv_heads": 2} == changed.to_dict()
    assert type(config)(**changed.to_dict()) == changed


@pytest.mark.parametrize(
    "config",
    [LLAMA, dataclasses.replace(LLAMA, bias="qkv", kv_heads=1, pattern="local:3", tie_output=True),
     dataclasses.replace(LLAMA, norm="layer", activation="gelu_tanh", positions="alibi", bias="attention"),
     dataclasses.replace(LLAMA, norm="layer_std", norm_first=False, bias="no_qkv")],
)  # fmt: skip
def test_cached_generation_equals_the_whole_model(config) -> None:
    model = LanguageModel(config).astype(np.float64).eval()
    for parameter in model.parameters():
        parameter.data[...] = RNG.normal(size=parameter.shape) / 2
    rules = Rules(None, None, [[1, 2, 3], [4]], max_length=8)
    for packed in (False, True):
        cached = greedy_search(model.start(2, decoder=model.raw_decoder(packed)), rules)
        plain = greedy_search(Uncached(lambda ids, origin: model(ids).data[:, -1], 2), rules)
        assert [one.ids for one in cached] == [one.ids for one in plain]
        np.testing.assert_allclose([one.score for one in cached], [one.score for one in plain], rtol=1e-9)


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "relative"])
def test_padding_on_the_left_changes_nothing(positions) -> None:
    model = LanguageModel(dataclasses.replace(LLAMA, positions=positions)).astype(np.float64).eval()
    ids = RNG.integers(17, size=(2, 6))
    padded = np.concatenate([np.full((2, 3), 9), ids], axis=1)
    padded[1, :4] = 0
    with no_grad():
        out = model(padded, np.array([3, 4], np.uint8)).data
        np.testing.assert_allclose(out[0, 3:], model(ids).data[0], atol=1e-12)
        np.testing.assert_allclose(out[1, 4:], model(ids[1:, 1:]).data[0], atol=1e-12)


def test_initialisers_can_be_skipped() -> None:
    parameter = nn.Linear(3, 2).weight
    before = parameter.data.copy()
    with nn.init.skip_init():
        nn.init.normal_(parameter)
        nn.init.xavier_uniform_(parameter)
    np.testing.assert_array_equal(parameter.data, before)
