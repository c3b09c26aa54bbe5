"""Options beyond the reports' models: each has its effect, and none has any by default."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, no_grad, ops
from handloom.models import (
    ClassifierConfig,
    LanguageModel,
    LanguageModelConfig,
    Rules,
    Seq2SeqConfig,
    Seq2SeqTransformer,
    TransformerClassifier,
    greedy_search,
)
from handloom.models.generation import Uncached
from handloom.nn.positional import RotaryPositions, sinusoidal_table

RNG = np.random.default_rng(0)
LLAMA = LanguageModelConfig(
    17, d_model=16, nhead=4, layers=2, dim_feedforward=24, dropout=0.0, activation="swiglu", positions="rotary",
    tie_output=False, norm="rms", norm_eps=1e-6, bias="none", kv_heads=2, output_bias=False, rotary={"base": 500.0},
)  # fmt: skip
SMALL = {"d_model": 16, "nhead": 4, "dim_feedforward": 24, "dropout": 0.0}


@pytest.mark.parametrize("config", [LanguageModelConfig(9), ClassifierConfig(9, 2), Seq2SeqConfig(9, 9)])
def test_options_at_their_defaults_are_not_saved(config) -> None:
    saved = config.to_dict()
    options = {field.name for field in dataclasses.fields(config) if field.kw_only}
    assert len(options) > 5
    assert not options & set(saved)
    changed = dataclasses.replace(config, norm_eps=1e-12, kv_heads=2)
    assert {**saved, "norm_eps": 1e-12, "kv_heads": 2} == changed.to_dict()
    assert type(config)(**changed.to_dict()) == changed


@pytest.mark.parametrize("method", ["standard", "blocked"])
def test_grouped_queries_are_attention_with_each_key_repeated(method) -> None:
    query, key, value = (
        Tensor(RNG.normal(size=(2, heads, 5, 3)), requires_grad=True) for heads in (6, 2, 2)
    )
    out = ops.attention(query, key, value, causal=True, key_lengths=np.array([5, 3]), method=method)
    g = RNG.normal(size=out.shape)
    out.backward(g)
    wide = [Tensor(np.repeat(x.data, 3, axis=1), requires_grad=True) for x in (key, value)]
    again = Tensor(query.data, requires_grad=True)
    expected = ops.attention(again, *wide, causal=True, key_lengths=np.array([5, 3]), method=method)
    expected.backward(g)
    np.testing.assert_array_equal(out.data, expected.data)
    np.testing.assert_allclose(query.grad, again.grad, rtol=1e-12)
    for own, repeated in zip((key, value), wide, strict=True):
        np.testing.assert_allclose(own.grad, repeated.grad.reshape(2, 2, 3, 5, 3).sum(axis=2), rtol=1e-10)
    with pytest.raises(ValueError, match="don't fit together"):
        ops.attention(Tensor(np.zeros((2, 5, 5, 3))), key, value)
    with pytest.raises(ValueError, match="is not divisible by kv_heads"):
        nn.MultiHeadAttention(12, 6, kv_heads=4)


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

    def logits(ids, origin):
        with no_grad():
            return model(ids).data[:, -1]

    rules = Rules(None, None, [[1, 2, 3], [4]], max_length=8)
    for packed in (False, True):
        cached = greedy_search(model.start(2, decoder=model.raw_decoder(packed)), rules)
        plain = greedy_search(Uncached(logits, 2), rules)
        assert [one.ids for one in cached] == [one.ids for one in plain]
        np.testing.assert_allclose([one.score for one in cached], [one.score for one in plain], rtol=1e-9)


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "relative"])
def test_padding_on_the_left_changes_nothing(positions) -> None:
    model = LanguageModel(dataclasses.replace(LLAMA, positions=positions)).astype(np.float64).eval()
    ids = RNG.integers(17, size=(2, 6))
    padded = np.concatenate([np.full((2, 3), 9), ids], axis=1)
    padded[1, :4] = 0
    with no_grad():
        out = model(padded, [3, 4]).data
        np.testing.assert_allclose(out[0, 3:], model(ids).data[0], atol=1e-12)
        np.testing.assert_allclose(out[1, 4:], model(ids[1:, 1:]).data[0], atol=1e-12)


def test_an_encoder_and_a_decoder_of_different_sizes() -> None:
    sizes = {"decoder_nhead": 2, "decoder_dim_feedforward": 40, "decoder_max_length": 7, "positions": "learned"}
    config = Seq2SeqConfig(11, 11, **SMALL, encoder_layers=1, decoder_layers=1, max_length=5, kv_heads=2, **sizes)
    model = Seq2SeqTransformer(config).eval()
    assert model.decoder.layers[0].linear1.out_features == 40
    assert model.decoder.layers[0].multihead_attn.num_heads == 2
    assert model.decoder_positions.weight.shape == (7, 16)
    source = RNG.integers(1, 11, (2, 5))
    with no_grad():
        model(source, RNG.integers(1, 11, (2, 7)))
    rules = Rules(1, None, max_length=6)
    cached, plain = (greedy_search(start(source), rules) for start in (model.start, model.start_uncached))
    assert [one.ids for one in cached] == [one.ids for one in plain]


def test_a_classifier_as_bert_builds_it() -> None:
    config = ClassifierConfig(
        11, 3, **SMALL, layers=1, max_length=8, scale_embedding=False, token_types=2, embedding_norm=True, pooler="tanh"
    )
    model = TransformerClassifier(config).eval()
    ids = RNG.integers(1, 11, (2, 6))
    with no_grad():
        zeros = model(ids, token_types=np.zeros_like(ids)).data
        np.testing.assert_allclose(model(ids).data, zeros, rtol=1e-6)
        assert not np.allclose(model(ids, token_types=np.ones_like(ids)).data, zeros)
    with pytest.raises(ValueError, match="pooler is 'max', but it must be one of none, tanh, relu"):
        dataclasses.replace(config, pooler="max")


def test_halves_hold_the_same_numbers() -> None:
    table, halves = sinusoidal_table(9, 6), sinusoidal_table(9, 6, halves=True)
    np.testing.assert_array_equal(halves[:, :3], table[:, 0::2])
    np.testing.assert_array_equal(halves[:, 3:], table[:, 1::2])


def test_rotary_scaling_slows_down_low_frequencies_only() -> None:
    plain = RotaryPositions(64, 10000.0).rate
    np.testing.assert_allclose(RotaryPositions(64, 10000.0, 4.0).rate, plain / 4)
    scaled = RotaryPositions(64, 10000.0, 8.0, low=1.0, high=4.0, length=128).rate
    assert (scaled[0], scaled[-1]) == (plain[0], plain[-1] / 8)
    assert (np.diff(scaled / plain) <= 0).all()


def test_initialisers_can_be_skipped() -> None:
    parameter = nn.Linear(3, 2).weight
    before = parameter.data.copy()
    with nn.init.skip_init():
        nn.init.normal_(parameter)
        nn.init.xavier_uniform_(parameter)
    np.testing.assert_array_equal(parameter.data, before)
