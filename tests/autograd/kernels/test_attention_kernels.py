"""The fused attention kernels, on the emulator, are as accurate as the plain implementation for all options."""

from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import Tensor, grad, ops
from handloom.autograd.kernels import attention, attention_op
from handloom.autograd.kernels.loading import load_module
from tests.support.attention_cases import LENGTHS, RESTRICTIONS, WIDTHS, Case, sparse_case
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import another_gpu, installed, kernels

pytestmark = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))

HALF, SINGLE = np.float16, np.float32
EDGES = frozenset({"causal", "window", "key_lengths"})  # the restrictions that the smaller variant supports


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.sampled_from(LENGTHS),
    widths=st.sampled_from(WIDTHS),
    stacked=st.sampled_from([(2, 2), (1, 3), (3, 1)]),
    chosen=st.frozensets(st.sampled_from(RESTRICTIONS)) | st.frozensets(st.sampled_from(sorted(EDGES))),
    deterministic=st.booleans(),
    dtype=st.sampled_from([SINGLE, HALF]),
)
def test_fused_is_as_good_as_the_plain_path(seed, lengths, widths, stacked, chosen, deterministic, dtype) -> None:
    case = Case(seed, lengths, widths, chosen, stacked=stacked)
    with kernels.mode(seed), installed():
        case.check(dtype, method="fused", device="cuda", deterministic=deterministic)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(("dtype", "width"), [(SINGLE, 128), (HALF, 128), (HALF, 64)])
def test_a_gpu_with_little_shared_memory_gets_smaller_blocks(dtype, width, deterministic, fake_cupy) -> None:
    case = Case(0, (70, 113), (width, width), frozenset({"causal"}))
    with another_gpu(shared_memory=99 * 1024):
        case.check(dtype, method="fused", device="cuda", deterministic=deterministic)


def test_some_blocks_fit_into_every_gpu_that_is_served() -> None:
    """GPUs of compute capability 8.0 and later have at least 99 KiB of shared memory per block."""
    for case in product((0, 1), (32, 64, 96, 128), (0, 1)):
        assert attention.forward_shared(attention.forward_constants(*case, small=True)) <= 99 * 1024
        assert attention.backward_shared(attention.backward_constants(*case, small=True)) <= 99 * 1024


@pytest.mark.parametrize("scale", [0.0, -0.3])
def test_scale_zero_and_negative(scale, fake_cupy) -> None:
    case = Case(1, (33, 65), (8, 8))
    case.options["scale"] = scale
    case.check(SINGLE, method="fused", device="cuda")


class WithPartOfTheKeys(attention.AttentionKernels):
    """Kernels that get the full lengths but memory for only the first `seen` keys and values: reading more fails."""

    def __init__(self, seen: int, *keys_and_values: Any):
        super().__init__(load_module, 227 * 1024)
        self.seen, self.keys_and_values = seen, keys_and_values
        self.launches: list[str] = []  # names of kernels that take keys and values

    def _launch(self, which: tuple[str, str, Any], grid: tuple[int, ...], shared: int, *arguments: Any) -> None:
        given = [any(x is array for array in self.keys_and_values) for x in arguments[0]]
        if any(given):
            self.launches.append(which[1])
        first = tuple(x[:, :, : self.seen] if cut else x for x, cut in zip(arguments[0], given, strict=True))
        super()._launch(which, grid, shared, first, *arguments[1:])


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_what_a_mask_hides_as_a_whole_is_not_even_loaded(dtype, deterministic, fake_cupy) -> None:
    """Output and gradients equal those without the keys that are hidden from all queries. Hidden keys are not read."""
    seen, rng = 128, np.random.default_rng(0)
    sides = (150, 203, 203, 150)
    *arrays, g = (fake_cupy.asarray(rng.standard_normal((1, 1, side, 32)).astype(dtype)) for side in sides)
    mask = fake_cupy.asarray(rng.random((150, 203)) < 0.7)
    mask[:, seen:] = False
    cutting = WithPartOfTheKeys(seen, *arrays[1:])
    results = []
    for of_a_gpu, keys in ((cutting, 203), (attention.device_kernels(0), seen)):
        inputs = arrays if keys == 203 else [arrays[0], *(x[:, :, :keys].copy() for x in arrays[1:])]
        leaves = [Tensor(array, requires_grad=True) for array in inputs]
        with mock.patch.object(attention_op, "device_kernels", return_value=of_a_gpu):
            out = ops.attention(*leaves, mask=mask[:, :keys], method="fused", deterministic=deterministic)
            results.append([x.numpy() for x in (out, *grad(out, leaves, g))])
    passes = ["attention_forward", "attention_backward_keys", "attention_backward_queries"]
    assert cutting.launches == passes[: 2 + deterministic]
    for whole, part in zip(*results, strict=True):
        if len(whole[0, 0]) > 150:
            assert (whole[:, :, seen:] == 0).all()
            whole = whole[:, :, :seen]
        np.testing.assert_allclose(whole, part, rtol=0, atol=4 * np.finfo(dtype).eps * np.abs(part).max())


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_a_mask_with_few_pairs(dtype, deterministic, fake_cupy) -> None:
    sparse_case(3, (203, 331)).check(dtype, method="fused", device="cuda", deterministic=deterministic)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
def test_empty_axes(shape, fake_cupy) -> None:
    batch, heads, queries, keys = shape
    arrays = [fake_cupy.ones((batch, heads, length, 8), SINGLE) for length in (queries, keys, keys)]
    for deterministic in (False, True):
        leaves = [Tensor(array, requires_grad=True) for array in arrays]
        out = ops.attention(*leaves, method="fused", deterministic=deterministic)
        gradients = grad(out, leaves, fake_cupy.ones(out.shape, SINGLE))
        assert out.shape == (batch, heads, queries, 8)
        assert all((x.numpy() == 0).all() for x in (out, *gradients))


#: The width of the array, and its columns that are the query and the key. In float16, 16 bytes are eight columns.
PLACES = {
    "begin": (16, slice(4, 12)), "end": (16, slice(12)), "rows": (12, slice(8)), "step": (16, slice(None, None, 2)),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_rows_may_begin_and_end_anywhere(place, fake_cupy) -> None:
    """If some row does not begin and end at multiples of 16 bytes, the kernels copy element by element."""
    width, columns = PLACES[place]
    rng, results = np.random.default_rng(0), []
    wide = fake_cupy.asarray(rng.standard_normal((2, 2, 2, 40, width)).astype(HALF))[..., columns]
    value, g = fake_cupy.asarray(rng.standard_normal((2, 2, 2, 40, 16)).astype(HALF))
    for query, key in (wide, wide.copy()):
        leaves = [Tensor(array, requires_grad=True) for array in (query, key, value)]
        out = ops.attention(*leaves, causal=True, method="fused", deterministic=True)
        results.append([x.numpy() for x in (out, *grad(out, leaves, g))])
    np.testing.assert_equal(*results)


def test_variants_are_kept_apart(fake_cupy) -> None:
    """Kernels of several widths are loaded as on a GPU. Some need more than 48 KiB of shared memory."""
    for width in (128, 32, 64):
        Case(0, (20, 30), (width, width)).check(HALF, method="fused", device="cuda")


def test_deterministic_gradients_do_not_depend_on_the_order_of_threads(fake_cupy) -> None:
    case = Case(5, (128, 203), (32, 32), frozenset({"bias", "alibi"}))
    case.arrays[3] = case.arrays[3][:1, :1]  # many pairs add to one element of its gradient
    results = []
    for seed in (0, 1, 2):
        with kernels.mode(seed):
            results.append(case.run(SINGLE, method="fused", device="cuda", deterministic=True))
    for other in results[1:]:
        np.testing.assert_equal(results[0], other)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("chosen", [frozenset({"causal", "key_lengths"}), frozenset(RESTRICTIONS)])
def test_every_access_is_in_order(dtype, chosen, fake_cupy) -> None:
    """The emulator watches each access: there are no races, no reads of unwritten memory and none out of bounds."""
    options: dict[str, Any] = {"dropout": 0.2} if "mask" in chosen else {}
    for seed, lengths, width, deterministic in ((0, (65, 70), 32, False), (1, (33, 130), 5, True)):
        case = Case(seed, lengths, (width, width), chosen)
        with kernels.mode(seed, check=True):
            case.run(dtype, method="fused", device="cuda", deterministic=deterministic, **options)


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ((1, 1, 2, 4), np.float64, "float64"),
        ((1, 1, 2, 129), SINGLE, "head_dim up to 128"),
        ((65536, 1, 1, 4), SINGLE, "up to 65535 batch rows"),
    ],
)
def test_what_the_kernels_can_not_take_is_refused_with_its_reason(shape, dtype, said, fake_cupy) -> None:
    x = fake_cupy.zeros(shape, dtype)
    with pytest.raises(ValueError, match=f"'fused' can't be used.*{said}"):
        ops.attention(x, x, x, method="fused")


def test_fused_on_the_cpu_says_what_to_do() -> None:
    x = np.zeros((1, 1, 2, 4), SINGLE)
    with pytest.raises(ValueError, match=r"\.to\('cuda'\)"):
        ops.attention(x, x, x, method="fused")
