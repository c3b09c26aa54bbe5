"""The encoder-only classifier: padding leaves no trace, the first position sees all, gradients are right."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.autograd import manual_seed, ops
from handloom.autograd.gradcheck import gradcheck
from handloom.models import ClassifierConfig, TransformerClassifier
from handloom.nn import POSITIONS

RNG = np.random.default_rng(0)


def build(**options) -> TransformerClassifier:
    manual_seed(0)
    sizes = {"d_model": 8, "nhead": 2, "layers": 2, "dim_feedforward": 12, "dropout": 0.0, "max_length": 20}
    return TransformerClassifier(ClassifierConfig(**{"vocab_size": 11, "classes": 3, **sizes, **options})).astype(
        np.float64
    )


@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_changes_nothing_and_every_token_counts(positions: str) -> None:
    model = build(positions=positions)
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


def test_gradients() -> None:
    model, ids = build(layers=1, norm_first=True), np.array([[2, 5, 6], [2, 7, 0]])

    def loss(*parameters):
        return ops.cross_entropy(model(ids), np.array([0, 2]), reduction="sum")

    assert gradcheck(loss, list(model.parameters()))
