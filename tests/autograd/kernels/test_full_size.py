"""Long sequences and many repetitions on a GPU; the stand-in for CuPy gets small sizes."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.kernels import fused
from handloom.autograd.kernels import products as kernels


@pytest.fixture
def small(cuda) -> bool:
    return "stand-in" in cuda.__version__


def drawn(cuda: Any, *shape: int, seed: int = 0) -> Any:
    return cuda.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32).astype(np.float16))


def attention(*arrays: Any, method: str = "fused", **options: Any) -> list[Any]:
    """Return the output and the gradients of query, key and value. The fourth array is the gradient of the output."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays[:3]]
    out = ops.attention(*leaves, causal=True, method=method, **options)
    return [tensor.data for tensor in (out, *grad(out, leaves, arrays[3]))]


def assert_near(found: list[Any], wanted: list[Any], share: float) -> None:
    """Check that no error exceeds `share` times the largest element of its array."""
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=0, atol=share * float(abs(b).max()))


def test_attention_over_long_sequences(cuda, small) -> None:
    """The reference is the blocked method in float32, which does not use handloom's kernels."""
    for length, head_dim in [(96, 64)] if small else product((4096, 16384), (64, 128)):
        arrays = [drawn(cuda, 1, 2, length, head_dim, seed=seed) for seed in range(4)]
        wanted = attention(*(array.astype(np.float32) for array in arrays), method="blocked")
        assert_near(attention(*arrays), wanted, 2.0**-7)


def test_deterministic_ops_repeat_their_bits(cuda, small) -> None:
    operands = [drawn(cuda, 2, 4, 100 if small else 1000, 64, seed=seed) for seed in range(4)]
    x, g = (drawn(cuda, 16 if small else 8192, 512, seed=seed) for seed in range(2))
    one, ids = cuda.ones(512, np.float16), cuda.asarray(np.random.default_rng(0).integers(0, 50, len(x)))

    def results() -> list[Any]:
        found = attention(*operands, deterministic=True, dropout=0.1, generator=Generator(1))
        y, z, mean, rstd = fused.layer_norm(x, one, one, 1e-5)
        found += [y, *fused.layer_norm_backward(g, z, one, mean, rstd)[1:], fused.column_sums(x)]
        return [*found, fused.embedding_backward(g, ids, 50), kernels.product(x.T, g)]

    wanted = [array.get() for array in results()]
    for _ in range(2 if small else 100):
        np.testing.assert_equal([array.get() for array in results()], wanted)
