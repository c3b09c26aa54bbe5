"""Attention on a device is as accurate as the plain path on the CPU, for every method and option, in both passes.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, ops
from handloom.autograd.backend import to_device
from tests.support.attention_cases import RESTRICTIONS, Case

pytestmark = pytest.mark.slow

HALF, SINGLE = np.float16, np.float32
METHODS = ("standard", "blocked", "fused")
CHOSEN = [frozenset(), *(frozenset({name}) for name in RESTRICTIONS), frozenset(RESTRICTIONS)]


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda chosen: "-".join(sorted(chosen)) or "nothing")
@pytest.mark.parametrize("method", METHODS)
def test_every_option(method, chosen, dtype, cuda) -> None:
    for seed, lengths, widths in ((1, (61, 97), (32, 32)), (2, (97, 61), (24, 7))):
        Case(seed, lengths, widths, chosen).check(dtype, method=method, device="cuda")


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("chosen", [("causal", "key_lengths"), RESTRICTIONS], ids=["edges", "everything"])
@pytest.mark.parametrize("width", [1, 64, 72, 96, 128])
def test_every_width_of_the_kernels(width, chosen, dtype, cuda) -> None:
    case = Case(width, (65, 150) if "mask" in chosen else (113, 203), (width, width), frozenset(chosen))
    case.check(dtype, method="fused", device="cuda", deterministic=width == 64)


@pytest.mark.parametrize("size", [10.0, 1e-3])
@pytest.mark.parametrize("method", METHODS)
def test_scores_of_any_size(method, size, cuda) -> None:
    case = Case(3, (61, 97), (32, 33), frozenset({"causal"}), size=size)
    case.check(SINGLE, method=method, device="cuda", block_size=16)


@pytest.mark.parametrize("dropout", [0.25, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_dropout_drops_the_asked_share(method, dropout, cuda) -> None:
    query, value = (cuda.full((4, 2, 128, 8), number, SINGLE) for number in (0, 1))
    out = ops.attention(query, query, value, dropout=dropout, method=method, block_size=48, generator=Generator(1))
    kept = out.numpy()[..., 0] * 128 * (1 - dropout)  # the number of weights that each query keeps
    assert abs(kept.mean() - 128 * (1 - dropout)) < 1
    assert 0.9 * dropout < kept.std() / np.sqrt(128 * 0.25 * 0.75) < 1.1 or dropout == 1


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("chosen", [("causal", "bias"), RESTRICTIONS, ()], ids=["edges", "everything", "nothing"])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("method", METHODS)
def test_dropout_falls_on_the_same_weights_in_both_directions(method, dtype, chosen, deterministic, cuda) -> None:
    """The composed ops return the same output and gradients with the dropout mask that the method draws."""
    case = Case(9, (61, 97), (32, 40), frozenset(chosen))
    case.check_dropout(dtype, 0.3, method=method, block_size=32, deterministic=deterministic)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_chosen_heads(method, cuda) -> None:
    case = Case(4, (61, 37), (8, 8), frozenset(RESTRICTIONS))
    arrays = [array.astype(SINGLE) for array in case.arrays]
    expected = ops.attention(*arrays[:3], bias=arrays[3], **case.options, return_weights=True, method="standard")[1]
    moved = [to_device(array, "cuda") for array in arrays]
    options = {key: to_device(x, "cuda") if isinstance(x, np.ndarray) else x for key, x in case.options.items()}
    options |= {"bias": moved[3], "method": method, "block_size": 16}
    out, weights = (x.numpy() for x in ops.attention(*moved[:3], **options, return_weights=[1]))
    np.testing.assert_allclose(weights, expected.data[:, [1]], atol=1e-6)
    np.testing.assert_allclose(weights @ arrays[2][:, [1]], out[:, [1]], atol=1e-6)
    every = ops.attention(*moved[:3], **options, return_weights=True)[1]
    np.testing.assert_allclose(every.numpy(), expected.data, atol=1e-6)


@pytest.mark.parametrize("head_dim", [32, 136])
@pytest.mark.parametrize("method", ["auto", "blocked"])
def test_no_method_waits_for_the_device(method, head_dim, cuda) -> None:
    """This holds for all options together, and for a head_dim that only the blocked method supports."""
    import cupyx

    case = Case(6, (61, 97), (head_dim, head_dim), frozenset(RESTRICTIONS))
    leaves = [Tensor(to_device(array.astype(SINGLE), "cuda"), requires_grad=True) for array in case.arrays]
    options: dict[str, Any] = {
        key: to_device(x, "cuda") if isinstance(x, np.ndarray) else x for key, x in case.options.items()
    }
    g = to_device(case.g.astype(SINGLE), "cuda")
    with cupyx.allow_synchronize(False):
        out = ops.attention(*leaves[:3], bias=leaves[3], **options, dropout=0.1, method=method, block_size=32)
        out.backward(g)
    assert all(leaf.grad is not None for leaf in leaves)


def test_attention_shares_no_random_words_with_other_dropout(fake_cupy) -> None:
    """The counters of attention's first call and second head, and of the generator's second call, differ in one bit."""
    generator = Generator(3)
    query, key = (Tensor(fake_cupy.zeros((1, 2, length, 8), np.float16), requires_grad=True) for length in (1, 256))
    out = ops.attention(query, key, key, dropout=0.5, generator=generator, method="fused")
    kept = out.origin.node.keep_whole((1, 2, 1, 256), np.float32)[0, 1, 0] != 0
    other = ops.dropout(fake_cupy.ones(1024, np.float16), 0.5, generator=generator).data.get() != 0
    j = np.arange(256)
    assert 0.3 < (kept == other[8 * (j // 16 * 8 + j % 8) + 2 * (j // 8 % 2) + 1]).mean() < 0.7
