"""Ops of several steps that are one kernel on a device: values and gradients are those of the CPU, masks included.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.backend import to_device
from handloom.autograd.kernels import fused
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
    with np.errstate(invalid="ignore"):  # a device divides 0 by 0 in silence
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
    """F = softmax - target stays within -1 .. 1 in the forward pass; the scale comes in the backward pass alone."""
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
    sizes: list[int] = []
    product(fake_cupy.ones((2, 2), np.float16), fake_cupy.ones((2, 2), np.float16))  # cuBLAS has its workspace now
    empty = fake_cupy.empty

    def noted(shape: Any, *rest: Any, **more: Any) -> Any:
        sizes.append(int(np.prod(shape)))
        return empty(shape, *rest, **more)

    monkeypatch.setattr(fake_cupy, "empty", noted)
    x, weight = (Tensor(to_device(a.astype(np.float16), "cuda"), requires_grad=True) for a in normal((60, 4), (80, 4)))
    ops.linear_cross_entropy(x, weight, None, np.arange(60), block_rows=6).backward()
    assert max(sizes) == 6 * 80


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_views_between_two_multiples_of_16_bytes(dtype, cuda, counted_masks, monkeypatch) -> None:
    """A kernel that takes eight elements at a time may not be given their address."""
    launch = fused._launch

    def checked(file: str, name: str, grid: Any, block: Any, args: Any, **rest: Any) -> None:
        assert not [arg for arg in args if type(arg) is cuda.ndarray and arg.data.ptr % 16]
        launch(file, name, grid, block, args, **rest)

    monkeypatch.setattr(fused, "_launch", checked)
    base = cuda.asarray(normal((5, 7))[0].astype(dtype))
    view = base[1:]
    assert view.data.ptr % 16
    found = ops.dropout_add(view, view, 0.4, generator=Generator(1))
    host = to_device(view, "cpu")
    want = ops.dropout_add(host, host, 0.4, generator=Generator(1)).numpy()
    np.testing.assert_allclose(found.numpy(), want, rtol=2e-3 if dtype == np.float16 else 1e-6)


def test_second_derivatives_go_through_the_composed_form(cuda, counted_masks) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x, weight = (
            Tensor(to_device(a.astype(np.float32), device), requires_grad=True) for a in normal((3, 4), (5, 4))
        )
        y = ops.linear_activation(x, weight, activation="silu", dropout=0.3, generator=Generator(4))
        (first,) = grad(y.sum(), [x], create_graph=True)
        found.append([t.numpy() for t in grad((first * first).sum(), [x, weight])])
    for want, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, want, rtol=1e-4, atol=1e-5)
