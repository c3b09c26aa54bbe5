"""The fused attention kernels, run by the emulator: as good as the plain path, whatever is asked of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.kernels.attention import (
    AttentionKernels,
    AttentionOptions,
    backward_constants,
    backward_shared,
    forward_constants,
    forward_shared,
)
from tests.support.attention_cases import LENGTHS, RESTRICTIONS, WIDTHS, Case, sparse_case
from tests.support.cuda_emulator import compiler_missing
from tests.support.emulated_attention import WithPartOfTheKeys, in_place, kernels
from tests.support.emulated_kernels import SHARED_MEMORY, emulated_loader

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))]

HALF, SINGLE = np.float16, np.float32
EDGES = frozenset({"causal", "window", "key_lengths"})  # what the leaner variant of the kernels knows


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
    with in_place(kernels(), seed):
        Case(seed, lengths, widths, chosen, stacked=stacked).check(dtype, method="fused", deterministic=deterministic)


@pytest.mark.parametrize("chosen", [EDGES, frozenset(RESTRICTIONS)], ids=["edges", "everything"])
@pytest.mark.parametrize("width", [72, 128])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_wide_heads(dtype, width, chosen) -> None:
    with in_place(kernels()):
        Case(width, (65, 150), (width, width), chosen).check(dtype, method="fused")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(("dtype", "width"), [(SINGLE, 128), (HALF, 128), (HALF, 64)])
def test_a_gpu_with_little_shared_memory_gets_smaller_blocks(dtype, width, deterministic) -> None:
    case = Case(0, (70, 113), (width, width), frozenset({"causal"}))
    with in_place(kernels(shared_memory=99 * 1024)):
        case.check(dtype, method="fused", deterministic=deterministic)


def test_some_blocks_fit_into_every_gpu_that_is_served() -> None:
    """99 KiB is the least that compute capability 8.0 and later has."""
    for case in product((0, 1), (32, 64, 96, 128), (0, 1)):
        assert forward_shared(forward_constants(*case, small=True)) <= 99 * 1024
        assert backward_shared(backward_constants(*case, small=True)) <= 99 * 1024


@pytest.mark.parametrize(("size", "largest_score"), [(10.0, 300.0), (1e-3, 0.0)])
def test_scores_of_any_size(size, largest_score) -> None:
    case = Case(3, (61, 97), (32, 32), frozenset({"causal"}), size=size)
    with in_place(kernels()):
        case.check(SINGLE, method="fused", largest_score=largest_score)


@pytest.mark.parametrize("scale", [0.0, -0.3])
def test_scale_zero_and_negative(scale) -> None:
    case = Case(1, (33, 65), (8, 8))
    case.options["scale"] = scale
    with in_place(kernels()):
        case.check(SINGLE, method="fused")


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.sampled_from([(64, 64), (97, 113), (17, 61)]),
    chosen=st.frozensets(st.sampled_from(RESTRICTIONS)),
    deterministic=st.booleans(),
    dtype=st.sampled_from([SINGLE, HALF]),
)
def test_dropout_falls_on_the_same_weights_in_both_directions(seed, lengths, chosen, deterministic, dtype) -> None:
    """The composed ops, given the mask that the kernels draw, have the same output and gradients."""
    case = Case(seed, lengths, (40, 40), chosen)
    leaves = [Tensor(array.astype(dtype), requires_grad=True) for array in case.arrays]
    g = case.g.astype(dtype)
    options: dict[str, Any] = {**case.options, "method": "fused", "dropout": 0.3, "deterministic": deterministic}
    if len(leaves) == 4:
        options["bias"] = leaves[3]
    with in_place(kernels(), seed):
        out = ops.attention(*leaves[:3], **options, generator=Generator(seed))
        fused = grad(out, leaves, g, retain_graph=True)
        assert out._origin is not None
        call = out._origin.node
        wide = [Tensor(leaf.data.astype(np.float64), requires_grad=True) for leaf in leaves]
        expected = call.composed(*wide)
    composed = grad(expected, wide, g.astype(np.float64))
    units = (30 if dtype == HALF else 200) * np.finfo(dtype).eps
    for a, b in zip([out, *fused], [expected, *composed], strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=0, atol=units * max(1, np.abs(b.data).max()))


@pytest.mark.parametrize("dropout", [0.25, 1.0])
def test_dropout_drops_the_asked_share(dropout) -> None:
    value = Tensor(np.ones((4, 2, 128, 8), SINGLE))
    query = Tensor(np.zeros((4, 2, 128, 8), SINGLE))
    with in_place(kernels()):
        out = ops.attention(query, query, value, dropout=dropout, method="fused", generator=Generator(1)).data[..., 0]
    kept = out * 128 * (1 - dropout)
    assert abs(kept.mean() - 128 * (1 - dropout)) < 1.3
    assert 0.9 * dropout < kept.std() / np.sqrt(128 * 0.25 * 0.75) < 1.1 or dropout == 1


def test_what_may_not_be_attended_to_is_never_multiplied() -> None:
    """Keys and values of blocks beyond the edges, and padding, may be NaN: they are not read, or count as zeros."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((1, 2, 300, 32)).astype(HALF) for _ in range(3))
    lengths = np.array([77])
    for dirty, options in ((slice(77, None), {"key_lengths": lengths}), (slice(0, 128), {"window": 30, "rows": 256})):
        rows = slice(options.pop("rows", 0), None)
        spoiled = key.copy(), value.copy()
        for array in spoiled:
            array[:, :, dirty] = np.nan
        with in_place(kernels()):
            expected = ops.attention(query, key, value, method="fused", **options).data[:, :, rows]
            found = ops.attention(query, *spoiled, method="fused", **options).data[:, :, rows]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_what_a_mask_hides_as_a_whole_is_not_even_loaded(dtype, deterministic) -> None:
    """Gradients and output are those of the keys that some query may see, and no others are read."""
    seen, rng = 128, np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 1, length, 32)).astype(dtype) for length in (150, 203, 203)]
    g, mask = rng.standard_normal(arrays[0].shape).astype(dtype), rng.random((150, 203)) < 0.7
    mask[:, seen:] = False
    cutting = WithPartOfTheKeys(emulated_loader(), seen, *arrays[1:])
    results = []
    for of_a_gpu, keys in ((cutting, 203), (kernels(), seen)):
        inputs = arrays if keys == 203 else [arrays[0], *(x[:, :, :keys].copy() for x in arrays[1:])]
        leaves = [Tensor(array, requires_grad=True) for array in inputs]
        with in_place(of_a_gpu):
            out = ops.attention(*leaves, mask=mask[:, :keys], method="fused", deterministic=deterministic)
            results.append([out.data, *(x.data for x in grad(out, leaves, g))])
    passes = ["attention_forward", "attention_backward_keys", "attention_backward_queries"]
    assert cutting.launches == passes[: 2 + deterministic]
    for whole, part in zip(*results, strict=True):
        if len(whole[0, 0]) > 150:
            assert (whole[:, :, seen:] == 0).all()
            whole = whole[:, :, :seen]
        np.testing.assert_allclose(whole, part, rtol=0, atol=4 * np.finfo(dtype).eps * np.abs(part).max())


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_a_mask_with_few_pairs(dtype, deterministic) -> None:
    with in_place(kernels()):
        sparse_case(3, (203, 331)).check(dtype, method="fused", deterministic=deterministic)


@pytest.mark.parametrize("sides", [(2, 3, 70, 97), (1, 1, 70, 97), (2, 1, 1, 97), (1, 3, 70, 1), (1, 1, 1, 1)])
def test_tiles_of_a_mask(sides) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random(sides) < 0.001
    query = np.zeros((2, 3, 70, 8), SINGLE)
    found = kernels().mask_tiles(query, query, AttentionOptions(scale=1.0, mask=mask))
    padded = np.zeros((*sides[:2], 96, 128), bool)
    padded[:, :, : sides[2], : sides[3]] = mask
    down, across = found.shape[2:]
    np.testing.assert_array_equal(found, padded.reshape(*sides[:2], 3, 32, 4, 32).any((3, 5))[:, :, :down, :across])


def test_queries_with_nothing_to_attend_to_give_zeros() -> None:
    case = Case(0, (50, 20), (8, 8), frozenset({"causal"}))
    case.options["key_lengths"] = np.array([0, 20])
    for dtype in (SINGLE, HALF):
        for deterministic in (False, True):
            with in_place(kernels()):
                out, d_query, d_key, d_value = case.run(dtype, method="fused", deterministic=deterministic)
            for array in (out[0], out[1, :, :30], d_query[0], d_query[1, :, :30], d_key[0], d_value[0]):
                assert (array == 0).all()
            assert (out[1, :, 30:] != 0).all()


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
def test_empty_axes(shape) -> None:
    batch, heads, queries, keys = shape
    arrays = [np.ones((batch, heads, length, 8), SINGLE) for length in (queries, keys, keys)]
    for deterministic in (False, True):
        leaves = [Tensor(array, requires_grad=True) for array in arrays]
        with in_place(kernels()):
            out = ops.attention(*leaves, method="fused", deterministic=deterministic)
            gradients = grad(out, leaves, np.ones(out.shape, SINGLE))
        assert out.shape == (batch, heads, queries, 8)
        assert all((x.data == 0).all() for x in (out, *gradients))


#: The width of arrays and the columns that are the query and the key: in float16, 16 bytes are eight of them.
PLACES = {
    "begin": (16, slice(4, 12)), "end": (16, slice(12)), "rows": (12, slice(8)), "step": (16, slice(None, None, 2)),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_rows_may_begin_and_end_anywhere(place) -> None:
    """Where not every row is a multiple of 16 bytes from such an address, the kernels copy element by element."""
    width, columns = PLACES[place]
    rng, results = np.random.default_rng(0), []
    wide = rng.standard_normal((2, 2, 2, 40, width)).astype(HALF)[..., columns]
    value, g = rng.standard_normal((2, 2, 2, 40, 16)).astype(HALF)
    for query, key in (wide, wide.copy()):
        leaves = [Tensor(array, requires_grad=True) for array in (query, key, value)]
        with in_place(kernels()):
            out = ops.attention(*leaves, causal=True, method="fused", deterministic=True)
            results.append([out, *grad(out, leaves, g)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def test_variants_are_kept_apart(fake_cupy) -> None:
    """Kernels of several widths, as a GPU's are loaded: some need more than 48 KiB of shared memory."""
    for width in (128, 32, 64):
        Case(0, (20, 30), (width, width)).check(HALF, method="fused", device="cuda")


def test_heads_split_off_a_projection_are_not_copied() -> None:
    """The kernels get views of the fused projection, and their output merges without a copy of theirs."""
    seen: list[np.ndarray] = []

    class Watching(AttentionKernels):
        def _launch(self, which: Any, grid: Any, shared: int, *arguments: Any) -> None:
            seen.extend(x for group in arguments for x in group if isinstance(x, np.ndarray))
            super()._launch(which, grid, shared, *arguments)

    fused = np.random.default_rng(0).standard_normal((2, 40, 3 * 2 * 16)).astype(HALF)
    with in_place(Watching(emulated_loader(), SHARED_MEMORY)):
        out = ops.attention(*ops.split_heads(fused, 2, parts=3), causal=True, method="fused")
    assert sum(np.shares_memory(x, fused) for x in seen) == 3
    assert out.data.transpose(0, 2, 1, 3).flags.c_contiguous
    copies = [np.ascontiguousarray(x.data) for x in ops.split_heads(fused, 2, parts=3)]
    with in_place(kernels()):
        np.testing.assert_array_equal(out.data, ops.attention(*copies, causal=True, method="fused").data)


def test_deterministic_gradients_do_not_depend_on_the_order_of_threads() -> None:
    case = Case(5, (128, 203), (32, 32), frozenset({"bias", "alibi"}))
    case.arrays[3] = case.arrays[3][:1, :1]  # many pairs add to one number of its gradient
    results = []
    for seed in (0, 1, 2):
        with in_place(kernels(), seed):
            results.append(case.run(SINGLE, method="fused", deterministic=True))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_weights_of_chosen_heads() -> None:
    case = Case(4, (61, 37), (8, 8), frozenset(RESTRICTIONS))
    query, key, value, bias = (array.astype(SINGLE) for array in case.arrays)
    expected = ops.attention(query, key, value, bias=bias, **case.options, return_weights=True, method="standard")[1]
    with in_place(kernels()):
        out, weights = ops.attention(query, key, value, bias=bias, **case.options, return_weights=[1], method="fused")
    np.testing.assert_allclose(weights.data, expected.data[:, [1]], atol=1e-6)
    np.testing.assert_allclose(weights.data @ value[:, [1]], out.data[:, [1]], atol=1e-6)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("chosen", [frozenset({"causal", "key_lengths"}), frozenset(RESTRICTIONS)])
def test_every_access_is_in_order(dtype, chosen) -> None:
    """No races, nothing read before it is written, nothing out of bounds: each access is watched."""
    options: dict[str, Any] = {"dropout": 0.2} if "mask" in chosen else {}
    for seed, lengths, width, deterministic in ((0, (65, 70), 32, False), (1, (33, 130), 5, True)):
        case = Case(seed, lengths, (width, width), chosen)
        with in_place(kernels(checked=True), seed):
            case.run(dtype, method="fused", deterministic=deterministic, **options)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ([np.zeros((1, 1, 2, 4))] * 3, "float64"),
        ([np.zeros((1, 1, 2, 129), SINGLE)] * 3, "head_dim up to 128"),
        ([np.zeros((65536, 1, 1, 4), SINGLE)] * 3, "up to 65535 batch rows"),
    ],
)
def test_what_the_kernels_can_not_take_is_refused_with_its_reason(arrays, said) -> None:
    with in_place(kernels()), pytest.raises(ValueError, match=f"'fused' can't be used.*{said}"):
        ops.attention(*arrays, method="fused")


def test_fused_on_the_cpu_says_what_to_do() -> None:
    x = np.zeros((1, 1, 2, 4), SINGLE)
    with pytest.raises(ValueError, match=r"\.to\('cuda'\)"):
        ops.attention(x, x, x, method="fused")


def test_the_lean_variant_serves_what_needs_no_more() -> None:
    assert not AttentionOptions(scale=1.0, causal=True, window=3, key_lengths=np.array([1])).extras
    assert AttentionOptions(scale=1.0, slopes=np.array([1.0])).extras
    assert AttentionOptions(scale=-1.0).extras
