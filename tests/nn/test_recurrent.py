"""RNN, LSTM and GRU against PyTorch's: outputs, states and all gradients; continuing from a state."""

from __future__ import annotations

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, grad, manual_seed

RNG = np.random.default_rng(0)
KINDS = ["RNN", "LSTM", "GRU"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_equal_to_pytorch(kind: str, layers: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: no layers to compare with")
    manual_seed(1)
    module = getattr(nn, kind)(5, 7, layers).astype(np.float64)
    peer = getattr(torch.nn, kind)(5, 7, layers, batch_first=True).double()
    peer.load_state_dict({name: torch.tensor(array) for name, array in module.state_dict().items()}, strict=True)
    x, cotangent = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(3, 4, 7))
    own, other = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    (out, state), (expected, last) = module(own), peer(other)
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    last = last if isinstance(last, tuple) else (last,)
    for part, wanted in enumerate(last):
        for layer in range(layers):
            np.testing.assert_allclose(state[layer][part].data, wanted[layer].detach().numpy(), rtol=1e-10, atol=1e-12)
    parameters = dict(module.named_parameters())
    gradients = grad(out, [own, *parameters.values()], cotangent)
    expected.backward(torch.tensor(cotangent))
    peers = dict(peer.named_parameters())
    for gradient, want in zip(gradients, [other.grad, *(peers[name].grad for name in parameters)], strict=True):
        np.testing.assert_allclose(gradient.data, want.numpy(), rtol=1e-8, atol=1e-10)


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
