"""Test that a sequence of compiled jobs for all layers of a step gives the results of the layers one by one."""

from unittest.mock import Mock

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.autograd.fast import parallel
from handloom.models import LanguageModel, LanguageModelConfig
from handloom.models.generation import cache
from handloom.models.generation.fast import affine, layers
from handloom.nn import Linear, MultiHeadAttention
from tests.support.decoding import build, needs_numba, random_source

pytestmark = [needs_numba, pytest.mark.usefixtures("restored_threads")]


@pytest.fixture(autouse=True)
def small_models_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(cache, "INITIAL_CAPACITY", 3)


def language_model(**options) -> LanguageModel:
    manual_seed(0)
    sizes = {"d_model": 8, "nhead": 4, "layers": 2, "dim_feedforward": 12, "dropout": 0.0, "max_length": 40}
    model = LanguageModel(LanguageModelConfig(9, **{**sizes, "activation": "relu", **options})).eval()
    for parameter in model.parameters():  # initial weights are small, and initial biases are 0
        parameter.data[...] += np.random.default_rng(parameter.size).normal(scale=0.3, size=parameter.shape)
    return model


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", ["encoder-decoder", "language model", "grouped heads", "no bias"])
def test_a_beam_whose_width_changes(kind: str, norm_first: bool, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both results agree, also after a sweep of the cache, with sources of different lengths or removed sentences."""
    parallel.set_num_threads(threads)
    rng = np.random.default_rng(0)
    if kind in ("encoder-decoder", "no bias"):
        options = {"bias": "none"} if kind == "no bias" else {}
        model = build(0, layers=2, norm_first=norm_first, **options).astype(np.float32)
        source = random_source(rng, [3, 5])
        one_by_one, at_once = (model.start(source, decoder=model.raw_decoder()) for _ in range(2))
    else:
        lm = language_model(norm_first=norm_first, **({"kv_heads": 2} if kind == "grouped heads" else {}))
        one_by_one, at_once = (lm.start(2, decoder=lm.raw_decoder()) for _ in range(2))
    one_by_one._layers = None
    sentences, width, new = 2, 1, 4  # the first step feeds a prefix
    for new_width in (3, 3, 3, 2, 2, 1, 3, 3, 3, 9, 1, 1):
        ids = rng.integers(4, 9, (sentences * width, new))
        np.testing.assert_allclose(at_once.step(ids), one_by_one.step(ids), rtol=1e-4, atol=1e-5)
        if new_width == 1:
            sentences = 1
        rows = (np.arange(sentences)[:, None] * width + rng.integers(0, width, (sentences, new_width))).reshape(-1)
        for state in (at_once, one_by_one):
            state.select(rows, new_width)
        width, new = new_width, 1
    assert isinstance(at_once._layers, layers.Layers)


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "gelu"},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"pattern": "local:2"},
        {"norm": "rms"},
        {"norm": "layer_std"},
    ],
)
def test_other_layers_are_computed_one_by_one(options) -> None:
    assert layers.supported(language_model().raw_decoder())
    assert not layers.supported(language_model(**options).raw_decoder())


@pytest.mark.parametrize(("name", "features"), [("linear", 40), ("linear", 5), ("self_attn", 8)])
def test_layers_of_other_sizes_are_computed_one_by_one(name: str, features: int) -> None:
    """The jobs access memory by address with the sizes of the first layer, so all layers must have these sizes."""
    model = language_model()
    layer = model.decoder.layers[1]
    if name == "linear":
        layer.linear1, layer.linear2 = Linear(8, features), Linear(features, 8)
    else:
        layer.self_attn = MultiHeadAttention(8, features, head_dim=2, kv_heads=4)
    assert not layers.supported(model.raw_decoder())


def test_cross_attention_of_another_size_is_computed_one_by_one() -> None:
    model = build(0, layers=2).astype(np.float32)
    assert layers.supported(model.raw_decoder())
    model.decoder.layers[1].multihead_attn = MultiHeadAttention(8, 4, head_dim=4)
    assert not layers.supported(model.raw_decoder())


def test_norms_can_have_another_dtype_and_gaps_between_their_numbers() -> None:
    model, ids = language_model(), np.array([[4], [5]])
    expected = model.start(2, decoder=model.raw_decoder()).step(ids).copy()
    for layer in model.decoder.layers:
        layer.norm1.weight.data = layer.norm1.weight.data.astype(np.float64)
        layer.norm2.bias.data = layer.norm2.bias.data.repeat(2)[::2]
    state = model.start(2, decoder=model.raw_decoder())
    np.testing.assert_allclose(state.step(ids), expected, rtol=1e-6)
    assert isinstance(state._layers, layers.Layers)


def test_arrays_that_are_replaced_are_not_read() -> None:
    model = language_model()
    state = model.start(2, decoder=model.raw_decoder())
    state.step(np.array([[4], [5]]))
    arguments = np.ones((2, 8), np.float32), state._cache, [], None, None
    expected = state._layers(*arguments).copy()
    old = [parameter.data for parameter in model.decoder.parameters()]
    model.astype(np.float64)
    for array in old:
        array[...] = np.nan
    np.testing.assert_array_equal(state._layers(*arguments), expected)


def test_an_interrupt_leaves_no_table_of_old_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model()
    state = model.start(2, decoder=model.raw_decoder())
    state.step(np.array([[4], [5]]))
    at_once, x = state._layers, np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    arguments = x, state._cache, [], None, None
    expected = at_once(*arguments).copy()
    with monkeypatch.context() as patch:
        patch.setattr(layers.Layers, "_norm", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            at_once._lay_out(5)
    np.testing.assert_array_equal(at_once(*arguments), expected)


def test_states_of_one_decoder_have_memory_of_their_own() -> None:
    model = language_model()
    decoder, ids = model.raw_decoder(), np.array([[4], [5]])
    states = [model.start(2, decoder=decoder) for _ in range(2)]
    first = [state.step(ids) for state in states]
    np.testing.assert_array_equal(*first)
    second = states[0].step(ids[::-1]).copy()
    states[1].step(ids)
    again = model.start(2, decoder=decoder)
    again.step(ids)
    np.testing.assert_array_equal(again.step(ids[::-1]), second)


def test_the_rows_of_a_batch_have_the_bits_of_each_row_alone() -> None:
    model, ids = language_model(), np.array([[4], [5], [6], [7], [8], [4], [6]])
    decoder = model.raw_decoder()
    together = model.start(len(ids), decoder=decoder)
    alone = [model.start(1, decoder=decoder) for _ in ids]
    for _ in range(3):
        logits = together.step(ids)
        for row, state in enumerate(alone):
            np.testing.assert_array_equal(state.step(ids[row : row + 1])[0], logits[row])
