"""Sparse patterns of self-attention, and gated activations."""

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, manual_seed, ops
from handloom.autograd.ops import ACTIVATIONS
from handloom.nn.feed_forward import feed_forward
from handloom.nn.sparse import with_pattern

RNG = np.random.default_rng(0)
PATTERNS = ("local:1", "local:3", "strided:1", "strided:3")


def layer(pattern: str, positions: str = "none") -> nn.MultiHeadAttention:
    manual_seed(0)
    return nn.MultiHeadAttention(8, 2, positions=positions, pattern=pattern).astype(np.float64)


def seen(pattern: str, query: int, key: int) -> bool:
    """Return whether the query attends to the key, by an independently written definition."""
    kind, size = pattern.split(":")
    away = abs(query - key)
    return away <= int(size) if kind == "local" else away < int(size) or away % int(size) == 0


@pytest.mark.parametrize("positions", ["none", "relative", "alibi", "rotary"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_weights_follow_the_pattern(pattern: str, causal: bool, positions: str) -> None:
    model, lengths = layer(pattern, positions), np.array([9, 6])
    _, weights = model(Tensor(RNG.normal(size=(2, 9, 8))), key_lengths=lengths, causal=causal, return_weights=True)
    for batch, query, key in np.ndindex(2, 9, 9):
        allowed = seen(pattern, query, key) and key < lengths[batch] and (key <= query or not causal)
        assert ((weights.data[batch, :, query, key] > 0) == allowed).all(), (batch, query, key)


def test_a_pattern_combines_with_a_mask() -> None:
    model, mask = layer("strided:3"), np.ones((1, 1, 7, 7), bool)
    mask[..., 2] = False
    _, weights = model(Tensor(RNG.normal(size=(1, 7, 8))), mask=mask, return_weights=True)
    assert (weights.data[..., 2] == 0).all()
    assert (weights.data[..., 5, 0] == 0).all()
    assert (weights.data[..., 6, 0] > 0).all()


def test_cross_attention_sees_everything() -> None:
    x, memory = (Tensor(RNG.normal(size=(1, length, 8))) for length in (4, 9))
    _, weights = layer("local:1")(x, memory, return_weights=True)
    assert (weights.data > 0).all()


@pytest.mark.parametrize("pattern", ["", "Local:3", "strided:0", "local:-1", "strided:x", "strided:", "full:2"])
def test_wrong_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match="use full, local:SIZE or strided:SIZE"):
        with_pattern(pattern, None)


@pytest.mark.parametrize("activation", [name for name, row in ACTIVATIONS.items() if row.gated])
def test_gated_feed_forward(activation: str) -> None:
    """The first layer is twice as wide, because the activation multiplies the two halves of its output."""
    block = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation=activation).astype(np.float64)
    linear1, linear2 = block.linear1, block.linear2
    assert (linear1.weight.shape, linear2.weight.shape) == ((12, 4), (4, 6))
    x = Tensor(RNG.normal(size=(2, 3, 4)))
    found = feed_forward(x, linear1, linear2, nn.Dropout(0.0), activation)
    np.testing.assert_allclose(found.data, linear2(getattr(ops, activation)(linear1(x))).data, rtol=1e-12)
