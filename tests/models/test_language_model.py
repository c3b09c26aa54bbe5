"""Test the decoder-only model and its baselines: causality, the cache, gradients, and formulas of the baselines."""

from collections import Counter

import numpy as np
import pytest

from handloom.autograd import Tensor, manual_seed
from handloom.autograd.gradcheck import gradcheck
from handloom.models import (
    BigramLanguageModel,
    LanguageModel,
    LanguageModelConfig,
    NGramLanguageModel,
    RandomLanguageModel,
    RecurrentConfig,
    RecurrentLanguageModel,
)
from handloom.models.baselines import RECURRENT_LAYERS
from handloom.models.generation import Uncached
from handloom.nn import POSITIONS

pytestmark = pytest.mark.slow

SMALL = {"d_model": 8, "nhead": 2, "head_dim": 6, "layers": 2, "dim_feedforward": 12, "dropout": 0.0, "max_length": 12}
RNG = np.random.default_rng(0)


def build(dtype=np.float64, **options) -> LanguageModel:
    manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**{"vocab_size": 11, **SMALL, **options})).astype(dtype)
    for parameter in model.parameters():  # outputs hardly differ with the small initial weights
        parameter.data[...] += 0.3 * RNG.normal(size=parameter.shape)
    return model.eval()


def generators() -> list:
    manual_seed(1)
    models = [build(positions=kind) for kind in POSITIONS]
    models += [build(pattern="local:2", positions="relative"), build(pattern="strided:3", activation="geglu")]
    models += [RecurrentLanguageModel(RecurrentConfig(11, kind, 6, 2)).astype(np.float64) for kind in ("rnn", "lstm")]
    models += [RecurrentLanguageModel(RecurrentConfig(11, "gru", 6, embedding=False)).astype(np.float64)]
    models += [BigramLanguageModel(11), RandomLanguageModel(11)]
    models += [NGramLanguageModel(11, 3).fit(RNG.integers(0, 11, 500))]
    return [model.eval() for model in models]


@pytest.mark.parametrize("model", generators(), ids=lambda model: getattr(getattr(model, "config", 0), "positions", ""))
def test_the_state_equals_the_whole_forward_pass(model) -> None:
    ids = RNG.integers(0, 11, (3, 9))
    cached, uncached = model.start(3), Uncached(lambda ids, origin: model(ids).data[:, -1], 3)
    for state in (cached, uncached):
        state.step(ids[:, :4])
        state.select(np.array([2, 0, 0, 1]))
        assert state.rows == 4
    for column in range(4, 9):
        new = ids[[2, 0, 0, 1], column : column + 1] + np.arange(4)[:, None]
        new %= 11
        close = 1e-6 if isinstance(model, RandomLanguageModel) else 1e-12  # its logits contain noise of this size
        np.testing.assert_allclose(cached.step(new), uncached.step(new), rtol=1e-9, atol=close)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_position_does_not_see_its_future(positions: str) -> None:
    model, ids = build(positions=positions), RNG.integers(0, 11, (2, 8))
    before = model(ids).data
    ids[:, 5:] = (ids[:, 5:] + 1) % 11
    after = model(ids).data
    np.testing.assert_array_equal(after[:, :5], before[:, :5])
    assert (after[:, 5:] != before[:, 5:]).any(axis=(0, 2)).all()


@pytest.mark.parametrize("options", [{}, {"tie_output": True}, {"positions": "relative", "norm_first": False}])
def test_gradients(options: dict) -> None:
    assert gradcheck(build(**{**options, "layers": 1}), [RNG.integers(0, 11, (1, 3))], max_entries=5)


def test_lengths_end_where_the_table_ends() -> None:
    with pytest.raises(ValueError, match="positions"):
        build()(RNG.integers(0, 11, (1, 13)))
    assert build(positions="alibi")(RNG.integers(0, 11, (1, 30))).shape == (1, 30, 11)
    assert build().start().positions == 12
    assert build(positions="rotary").start().positions is None


def test_tied_output_is_the_embedding() -> None:
    model = build(tie_output=True)
    assert model.output.weight is model.embedding.weight
    assert model.output.bias is None


def test_bigram_table_is_the_counted_frequencies() -> None:
    ids = np.array([0, 1, 0, 1, 0, 2])
    model = BigramLanguageModel(3).fit(ids, smoothing=0.5)
    p = np.exp(model(np.array([[0]])).data[0, 0])
    np.testing.assert_allclose(p, np.array([0.5, 2.5, 1.5]) / 4.5, rtol=1e-6)
    with pytest.raises(ValueError, match="above 0"):
        model.fit(ids, smoothing=0)
    for use in (model.fit, NGramLanguageModel(3, 2).fit, NGramLanguageModel(3, 2).fit(ids)):
        with pytest.raises(IndexError, match="ids from 0 to 3 are not all in the vocabulary of 3 tokens"):
            use([1, 0, 3, 1])


def test_n_grams_are_interpolated_by_witten_bell() -> None:
    text, order = RNG.integers(0, 4, 120).tolist(), 3

    def probability(token: int, context: list[int] | None) -> float:
        if context is None:
            return 1 / 4
        ends = range(len(context), len(text))
        counts = Counter(text[end] for end in ends if text[end - len(context) : end] == context)
        lower = probability(token, context[1:] if context else None)
        return (counts[token] + len(counts) * lower) / (counts.total() + len(counts)) if counts else lower

    ids = RNG.integers(0, 4, (2, 6))
    found = np.exp(NGramLanguageModel(4, order).fit(text)(ids).data)
    for row, position, token in np.ndindex(found.shape):
        context = ids[row, max(position + 2 - order, 0) : position + 1].tolist()
        assert found[row, position, token] == pytest.approx(probability(token, context), rel=1e-12)
    short = NGramLanguageModel(4, order).fit([1])
    np.testing.assert_allclose(np.exp(short(ids[:, :1]).data[0, 0]), [1 / 8, 5 / 8, 1 / 8, 1 / 8])
    with pytest.raises(ValueError, match="from 1 to 9 with 100 tokens"):
        NGramLanguageModel(100, 10)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_without_an_embedding_tokens_are_one_hot(kind) -> None:
    """A product with a one-hot vector is a column of the matrix."""
    model = RecurrentLanguageModel(RecurrentConfig(5, kind, 4, 2, embedding=False)).astype(np.float64).eval()
    plain = RECURRENT_LAYERS[kind](5, 4, 2).astype(np.float64)
    state = {name.removeprefix("recurrent."): value for name, value in model.state_dict().items()}
    own = {name: value for name, value in state.items() if "_l" in name}
    table, zeros = state["embedding.weight"].T, np.zeros(len(state["embedding.weight"].T))
    plain.load_state_dict({**own, "weight_ih_l0": table, "bias_ih_l0": zeros})
    ids = RNG.integers(0, 5, (2, 3))
    expected = model.output(plain(Tensor(np.eye(5)[ids]))[0])
    np.testing.assert_allclose(model(ids).data, expected.data, rtol=1e-12)
    assert RecurrentConfig(**model.config.to_dict()) == model.config
    assert "embedding" not in RecurrentConfig(5).to_dict()
    with pytest.raises(ValueError, match="gru"):
        RecurrentConfig(11, "gtu")
    assert isinstance(RecurrentLanguageModel(RecurrentConfig(11, "gru", 6))(np.zeros((1, 2), int)), Tensor)
