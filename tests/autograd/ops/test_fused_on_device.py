"""Ops of several steps that run as one kernel on a device: NaN, padding, second passes, loss scales, memory and views.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, ops
from handloom.autograd.backend import to_device
from handloom.autograd.kernels.products import product

pytestmark = pytest.mark.slow


def normal(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_nan_passes_an_activation_and_so_does_its_gradient(activation, cuda) -> None:
    """CUDA's fmaxf(NaN, 0) is 0."""
    x, weight = (Tensor(to_device(np.zeros(s, np.float32), "cuda"), requires_grad=True) for s in ((1, 1), (3, 1)))
    bias = Tensor(to_device(np.array([np.nan, 1, -1], np.float32), "cuda"), requires_grad=True)
    out = ops.linear_activation(x, weight, bias, activation=activation)
    out.backward(cuda.ones((1, 3), np.float32))
    assert np.isnan(to_device(out.data, "cpu")).tolist() == [[True, False, False]]
    if activation == "relu":
        assert to_device(bias.grad, "cpu").tolist() == [1, 1, 0]
    else:
        assert np.isnan(to_device(bias.grad, "cpu")).tolist() == [True, False, False]


@pytest.mark.parametrize("linear", [True, False])
def test_the_mean_over_padding_alone_is_nan_and_has_no_gradient(cuda, linear) -> None:
    x, weight = (Tensor(to_device(a.astype(np.float16), "cuda"), requires_grad=True) for a in normal((4, 6), (9, 6)))
    target = np.zeros(4, int)
    with np.errstate(invalid="ignore"):  # a device divides 0 by 0 without a warning
        if linear:
            loss = ops.linear_cross_entropy(x, weight, None, target, ignore_index=0)
        else:
            loss = ops.cross_entropy(x, target, ignore_index=0)
    loss.backward()
    assert np.isnan(loss.item())
    assert not to_device(x.grad, "cpu").any()


def test_a_second_pass_through_linear_cross_entropy_gives_the_same(cuda) -> None:
    x, weight = (Tensor(to_device(a.astype(np.float32), "cuda"), requires_grad=True) for a in normal((4, 6), (9, 6)))
    loss = ops.linear_cross_entropy(x, weight, None, np.arange(4))
    loss.backward(retain_graph=True)
    first = to_device(weight.grad, "cpu")
    loss.backward()
    np.testing.assert_allclose(to_device(weight.grad, "cpu"), 2 * first, rtol=1e-6)


def test_a_loss_scale_far_beyond_float16_keeps_small_gradients(cuda) -> None:
    """F = softmax - target stays between -1 and 1 in the forward pass; only the backward pass applies the scale."""
    x, weight = (Tensor(to_device(a.astype(np.float16), "cuda"), requires_grad=True) for a in normal((64, 6), (9, 6)))
    loss = ops.linear_cross_entropy(x, weight, None, np.arange(64) % 9)
    loss.backward(cuda.asarray(2.0**15, dtype=np.float16))
    reference = ops.linear_cross_entropy(
        *(Tensor(to_device(t.data, "cpu").astype(np.float64), requires_grad=True) for t in (x, weight)),
        None, np.arange(64) % 9,
    )  # fmt: skip
    assert np.isfinite(to_device(weight.grad, "cpu")).all()
    assert loss.item() == pytest.approx(reference.item(), rel=2e-3)


def test_no_logits_of_all_rows_are_held_on_a_device(fake_cupy, monkeypatch) -> None:
    product(fake_cupy.ones((2, 2), np.float16), fake_cupy.ones((2, 2), np.float16))  # allocates the workspace of cuBLAS
    empty = Mock(wraps=fake_cupy.empty)
    monkeypatch.setattr(fake_cupy, "empty", empty)
    x, weight = (Tensor(to_device(a.astype(np.float16), "cuda"), requires_grad=True) for a in normal((60, 4), (80, 4)))
    ops.linear_cross_entropy(x, weight, None, np.arange(60), block_rows=6).backward()
    assert max(np.prod(call.args[0]) for call in empty.call_args_list) == 6 * 80


OPS: dict[str, Callable[..., Tensor]] = {
    "dropout": lambda x, y, ids: ops.dropout(x, 0.4, generator=Generator(1)),
    "dropout_add": lambda x, y, ids: ops.dropout_add(x, y, 0.4, generator=Generator(1)),
    "layer_norm": lambda x, y, ids: ops.layer_norm(x, x[0, 0], y[0, 0]),
    "residual_layer_norm": lambda x, y, ids: ops.residual_layer_norm(x, y, x[0, 0], y[0, 0]),
    "linear_activation": lambda x, y, ids: ops.linear_activation(x, y[0], y[1, :, 0], activation="gelu"),
    "cross_entropy": lambda x, y, ids: ops.cross_entropy(x[0], ids) * x[1, 0, 0],
    "linear_cross_entropy": lambda x, y, ids: ops.linear_cross_entropy(x[0], y[0], None, ids),
    "embedding": lambda x, y, ids: ops.embedding(ids, x[0]),
}


@pytest.mark.parametrize("name", OPS)
def test_views_are_as_good_as_copies(name, cuda) -> None:
    """Transposed operands with a column stride of 2 give the results and gradients of copies, and stay unchanged."""
    arrays = [a.astype(np.float16) for a in normal((6, 2, 12), (6, 2, 12))]
    x, y = (cuda.asarray(a).transpose(1, 0, 2)[..., ::2] for a in arrays)
    ids, found = cuda.asarray(np.array([3, 0, 3, 1, 2, 0], np.int32)), []
    for operands in ((x, y), (x.copy(), y.copy())):
        tensors = [Tensor(a, requires_grad=True) for a in operands]
        out = OPS[name](*tensors, ids)
        g = cuda.asarray(normal((24, *out.shape[::-1]))[0].astype(out.dtype))[5].T  # not contiguous
        out.backward(g if operands[0] is x else g.copy())
        found.append([out.data, *(t.grad for t in tensors if t.grad is not None)])
        for array, operand in zip(arrays, operands, strict=True):
            np.testing.assert_array_equal(to_device(operand, "cpu"), array.transpose(1, 0, 2)[..., ::2])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(to_device(one, "cpu"), to_device(other, "cpu"))
