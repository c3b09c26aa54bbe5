"""What attention's kernels must bear: long rows of dropout, scores beyond float16, sums of many weights, rows that lie
gigabytes apart, tiles without bank conflicts. Each check takes the kernels and raises AssertionError.
"""

from __future__ import annotations

import mmap
from collections import Counter
from typing import Any

import numpy as np

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.kernels.attention import AttentionKernels, AttentionOptions
from tests.support.attention_cases import Case
from tests.support.cuda_emulator import bank_conflicts, shared_memory_turns
from tests.support.emulated_attention import in_place

HALF, SINGLE = np.float16, np.float32


def dropout_as_composed(own: AttentionKernels, case: Case, dtype: Any, dropout: float, deterministic: bool) -> None:
    """Output and gradients with dropout are those of the composed ops, given the mask that the kernels draw."""
    leaves = [Tensor(array.astype(dtype), requires_grad=True) for array in case.arrays[:3]]
    generator = Generator(3)
    generator.next_call(leaves[0].data)  # the call's number counts as well
    g, options = case.g.astype(dtype), {"method": "fused", "deterministic": deterministic, "generator": generator}
    with in_place(own):
        out = ops.attention(*leaves, **case.options, dropout=dropout, **options)
        found = grad(out, leaves, g, retain_graph=True)
        assert out._origin is not None
        wide = [Tensor(leaf.data.astype(np.float64), requires_grad=True) for leaf in leaves]
        expected = out._origin.node.composed(*wide)
    truth = grad(expected, wide, g.astype(np.float64))
    for a, b in zip([out, *found], [expected, *truth], strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=0, atol=30 * np.finfo(dtype).eps * np.abs(b.data).max())


def dropout_over_long_rows(own: AttentionKernels) -> None:
    """No two pairs of a row, or of a column, draw the same bits because some place was counted in too few of them."""
    for lengths in ((9, 601), (601, 9)):
        dropout_as_composed(own, Case(1, lengths, (32, 32)), HALF, 0.3, deterministic=False)


def padding_of_any_kind(own: AttentionKernels) -> None:
    """Keys and values beyond the lengths may be NaN: they are not read, or count as zeros, in both directions."""
    rng, lengths = np.random.default_rng(0), np.array([77, 200])
    query, *rest = (rng.standard_normal((2, 2, 200, 32)).astype(HALF) for _ in range(4))
    results = []
    for padding in (None, np.nan):
        key, value, g = (x.copy() for x in rest)
        if padding is not None:
            key[0, :, 77:] = value[0, :, 77:] = padding
        leaves = [Tensor(array, requires_grad=True) for array in (query, key, value)]
        with in_place(own):
            out = ops.attention(*leaves, key_lengths=lengths, method="fused", deterministic=True)
            results.append([out, *grad(out, leaves, g)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def large_scores(own: AttentionKernels, dtype: Any, **options: Any) -> None:
    """Scores from 0 to 114,688, beyond float16: each query sees one key alone, and the greatest come last.

    Query i and key j have a product where i % 32 == j % 32, and the greater the later key j is.
    """
    places, rng = np.arange(97), np.random.default_rng(0)
    query, key = np.zeros((2, 1, 1, 97, 32), dtype)
    query[..., places, places % 32] = 256
    key[..., places, places % 32] = 256 * (1 + places // 32 / 4)
    value, g = rng.standard_normal((2, 1, 1, 97, 32)).astype(dtype)
    seen = np.where(places % 32 == 0, 96, 64 + places % 32)
    leaves = [Tensor(array, requires_grad=True) for array in (query, key, value)]
    with in_place(own):
        out = ops.attention(*leaves, scale=1.0, method="fused", **options)
        d_query, d_key, d_value = (x.data.astype(SINGLE) for x in grad(out, leaves, g))
    np.testing.assert_allclose(out.data, value[:, :, seen], rtol=1e-6)
    # The log-sum-exp's last place is 2^-7 here, in units of log 2: a weight is formed again to within one in a hundred.
    expected = np.zeros((97, 32), SINGLE)
    np.add.at(expected, seen, g[0, 0].astype(SINGLE))
    np.testing.assert_allclose(d_value[0, 0], expected, atol=0.02 * np.abs(expected).max())
    for gradient in (d_query, d_key):  # of a weight that is 1 whatever the score
        np.testing.assert_allclose(gradient, 0, atol=0.02)


def sums_in_float32(own: AttentionKernels, **extras: Any) -> None:
    """The log-sum-exp of float16 inputs is that of float64, to float32's precision."""
    query, key, value = (array.astype(HALF) for array in Case(2, (33, 601), (32, 32)).arrays)
    found = own.forward(query, key, value, AttentionOptions(scale=0.2, **extras))[1]
    scores = 0.2 * query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2)
    np.testing.assert_allclose(found, np.log2(np.exp(scores).sum(-1)), atol=2e-5)


def far_apart(array: np.ndarray) -> np.ndarray:
    """A copy (2, 2, rows, width) whose batch rows, heads and rows all lie some 2^31 elements apart.

    Almost all of its 24 GiB are never touched, and take no memory. Where a wrong offset may lead back lie some of them.
    """
    beyond = 1 << 31
    steps = beyond + (1 << 12), beyond + (1 << 16), beyond + (1 << 20), 1
    size = sum(step * (side - 1) for step, side in zip(steps, array.shape, strict=True)) + 1
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = np.frombuffer(mmap.mmap(-1, (2 * beyond + size) * array.itemsize, flags=flags), array.dtype)[2 * beyond :]
    copy = np.lib.stride_tricks.as_strided(memory, array.shape, [step * array.itemsize for step in steps])
    copy[...] = array
    return copy


def rows_far_apart(own: AttentionKernels, extras: bool = False) -> None:
    """Strides are 64 bits wide wherever one is multiplied: the results are those of the same rows side by side."""
    rng = np.random.default_rng(0)
    near = [rng.standard_normal((2, 2, 3, 32)).astype(HALF) for _ in range(4)]
    near += [rng.random((2, 2, 3, 3)) < 0.7, rng.standard_normal((2, 2, 3, 3)).astype(HALF)] if extras else []
    results = []
    for arrays in (near, [far_apart(array) for array in near]):
        query, key, value, g, *others = arrays
        call = AttentionOptions(scale=0.3, causal=True, **dict(zip(("mask", "bias"), others, strict=False)))
        out, log_sum_exp = own.forward(query, key, value, call)
        room = tuple(x if arrays is near else far_apart(x) for x in np.zeros((3, *query.shape), HALF))
        found = own.backward(query, key, value, call, out, log_sum_exp, g, deterministic=True, room=room)
        results.append([out, *found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def no_bank_conflicts(own: AttentionKernels, width: int, **options: Any) -> None:
    """Every access to shared memory in float16 takes as few turns as can be: ldmatrix, and if `own` are checked all."""
    case = Case(1, (70, 113), (width, width), frozenset({"causal"}))
    bank_conflicts(), shared_memory_turns()
    with in_place(own):
        for deterministic in (False, True):
            case.run(HALF, method="fused", deterministic=deterministic, **options)
    conflicts = bank_conflicts()
    assert conflicts == 0, f"ldmatrix took {conflicts} turns more than it need"
    for place, (least, taken) in shared_memory_turns().items():
        assert taken == least, f"{place}: {taken} turns, {least} would do"


def bank_conflicts_in_float32(own: AttentionKernels) -> dict[str, float]:
    """By how much bank conflicts lengthen the turns of shared memory for each kernel, in percent."""
    shared_memory_turns()
    with in_place(own):
        for deterministic in (False, True):
            Case(1, (40, 50), (32, 32), frozenset({"causal"})).run(SINGLE, method="fused", deterministic=deterministic)
    least, lost = Counter[str](), Counter[str]()
    for (name, _), turns in shared_memory_turns().items():
        least[name] += turns[0]
        lost[name] += turns[1] - turns[0]
    return {name: round(100 * lost[name] / least[name], 1) for name in least}
