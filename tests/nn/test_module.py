"""Names, modes and state of a Module, initialisers, recurrent layers and error messages."""

import gc
import weakref
from collections import deque
from typing import Any

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
    with pytest.raises(RuntimeError, match=r"an update in place of a leaf .* update it under no_grad"):
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
    for name, other in (("ReLU", nn.ReLU), ("Parameter", Parameter(np.ones(2)))):  # these are not modules
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


LAYERS = {
    "Linear": (nn.Linear(3, 2), (4, 3)),
    "LayerNorm": (nn.LayerNorm(3), (4, 3)),
    "RMSNorm": (nn.RMSNorm(3), (4, 3)),
    "LSTM": (nn.LSTM(3, 2), (1, 4, 3)),
    "Sequential": (nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), (4, 3)),
    "MultiHeadAttention": (nn.MultiHeadAttention(4, 2), (1, 5, 4)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("name", LAYERS)
def test_a_float32_layer_never_becomes_float64_in_silence(name: str, dtype: Any) -> None:
    layer, shape = LAYERS[name]
    x = np.ones(shape, dtype)
    with pytest.raises(TypeError, match=r"64 with parameters of float32 .*astype\('float32'\), or the layer"):
        layer(Tensor(x))
    out = layer(Tensor(x.astype(np.float32)))
    assert (out[0] if isinstance(out, tuple) else out).dtype == np.float32


def test_layers_accept_lists_and_are_checked_in_float64() -> None:
    layer = nn.Linear(3, 2)
    assert layer([[1.0, 2.0, 3.0]]).dtype == layer(np.ones((1, 3), bool)).dtype == np.float32
    layer.bias.requires_grad_(False)
    assert gradcheck(layer, [np.ones((4, 3))])
    assert layer.bias.dtype == np.float32
    assert layer.astype(np.float64)(np.ones((4, 3))).dtype == np.float64


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
        ("one of none, relative", lambda: nn.MultiHeadAttention(6, 2, positions="rotated")),
        ("or none, not low=1, high=None, length=9", lambda: RotaryPositions(4, low=1, length=9)),
        ("positions must be .* alibi.* not .alibis.", lambda: nn.embedding_positions("alibis", 8, 10)),
        ("5 tokens is longer than the 4 pos", lambda: nn.SinusoidalPositions(6, 4)(Tensor(np.zeros((1, 5, 6))))),
        (r"in_features\), not \(3,\)", lambda: init.xavier_uniform_(Parameter(np.empty(3, np.float32)))),
        ("eps_outside needs one axis of 2 or more features", lambda: nn.LayerNorm(1, eps_outside=True)),
        ("in_features must be at least 1, not 0", lambda: nn.Linear(0, 3)),
        ("activation must be one of .* not .swish.", lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="swish")),
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


class Leaky(nn.GRU):
    """A recurrent layer with its own step: h' = (h + tanh(x + W h + b)) / 2."""

    gates = 1

    def step(self, from_input, state, weight_hh, bias_hh):
        return ((state[0] + ops.tanh(from_input + ops.linear(state[0], weight_hh, bias_hh))) * 0.5,)


def test_an_own_step_of_a_recurrent_layer_is_computed() -> None:
    layer, h = Leaky(3, 4).astype(np.float64), np.zeros((2, 4))
    x = RNG.normal(size=(2, 5, 3))
    for t in range(5):
        own = h @ layer.weight_hh_l0.data.T + layer.bias_hh_l0.data
        h = (h + np.tanh(x[:, t] @ layer.weight_ih_l0.data.T + layer.bias_ih_l0.data + own)) / 2
    np.testing.assert_allclose(layer(Tensor(x))[0].data[:, -1], h, rtol=1e-12)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_gradients_through_the_last_state_only(kind: str) -> None:
    layer = getattr(nn, kind)(3, 4).astype(np.float64)
    inputs = [RNG.normal(size=(2, 3, 3)), *(RNG.normal(size=(2, 4)) for _ in range(layer.states))]
    for part in range(layer.states):
        assert gradcheck(lambda x, *state, part=part: layer(x, [state])[1][0][part], inputs)


def test_dropout_is_between_the_layers_only() -> None:
    x = Tensor(RNG.normal(size=(2, 5, 3)).astype(np.float32))
    one, two = nn.GRU(3, 4, 1, dropout=0.5), nn.GRU(3, 4, 2, dropout=0.5)
    assert (one(x)[0].data == one(x)[0].data).all()
    assert (two(x)[0].data != two(x)[0].data).any()
    assert (two.eval()(x)[0].data == two(x)[0].data).all()


class RunningMean(nn.Module):
    """A layer with a running statistic and a counter."""

    def __init__(self) -> None:
        self.scale = Parameter(np.ones(3, np.float32))
        self.register_buffer("mean", np.zeros(3, np.float32))
        self.register_buffer("count", Tensor(np.array(0)))
        self.register_buffer("scratch", np.zeros(2, np.float32), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(axis=0)
            self.count = self.count + 1
        return (x - self.mean) * self.scale


def test_buffers_are_state_that_is_not_trained() -> None:
    model = nn.Sequential(nn.Linear(3, 3), RunningMean())
    model(Tensor(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)))
    state = {name: array.copy() for name, array in model.state_dict().items()}
    assert list(state) == ["0.weight", "0.bias", "1.scale", "1.mean", "1.count"]
    assert state["1.count"] == 1
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.scale"]
    other = nn.Sequential(nn.Linear(3, 3), RunningMean())
    assert other.load_state_dict(state) == ([], [])
    assert all(np.array_equal(array, state[name]) for name, array in other.state_dict().items())
    other(Tensor(np.ones((2, 3), np.float32)))
    assert (state["1.count"], other[1].count.item()) == (1, 2)  # the loaded arrays are not shared
    assert other.astype(np.float64)[1].mean.dtype == np.float64
    assert other[1].count.dtype.kind == "i"
    with pytest.raises(TypeError, match=r"RunningMean.mean is a buffer: assign a Tensor or None, not ndarray"):
        other[1].mean = np.zeros(3)
    for name in ("scale", "forward", "a.b"):
        with pytest.raises(ValueError, match="RunningMean can't have a new attribute"):
            other[1].register_buffer(name, None)
    other[1].mean = None
    assert "1.mean" not in other.state_dict()


def test_load_state_dict_ignores_names_only_if_it_is_not_strict() -> None:
    model = nn.Linear(2, 2)
    before = model.bias.numpy().copy()
    state = {"weight": np.ones((2, 2), np.float32), "adapter": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match="bias is missing; adapter is not part of this Linear"):
        model.load_state_dict(state)
    found = model.load_state_dict(state, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["bias"], ["adapter"])
    assert (model.weight.numpy() == 1).all()
    assert np.array_equal(model.bias.numpy(), before)
    with pytest.raises(ValueError, match=r"weight has shape \(3,\)"):
        model.load_state_dict({"weight": np.ones(3)}, strict=False)


def test_a_module_is_fixed_and_trained_again() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    assert model[0].requires_grad_(False) is model[0]
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    assert model.requires_grad_().parameter_count() == 11


def test_forward_hooks_see_and_replace_outputs_until_they_are_removed() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    x, seen = Tensor(np.ones((1, 3), np.float32)), []
    plain = model(x).numpy()
    first = model.register_forward_hook(lambda module, args, output: seen.append((module, args, output)))
    second = model.register_forward_hook(lambda module, args, output: output * 2)
    assert np.array_equal(model(x).numpy(), 2 * plain)
    assert (seen[0][0], seen[0][1]) == (model, (x,))
    with pytest.raises(TypeError, match="hook is 3, but it must be a function"):
        model.register_forward_hook(3)
    second.remove()
    second.remove()
    assert np.array_equal(model(x).numpy(), plain)
    first.remove()
    model(x)
    assert len(seen) == 2


def test_apply_children_and_containers_of_modules_and_parameters() -> None:
    model = nn.Module()
    model.parts = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})
    model.scales = nn.ParameterList([np.ones(2, np.float32), Parameter(np.zeros(3, np.float32))])
    assert sorted(model.state_dict()) == ["parts.a.bias", "parts.a.weight", "scales.0", "scales.1"]
    assert (list(model.parts), "a" in model.parts, len(model.parts), len(model.scales)) == (["a", "b"], True, 2, 2)
    assert [kind for kind, _ in model.parts.items()] == list(model.parts.keys())
    assert list(model.children()) == [model.parts, model.scales]
    visited: list[str] = []
    assert model.apply(lambda module: visited.append(type(module).__name__)) is model
    assert visited == ["Linear", "ReLU", "ModuleDict", "ParameterList", "Module"]
    del model.parts["b"]
    with pytest.raises(KeyError):
        model.parts["b"]
    for key in ("forward", "a.b", "", "keys"):
        with pytest.raises(KeyError, match="can't be the name of a module"):
            model.parts[key] = nn.ReLU()
    with pytest.raises(TypeError, match="ModuleDict needs modules, not ndarray"):
        model.parts["c"] = np.zeros(2)
    chain = nn.Sequential(nn.Linear(2, 2), ops.tanh, nn.Linear(2, 1))
    chain[-1] = nn.Identity()
    x = Tensor(np.ones((1, 2), np.float32))
    assert np.array_equal(chain(x).numpy(), np.tanh(chain[0](x).numpy()))
    assert "(1): Lambda(tanh)" in repr(chain)


def test_layers_of_ops_compute_them() -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(2, 3, 4)))
    for layer, wanted in (
        (nn.ReLU(), ops.relu(x)),
        (nn.GELU(), ops.gelu(x)),
        (nn.GELU(approximate="tanh"), ops.gelu(x, "tanh")),
        (nn.SiLU(), ops.silu(x)),
        (nn.Tanh(), ops.tanh(x)),
        (nn.Sigmoid(), ops.sigmoid(x)),
        (nn.Softmax(dim=1), ops.softmax(x, 1)),
        (nn.LeakyReLU(0.2), ops.leaky_relu(x, 0.2)),
        (nn.Identity(), x),
        (nn.Flatten(), x.reshape(2, 12)),
        (nn.Flatten(0, 1), x.reshape(6, 4)),
        (nn.Flatten(-1), x),
    ):
        assert np.array_equal(layer(x).numpy(), wanted.numpy()), layer
    assert repr(nn.Sequential(nn.ReLU(), nn.GELU("tanh"))) == (
        "Sequential(\n  (0): ReLU()\n  (1): GELU(approximate='tanh')\n)"
    )
    with pytest.raises(ValueError, match="start_dim 2 is behind end_dim 1"):
        nn.Flatten(2, 1)(x)


def test_repr_and_summary_name_the_parameters_of_own_modules() -> None:
    module = Twin()
    assert repr(module).startswith("Twin(\n  (scale): Parameter(3,)\n  (constant): Tensor(3,)\n  (first): Linear(3, 3")
    assert (
        repr(module.summary())
        == str(module.summary())
        == "\n".join(
            [
                "Twin",
                "  scale           (3,)         3",
                "  constant        (3,)         3",
                "  first: Linear",
                "    weight        (3, 3)       9",
                "    bias          (3,)         3",
                "  second: Linear",
                "    weight        (3, 3)  shared",
                "    bias          (3,)    shared",
                "15 trainable numbers, and 3 fixed",
            ]
        )
    )


def test_a_module_that_contains_itself_is_refused() -> None:
    child, parent = nn.Module(), nn.Module()
    child.parent = parent
    with pytest.raises(ValueError, match=r"Module.layer contains this Module: .* by a weakref.ref or a function"):
        parent.layer = child
    with pytest.raises(ValueError, match="can't be part of itself"):
        parent.me = parent
    shared = nn.Linear(2, 2)
    parent.first = parent.second = shared  # a module may have two places
    assert len(list(child.named_modules())) == 4
