"""Position encodings in attention: the properties and the gradient of each kind."""

from functools import partial

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, manual_seed
from handloom.autograd.gradcheck import gradcheck
from handloom.nn.positional import RelativePositions, RotaryPositions
from tests.support.derivatives import Computed

RNG = np.random.default_rng(0)
KINDS = ["none", "relative", "alibi", "rotary"]


def attention(kind: str, **options) -> nn.MultiHeadAttention:
    manual_seed(0)
    module = nn.MultiHeadAttention(8, 2, positions=kind, **options).astype(np.float64)
    if kind == "relative":
        module.position_scores.weight.data[...] = RNG.normal(size=module.position_scores.weight.shape)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_only_distances_count(kind: str) -> None:
    """The same vectors later in the sequence get the same output: nothing depends on absolute positions."""
    module, x = attention(kind), RNG.normal(size=(1, 5, 8))
    shifted = np.concatenate([RNG.normal(size=(1, 3, 8)), x], axis=1)
    mask = (np.arange(8) >= 3)[None, None, None]  # the prepended positions are masked
    np.testing.assert_allclose(module(Tensor(shifted), mask=mask).data[:, 3:], module(Tensor(x)).data, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_order_counts_except_without_positions(kind: str) -> None:
    module, x = attention(kind), RNG.normal(size=(1, 6, 8))
    swapped = module(Tensor(x[:, ::-1].copy())).data[:, ::-1]
    same = np.allclose(swapped, module(Tensor(x)).data)
    assert same == (kind in ("none", "alibi")), "ALiBi is symmetric if attention is not causal"


@pytest.mark.parametrize("kind", ["relative", "rotary"])
def test_gradients(kind: str) -> None:
    module = attention(kind, head_dim=2)
    assert gradcheck(Computed(module, partial(module, causal=True)), [RNG.normal(size=(1, 3, 8))])


def test_rotary_follows_its_formula() -> None:
    x = RNG.normal(size=(1, 1, 4, 6))
    rotated, _ = RotaryPositions(6).rotate(Tensor(x), Tensor(x), offset=2)
    for t in range(4):
        for i in range(3):
            angle = (t + 2) * 10000.0 ** (-2 * i / 6)
            pair = complex(x[0, 0, t, i], x[0, 0, t, i + 3]) * np.exp(1j * angle)
            np.testing.assert_allclose(rotated.data[0, 0, t, [i, i + 3]], [pair.real, pair.imag], rtol=1e-10)


def test_relative_scores_lie_on_diagonals_and_are_clipped() -> None:
    scores = RelativePositions(1, max_distance=2)
    scores.weight.data[0] = np.arange(5)
    query = Tensor(np.zeros((1, 1, 2, 4)))
    key = Tensor(np.zeros((1, 1, 6, 4)))
    bias = scores.scores(query, key)["bias"].data
    np.testing.assert_array_equal(bias[0, 0], [[0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 1, 2]])


def test_alibi_slopes() -> None:
    slopes = nn.MultiHeadAttention(16, 8, positions="alibi").position_scores.slopes
    np.testing.assert_allclose(slopes.data, [2.0**-n for n in range(1, 9)])
