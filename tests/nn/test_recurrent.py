"""RNN, LSTM and GRU: continuing from a state, dropout. PyTorch's are compared in test_nn_against_torch.py."""

from __future__ import annotations

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, manual_seed

RNG = np.random.default_rng(0)
KINDS = ["RNN", "LSTM", "GRU"]


@pytest.mark.parametrize("kind", KINDS)
def test_continuing_from_a_state(kind: str) -> None:
    manual_seed(2)
    module = getattr(nn, kind)(3, 4, 2).astype(np.float64)
    x = Tensor(RNG.normal(size=(2, 7, 3)))
    whole, _ = module(x)
    first, state = module(x[:, :3])
    rest, _ = module(x[:, 3:], state)
    np.testing.assert_allclose(np.concatenate([first.data, rest.data], axis=1), whole.data, rtol=1e-12)


def test_dropout_is_between_the_layers_only() -> None:
    manual_seed(3)
    x = Tensor(RNG.normal(size=(2, 5, 3)).astype(np.float32))
    one, two = nn.GRU(3, 4, 1, dropout=0.5), nn.GRU(3, 4, 2, dropout=0.5)
    assert (one(x)[0].data == one(x)[0].data).all()
    assert (two(x)[0].data != two(x)[0].data).any()
    assert (two.eval()(x)[0].data == two(x)[0].data).all()


def test_wrong_sizes() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        nn.LSTM(3, 0)
    with pytest.raises(ValueError, match="at least one position"):
        nn.RNN(3, 4)(Tensor(np.zeros((2, 0, 3), np.float32)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_no_sequences(kind: str) -> None:
    out, _ = getattr(nn, kind)(3, 4)(Tensor(np.zeros((0, 2, 3), np.float32)))
    assert out.shape == (0, 2, 4)
