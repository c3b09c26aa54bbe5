"""Layers on a device: outputs and gradients are those of the CPU, in float32 and float16.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, grad, manual_seed
from handloom.autograd.backend import to_device
from handloom.nn.positional import ATTENTION_POSITIONS

pytestmark = pytest.mark.slow

D, HEADS, FF, CLASSES = 12, 2, 20, 7
LENGTHS, IDS = np.array([5, 2]), np.array([[1, 6, 1, 0, 0], [3, 2, 5, 4, 1]])

# The layer, and what is called with it, the input x (2, 5, D) and the memory (2, 4, D).
LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any]]] = {
    "Linear": (lambda: nn.Linear(D, 5), lambda layer, x, memory: layer(x)),
    "LayerNorm": (lambda: nn.LayerNorm(D), lambda layer, x, memory: layer(x)),
    "Embedding": (lambda: nn.Embedding(CLASSES, D, padding_idx=0), lambda layer, x, memory: layer(IDS) * x),
    "SinusoidalPositions": (lambda: nn.SinusoidalPositions(D, 9), lambda layer, x, memory: layer(x)),
    "LearnedPositions": (lambda: nn.LearnedPositions(D, 9), lambda layer, x, memory: layer(x, 3)),
    "RNN": (lambda: nn.RNN(D, 6, 2), lambda layer, x, memory: layer(x)[0]),
    "LSTM": (lambda: nn.LSTM(D, 6, 2), lambda layer, x, memory: layer(x)[0]),
    "GRU": (lambda: nn.GRU(D, 6, 2), lambda layer, x, memory: layer(x)[0]),
    "attention to a memory": (
        lambda: nn.MultiHeadAttention(D, HEADS),
        lambda layer, x, memory: layer(x, memory, key_lengths=np.array([4, 1])),
    ),
    **{
        f"self-attention, {positions}": (
            lambda positions=positions: nn.MultiHeadAttention(D, HEADS, positions=positions),
            lambda layer, x, memory: layer(x, key_lengths=LENGTHS, causal=True),
        )
        for positions in ATTENTION_POSITIONS
    },
    "encoder": (
        lambda: nn.TransformerEncoder(
            [nn.TransformerEncoderLayer(D, HEADS, FF, 0.0, "silu", norm_first=True) for _ in range(2)], nn.LayerNorm(D)
        ),
        lambda layer, x, memory: layer(x, lengths=LENGTHS),
    ),
    "decoder": (
        lambda: nn.TransformerDecoder([nn.TransformerDecoderLayer(D, HEADS, FF, 0.0) for _ in range(2)]),
        lambda layer, x, memory: layer(x, memory, memory_lengths=np.array([4, 1])),
    ),
}  # fmt: skip


def results(name: str, device: str, dtype: Any) -> dict[str, np.ndarray]:
    """The output, and the gradients of the inputs and of every parameter, on the host."""
    manual_seed(1)
    build, call = LAYERS[name]
    layer, rng = build().astype(dtype), np.random.default_rng(2)
    for parameter in layer.parameters():  # no bias is zero, no norm is neutral
        parameter.data[...] += rng.normal(scale=0.3, size=parameter.shape).astype(dtype)
    layer.to(device)
    inputs = {
        side: Tensor(to_device(rng.normal(size=(2, length, D)).astype(dtype), device), requires_grad=True)
        for side, length in (("x", 5), ("memory", 4))
    }
    out = call(layer, *inputs.values())
    g = to_device(np.asarray(rng.normal(size=out.shape), dtype=dtype), device)
    wanted = {**inputs, **dict(layer.named_parameters())}
    gradients = grad(out, list(wanted.values()), g)
    assert out.device == ("cpu" if device == "cpu" else "cuda:0")
    return {"output": out.numpy(), **{key: x.numpy() for key, x in zip(wanted, gradients, strict=True)}}


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float32, 100), (np.float16, 30)])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_the_same_on_the_device(name, dtype, ulps, cuda) -> None:
    want, found = results(name, "cpu", dtype), results(name, "cuda", dtype)
    for key, array in want.items():
        assert found[key].dtype == dtype
        bound = ulps * float(np.finfo(dtype).eps) * max(1.0, float(np.abs(array).max()))
        np.testing.assert_allclose(found[key], array, rtol=0, atol=bound, err_msg=key)


def test_dropout_on_the_device_is_drawn_and_replayed(cuda, counted_masks) -> None:
    x = Tensor(cuda.ones((300, 40), np.float32), requires_grad=True)
    layer = nn.Dropout(0.25)
    out = layer(x)
    out.backward(cuda.ones((300, 40), np.float32))
    kept = out.numpy()
    assert abs((kept != 0).mean() - 0.75) < 0.02
    np.testing.assert_array_equal(to_device(x.grad, "cpu"), kept)
    layer.eval()
    assert layer(x) is x or (layer(x).numpy() == 1).all()


def test_layers_on_the_wrong_device_say_so(cuda) -> None:
    layer = nn.Linear(D, 5)
    with pytest.raises(TypeError, match=r"different devices .*\.to\(device\)"):
        layer(Tensor(cuda.ones((2, D), np.float32)))
