"""Test the encoder-only classifier: padding has no effect, every token affects the output, gradients are right."""

import numpy as np
import pytest

from handloom.autograd import Tensor, manual_seed
from handloom.autograd.gradcheck import gradcheck
from handloom.models import ClassifierConfig, TransformerClassifier
from handloom.models.classifier import POOLINGS
from handloom.nn import POSITIONS, Module

RNG = np.random.default_rng(0)


def build(**options) -> TransformerClassifier:
    manual_seed(0)
    sizes = {"d_model": 8, "nhead": 2, "layers": 2, "dim_feedforward": 12, "dropout": 0.0, "max_length": 20}
    config = ClassifierConfig(**{"vocab_size": 11, "classes": 3, **sizes, **options})
    return TransformerClassifier(config).astype(np.float64)


@pytest.mark.parametrize(
    "options", [*({"positions": kind} for kind in POSITIONS), *({"pooling": kind} for kind in POOLINGS)], ids=str
)
def test_padding_changes_nothing_and_every_token_counts(options: dict[str, str]) -> None:
    model = build(**options)
    ids = RNG.integers(4, 11, (2, 6))
    alone = model(ids[:1, :4]).data
    padded = ids.copy()
    padded[0, 4:] = 0
    np.testing.assert_allclose(model(padded).data[:1], alone, rtol=1e-10)
    np.testing.assert_allclose(model(padded, np.array([4, 6])).data[:1], alone, rtol=1e-10)
    for position in range(4):
        changed = ids[:1, :4].copy()
        changed[0, position] = 4 + (changed[0, position] - 3) % 7
        assert not np.allclose(model(changed).data, alone)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients(pooling: str) -> None:
    model, ids = build(layers=1, norm_first=True, pooling=pooling), np.array([[2, 5, 6], [2, 7, 0]])
    assert gradcheck(model, [ids], max_entries=5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_class_is_read_off_what_pooling_says(pooling: str) -> None:
    model, ids = build(pooling=pooling, positions="none"), np.array([[2, 5, 6, 0], [2, 7, 0, 0]])
    states = model.encoder(model.embedding(ids), lengths=np.array([3, 2])).data
    pooled = {"first": lambda x: x[0], "mean": lambda x: x.mean(axis=0), "max": lambda x: x.max(axis=0)}[pooling]
    expected = np.stack([pooled(states[0, :3]), pooled(states[1, :2])])
    np.testing.assert_allclose(model(ids).data, model.output(Tensor(expected)).data, rtol=1e-10)
    empty = model(np.array([[2, 5, 6], [0, 0, 0]])).data[1]
    np.testing.assert_allclose(empty, model(np.array([[0]])).data[0], rtol=1e-10)
    assert np.isfinite(empty).all(), "a text without tokens has finite logits"
    with pytest.raises(ValueError, match="no token types"):
        model(ids, token_types=ids)


def test_token_dropout_drops_whole_tokens_and_in_training_alone() -> None:
    model, ids = build(token_dropout=0.5, positions="none"), np.arange(4, 10)[None]
    model.encoder = seen = Remember()
    model.eval()(ids)
    plain = seen.x
    np.testing.assert_array_equal(plain, model.embedding(ids).data)
    model.train()(ids)
    shares = seen.x / plain
    np.testing.assert_allclose(shares, np.broadcast_to(shares[..., :1], shares.shape))
    assert {*shares.round(6).ravel().tolist()} == {0.0, 2.0}


class Remember(Module):
    """An encoder that stores its input and returns it unchanged."""

    def forward(self, x: Tensor, lengths: np.ndarray) -> Tensor:
        self.x = x.data
        return x
