"""Names, modes and state of a Module, initialisers, recurrent layers and error messages."""

import gc
import weakref
from collections import deque

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Generator, Parameter, Tensor, ops
from handloom.autograd.gradcheck import gradcheck
from handloom.nn import init
from handloom.nn.positional import RotaryPositions


class Twin(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3)
        self.second = self.first  # shared
        self.scale = Parameter(np.ones(3, np.float32))
        self.constant = Tensor(np.full(3, 2.0, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(ops.relu(self.first(x))) * self.scale * self.constant


def test_names_and_shared_parameters() -> None:
    module = Twin()
    assert [name for name, _ in module.named_parameters()] == ["scale", "first.weight", "first.bias"]
    assert sorted(module.state_dict()) == ["first.bias", "first.weight", "scale", "second.bias", "second.weight"]
    assert module.parameter_count() == 15


@pytest.mark.parametrize(
    "hidden", [(Parameter(np.ones(2)),), {nn.Linear(2, 2)}, {nn.Linear(2, 2): 1}, [1, deque([{"b": nn.Linear(2, 2)}])]]
)
def test_modules_in_a_list_are_refused(hidden: object) -> None:
    """Modules and parameters in a collection would silently be neither trained nor saved."""
    module = nn.Sequential(Twin())
    module[0].layers, module[0].sizes = hidden, [2, 3]
    for use in (module.state_dict, module.eval, lambda: list(module.parameters())):
        with pytest.raises(TypeError, match=r"Twin.layers is a .* not be trained or saved: use a ModuleList"):
            use()
    for kind, value in (("Tensor", module[0].scale * 2), ("ndarray", module[0].scale.data * 2)):
        with pytest.raises(TypeError, match=rf"Twin.scale is a Parameter, and a value of type {kind} in its place"):
            module[0].scale = value
    with pytest.raises(TypeError, match=r"Twin.scale is a Parameter, and a value of type Tensor in its place"):
        module[0].scale *= 2
    module[0].first.bias = None
    module[0].scale = Parameter(np.zeros(3))


def test_a_leaf_that_is_not_a_parameter_is_refused() -> None:
    module = Twin()
    module.constant.requires_grad_()
    for use in (module.state_dict, lambda: list(module.parameters())):
        with pytest.raises(TypeError, match=r"Twin.constant is a Tensor .* neither trained nor saved"):
            use()
    module.constant = module.scale * 2  # allowed: the result of an operation is not a leaf
    assert len(list(module.parameters())) == 3
    for name, other in (("relu", ops.relu), ("Parameter", Parameter(np.ones(2)))):  # these are not modules
        with pytest.raises(TypeError, match=f"Sequential needs modules, not {name}"):
            nn.Sequential(nn.Linear(2, 2), other)


def test_train_and_eval_reach_every_module() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    assert all(m.training for m in module.modules())
    assert not any(m.training for m in module.eval().modules())
    x = Tensor(np.ones((50, 2), np.float32))
    assert np.array_equal(module(x).data, module(x).data)
    assert not np.array_equal(module.train()(x).data, module(x).data)


def test_state_dict_round_trip_and_its_errors() -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    target.load_state_dict(source.state_dict())
    assert np.array_equal(source.weight.data, target.weight.data)
    source.weight.data[...] = 5
    assert not (target.weight.data == 5).any(), "loading copies the arrays"
    before = target.weight.data.copy()
    with pytest.raises(ValueError, match=r"weight has shape \(3, 2\) instead of \(2, 3\)"):
        target.load_state_dict({"weight": np.zeros((3, 2)), "bias": np.zeros(2)})
    with pytest.raises(ValueError, match="bias is missing"):
        target.load_state_dict({"weight": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="extra is not part of this Linear"):
        target.load_state_dict({**target.state_dict(), "extra": np.zeros(1)})
    with pytest.raises(ValueError, match="could not convert string"):
        target.load_state_dict({"weight": np.zeros((2, 3)), "bias": np.array(["a", "b"])})
    assert np.array_equal(target.weight.data, before)
    twin, state = Twin(), {name: array.copy() for name, array in Twin().state_dict().items()}
    with pytest.raises(ValueError, match=r"fit this model: first.weight and second.weight differ, but are one"):
        twin.load_state_dict({**state, "second.weight": state["second.weight"] + 1})
    twin.load_state_dict(state)
    assert np.array_equal(twin.first.weight.data, state["second.weight"])
    pair = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    own, copies = pair.state_dict(), [layer.weight.data.copy() for layer in pair]
    pair.load_state_dict({**own, "0.weight": own["1.weight"], "1.weight": own["0.weight"]})
    assert np.array_equal([layer.weight.data for layer in pair], copies[::-1])
    views = {name: memoryview(array) for name, array in pair.state_dict().items()}
    pair.load_state_dict({**views, "0.weight": views["1.weight"], "1.weight": views["0.weight"]})
    assert np.array_equal([layer.weight.data for layer in pair], copies)


def test_a_deleted_model_frees_its_arrays_at_once() -> None:
    gc.disable()
    try:
        module = nn.TransformerEncoderLayer(8, 2, 16)
        out = module(Tensor(np.ones((1, 3, 8), np.float32)))
        out.backward(np.ones(out.shape, np.float32))
        gone = weakref.ref(module.linear1.weight)
        del module, out
        assert gone() is None
    finally:
        gc.enable()


def test_xavier_has_the_variance_of_its_formula() -> None:
    variance = 2 * 3**2 / (300 + 200)
    weight = Parameter(np.empty((200, 300), np.float32))
    assert init.xavier_uniform_(weight, 3.0, generator=Generator(0)) is weight
    assert abs(weight.data.mean()) < 4 * np.sqrt(variance / weight.size)
    assert weight.data.var() == pytest.approx(variance, rel=0.03)


def test_sinusoidal_positions_are_the_papers() -> None:
    table = nn.sinusoidal_table(50, 6)
    for t, i in [(0, 0), (7, 1), (49, 2)]:
        assert table[t, 2 * i] == pytest.approx(np.sin(t / 10000 ** (2 * i / 6)), abs=1e-6)
        assert table[t, 2 * i + 1] == pytest.approx(np.cos(t / 10000 ** (2 * i / 6)), abs=1e-6)
    assert nn.sinusoidal_table(3, 5).shape == (3, 5)


def test_layer_norm_with_eps_outside_the_root() -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))
    module = nn.LayerNorm(6, 1e-3, eps_outside=True).astype(np.float64)
    expected = (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(module(Tensor(x)).data, expected, rtol=1e-12)
    assert gradcheck(module, [x])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_of_equal_features_has_finite_gradients_with_eps_outside_the_root(dtype: type) -> None:
    module = nn.LayerNorm(6, 1e-3, eps_outside=True).astype(dtype)
    x = Tensor(np.full((2, 6), 0.5, dtype), requires_grad=True)
    g = np.random.default_rng(0).normal(size=(2, 6)).astype(dtype)
    module(x).backward(g)
    expected = (g - g.mean(-1, keepdims=True)) / 1e-3  # the gradient of (x - mean) / eps
    np.testing.assert_allclose(x.grad, expected, rtol=5e-3 if dtype == np.float16 else 1e-5, atol=2)


def test_scaled_embedding_has_unit_variance() -> None:
    module = nn.Embedding(500, 64, scale_by_sqrt_dim=True)
    assert module(np.arange(500)).data.var() == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("embed_dim 10 is not divisible by num_heads 3", lambda: nn.MultiHeadAttention(10, 3)),
        ("at least 1, not embed_dim=4, num_heads=0", lambda: nn.MultiHeadAttention(4, 0)),
        ("at least 1, .* kv_heads=0, head_dim=None", lambda: nn.MultiHeadAttention(4, 2, kv_heads=0)),
        ("set head_dim", lambda: nn.MultiHeadAttention(7, 2)),
        ("must be even", lambda: nn.MultiHeadAttention(6, 2, positions="rotary")),
        ("use one of none, relative", lambda: nn.MultiHeadAttention(6, 2, positions="rotated")),
        ("or none, not low=1, high=None, length=9", lambda: RotaryPositions(4, low=1, length=9)),
        ("unknown positions 'alibis'.* alibi", lambda: nn.embedding_positions("alibis", 8, 10)),
        ("5 tokens is longer than the 4 pos", lambda: nn.SinusoidalPositions(6, 4)(Tensor(np.zeros((1, 5, 6))))),
        (r"in_features\), not \(3,\)", lambda: init.xavier_uniform_(Parameter(np.empty(3, np.float32)))),
        ("no standard deviation: use 2 or more features", lambda: nn.LayerNorm(1, eps_outside=True)),
        ("in_features must be at least 1, not 0", lambda: nn.Linear(0, 3)),
        ("unknown activation 'swish'", lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="swish")),
        (r"p must be a probability from 0 to 1, not 1\.5", lambda: nn.Dropout(1.5)),
        ("does not fit a weight", lambda: nn.Linear(4, 2)(Tensor(np.zeros((1, 5), np.float32)))),
        ("at least 1", lambda: nn.LSTM(3, 0)),
        (r"one position, not \(2, 0, 3\)", lambda: nn.RNN(3, 4)(Tensor(np.zeros((2, 0, 3), np.float32)))),
        (r"one position, not \(2, 3\)", lambda: nn.RNN(3, 4)(Tensor(np.zeros((2, 3), np.float32)))),
    ],
)
def test_wrong_sizes_are_explained(said: str, call) -> None:
    with pytest.raises(ValueError, match=said):
        call()


# RNN, LSTM and GRU; test_nn_against_torch.py compares them with PyTorch's layers

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_continuing_from_a_state(kind: str) -> None:
    module = getattr(nn, kind)(3, 4, 2).astype(np.float64)
    x = Tensor(RNG.normal(size=(2, 7, 3)))
    whole, _ = module(x)
    first, state = module(x[:, :3])
    rest, _ = module(x[:, 3:], state)
    np.testing.assert_allclose(np.concatenate([first.data, rest.data], axis=1), whole.data, rtol=1e-12)
    assert module(x[:0])[0].shape == (0, 7, 4)
    for wrong in (state[:1], [part[0] for part in state], Tensor(np.ones((2, 2, 4)))):  # would be broadcast or ignored
        with pytest.raises(ValueError, match=rf"{kind}: the state must be a list of tuples .* \[\[\(2, 4\)"):
            module(x, wrong)


def test_dropout_is_between_the_layers_only() -> None:
    x = Tensor(RNG.normal(size=(2, 5, 3)).astype(np.float32))
    one, two = nn.GRU(3, 4, 1, dropout=0.5), nn.GRU(3, 4, 2, dropout=0.5)
    assert (one(x)[0].data == one(x)[0].data).all()
    assert (two(x)[0].data != two(x)[0].data).any()
    assert (two.eval()(x)[0].data == two(x)[0].data).all()
