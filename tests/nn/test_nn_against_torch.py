"""handloom's layers give the same outputs and gradients as PyTorch's layers with the same weights."""

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, grad

torch = pytest.importorskip("torch", reason="PyTorch is not installed: no layers to compare with")

RNG = np.random.default_rng(0)
D, HEADS, FF = 12, 3, 20


def load_into_torch(peer, module) -> None:
    """Copy the state dict of `module` into PyTorch's layer. The names and shapes must be the same."""
    state = {name: torch.tensor(array) for name, array in module.state_dict().items()}
    peer.load_state_dict(state, strict=True)


def compare(module, peer, inputs, ours, theirs) -> None:
    """Compare the outputs, and all gradients for a random gradient of the output, in float64."""
    module.astype(np.float64)
    peer.double()
    load_into_torch(peer, module)
    own = [Tensor(x, requires_grad=True) for x in inputs]
    other = [torch.tensor(x, requires_grad=True) for x in inputs]
    out, expected = ours(*own), theirs(*other)
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-9, atol=1e-11)
    cotangent = RNG.normal(size=out.shape)
    parameters = dict(module.named_parameters())
    gradients = grad(out, [*own, *parameters.values()], cotangent)
    expected.backward(torch.tensor(cotangent))
    peers = dict(peer.named_parameters())
    wanted = [x.grad for x in other] + [peers[name].grad for name in parameters]
    for name, gradient, want in zip([*range(len(own)), *parameters], gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient.data, want.numpy(), rtol=1e-8, atol=1e-10, err_msg=str(name))


@pytest.mark.parametrize("shape", [D, (D,), (3, D)])
@pytest.mark.parametrize("options", [{}, {"eps": 0.1}, {"elementwise_affine": False}])
def test_rms_norm(shape, options) -> None:
    module, peer = nn.RMSNorm(shape, **options), torch.nn.RMSNorm(shape, **options)
    if module.weight is not None:
        module.weight.data[...] = RNG.normal(size=shape)
    compare(module, peer, [RNG.normal(size=(2, 3, D))], module, peer)
    assert str(module) == str(peer)


@pytest.mark.parametrize("shape", [D, (D,), (3, D)])
def test_layer_norm(shape) -> None:
    module, peer = nn.LayerNorm(shape, 0.1), torch.nn.LayerNorm(shape, 0.1)
    module.weight.data[...], module.bias.data[...] = RNG.normal(size=shape), RNG.normal(size=shape)
    compare(module, peer, [RNG.normal(size=(2, 3, D))], module, peer)
    with pytest.raises(ValueError, match="eps_outside needs one axis of 2 or more"):
        nn.LayerNorm((3, 1), eps_outside=True)


CLASSES = RNG.integers(0, D, (4, 3))


@pytest.mark.parametrize(
    ("name", "options", "target"),
    [
        ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 2}, CLASSES),
        ("CrossEntropyLoss", {"reduction": "sum"}, CLASSES),
        ("NLLLoss", {}, CLASSES),
        ("MSELoss", {"reduction": "none"}, RNG.normal(size=(4, D, 3))),
        ("L1Loss", {}, RNG.normal(size=(4, D, 3))),
        ("BCEWithLogitsLoss", {}, RNG.random((4, D, 3))),
        ("BCELoss", {"reduction": "sum"}, RNG.random((4, D, 3))),
    ],
)
def test_a_loss_is_a_layer(name: str, options: dict, target: np.ndarray) -> None:
    module, peer = getattr(nn, name)(**options), getattr(torch.nn, name)(**options)
    x = RNG.random((4, D, 3)) * 0.8 + 0.1
    compare(module, peer, [x], lambda x: module(x, target), lambda x: peer(x, torch.tensor(target)))


def test_the_weights_of_a_loss_are_its_state() -> None:
    weight = RNG.random(D).astype(np.float32)
    module, peer = nn.CrossEntropyLoss(weight), torch.nn.CrossEntropyLoss(torch.tensor(weight))
    load_into_torch(peer, module)
    assert list(module.state_dict()) == ["weight"]
    x = RNG.normal(size=(4, D)).astype(np.float32)
    expected = peer(torch.tensor(x), torch.tensor(CLASSES[:, 0]))
    np.testing.assert_allclose(module(Tensor(x), CLASSES[:, 0]).data, expected.numpy(), rtol=1e-6)


def test_a_model_is_called_with_other_parameters() -> None:
    """Two names of one parameter get the same value, and gradients flow to what was given."""
    first = nn.Linear(D, D)
    module = nn.Sequential(first, nn.Tanh(), first)
    peer = torch.nn.Sequential(linear := torch.nn.Linear(D, D), torch.nn.Tanh(), linear)
    before = module.state_dict()
    given = {name: RNG.normal(size=p.shape).astype(np.float32) for name, p in module.named_parameters()}
    own = {name: Tensor(value, requires_grad=True) for name, value in given.items()}
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in given.items()}
    x, cotangent = RNG.normal(size=(2, D)).astype(np.float32), RNG.normal(size=(2, D)).astype(np.float32)
    out = nn.functional_call(module, own, Tensor(x))
    expected = torch.func.functional_call(peer, theirs, torch.tensor(x))
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-5, atol=1e-5)
    expected.backward(torch.tensor(cotangent))
    for gradient, want in zip(grad(out, list(own.values()), cotangent), theirs.values(), strict=True):
        np.testing.assert_allclose(gradient.data, want.grad.numpy(), rtol=1e-4, atol=1e-4)
    assert all(module.state_dict()[name] is array for name, array in before.items()), "the model is as before"
    with pytest.raises(ValueError, match=r"0\.weight of Sequential has the shape \(12, 12\), not \(2,\)"):
        nn.functional_call(module, {"0.weight": np.ones(2)}, Tensor(x))
    with pytest.raises(ValueError, match="functional_call: nothing of Sequential does not exist"):
        nn.functional_call(module, {"nothing": np.ones(2)}, Tensor(x))
    np.testing.assert_array_equal(nn.functional_call(module, before, Tensor(x)).data, module(Tensor(x)).data)
    with pytest.raises(ValueError, match=r"0\.bias and 2\.bias are one parameter here, but have two values"):
        nn.functional_call(module, {"0.bias": np.ones(D), "2.bias": np.zeros(D)}, Tensor(x))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_epsilon_of_rms_norm_is_that_of_the_precision_it_is_computed_in(dtype) -> None:
    x = np.array([[1e-3, 0, 0], [3, 4, 0]], dtype)
    expected = torch.nn.functional.rms_norm(torch.tensor(x), (3,))
    np.testing.assert_allclose(nn.RMSNorm(3).astype(dtype)(Tensor(x)).data, expected.numpy(), rtol=np.finfo(dtype).eps)


def test_rms_norm_of_another_width_is_refused() -> None:
    for shape in [(2, D + 1), (2, 1), ()]:
        with pytest.raises(ValueError, match=rf"RMSNorm: .* must have the sizes \({D},\)"):
            nn.RMSNorm(D)(Tensor(np.ones(shape, np.float32)))


def test_embedding_with_padding() -> None:
    module, peer = nn.Embedding(7, D, padding_idx=0), torch.nn.Embedding(7, D, padding_idx=0)
    ids = np.array([[1, 6, 1], [3, 0, 0]])
    compare(module, peer, [], lambda: module(ids), lambda: peer(torch.tensor(ids)))
    assert not module.weight.data[0].any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention(causal: bool, padded: bool) -> None:
    module, peer = nn.MultiHeadAttention(D, HEADS), torch.nn.MultiheadAttention(D, HEADS, batch_first=True)
    module.in_proj_bias.data[...] = RNG.normal(size=3 * D)
    lengths = np.array([5, 3, 1]) if padded else None
    blocked = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    padding = None if lengths is None else torch.tensor(np.arange(5) >= lengths[:, None])
    compare(
        module,
        peer,
        [RNG.normal(size=(3, 5, D))],
        lambda x: module(x, key_lengths=lengths, causal=causal),
        lambda x: peer(x, x, x, attn_mask=blocked, key_padding_mask=padding, need_weights=False)[0],
    )


def test_cross_attention_and_its_weights() -> None:
    module, peer = nn.MultiHeadAttention(D, HEADS), torch.nn.MultiheadAttention(D, HEADS, batch_first=True)
    lengths = np.array([7, 2])
    padding = torch.tensor(np.arange(7) >= lengths[:, None])
    x, memory = RNG.normal(size=(2, 4, D)), RNG.normal(size=(2, 7, D))
    compare(
        module,
        peer,
        [x, memory],
        lambda x, m: module(x, m, key_lengths=lengths),
        lambda x, m: peer(x, m, m, key_padding_mask=padding, need_weights=False)[0],
    )
    _, weights = module(Tensor(x), Tensor(memory), key_lengths=lengths, return_weights=True)
    t, m = torch.tensor(x), torch.tensor(memory)
    expected = peer(t, m, m, key_padding_mask=padding, average_attn_weights=False)[1]
    np.testing.assert_allclose(weights.data, expected.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    module = nn.TransformerEncoderLayer(D, HEADS, FF, 0.0, activation, norm_first)
    peer = torch.nn.TransformerEncoderLayer(D, HEADS, FF, 0.0, activation, batch_first=True, norm_first=norm_first)
    lengths = np.array([5, 2])
    padding = torch.tensor(np.arange(5) >= lengths[:, None])
    compare(
        module,
        peer,
        [RNG.normal(size=(2, 5, D))],
        lambda x: module(x, lengths=lengths),
        lambda x: peer(x, src_key_padding_mask=padding),
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(norm_first: bool) -> None:
    module = nn.TransformerDecoderLayer(D, HEADS, FF, 0.0, "relu", norm_first)
    peer = torch.nn.TransformerDecoderLayer(D, HEADS, FF, 0.0, batch_first=True, norm_first=norm_first)
    lengths = np.array([6, 3])
    padding = torch.tensor(np.arange(6) >= lengths[:, None])
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    compare(
        module,
        peer,
        [RNG.normal(size=(2, 4, D)), RNG.normal(size=(2, 6, D))],
        lambda x, m: module(x, m, memory_lengths=lengths),
        lambda x, m: peer(x, m, tgt_mask=causal, memory_key_padding_mask=padding),
    )


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_layers_and_their_states(kind: str, layers: int) -> None:
    module, peer = getattr(nn, kind)(5, 7, layers), getattr(torch.nn, kind)(5, 7, layers, batch_first=True)
    x = RNG.normal(size=(3, 4, 5))
    compare(module, peer, [x], lambda x: module(x)[0], lambda x: peer(x)[0])
    state, last = module(Tensor(x))[1], peer(torch.tensor(x))[1]
    for part, wanted in enumerate(last if isinstance(last, tuple) else (last,)):
        for layer in range(layers):
            np.testing.assert_allclose(state[layer][part].data, wanted[layer].detach().numpy(), rtol=1e-10, atol=1e-12)


def test_stacks_carry_pytorch_names() -> None:
    ours = nn.TransformerEncoder([nn.TransformerEncoderLayer(D, HEADS, FF) for _ in range(2)], nn.LayerNorm(D))
    layer = torch.nn.TransformerEncoderLayer(D, HEADS, FF, batch_first=True)
    peer = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(D), enable_nested_tensor=False)
    assert {n: a.shape for n, a in ours.state_dict().items()} == {
        n: tuple(t.shape) for n, t in peer.state_dict().items()
    }
