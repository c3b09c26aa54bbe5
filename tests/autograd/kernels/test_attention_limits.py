"""Limits of the attention kernels, on the emulator: dropout over long rows, scores beyond float16, sums of many
weights, rows that lie gigabytes apart, and tiles without bank conflicts.
"""

from collections import Counter

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops
from handloom.autograd.kernels.attention import AttentionOptions, device_kernels
from tests.support.attention_cases import Case, far_apart
from tests.support.cuda_emulator import compiler_missing, shared_memory_turns
from tests.support.fake_cupy import kernels
from tests.support.fake_cupy.array import wrap

pytestmark = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))

HALF, SINGLE = np.float16, np.float32
EXTRAS = {"alibi_slopes": np.zeros(1)}  # selects the variant for bias and masks, and changes no result


def test_dropout_over_more_keys_and_queries_than_a_few_blocks(fake_cupy) -> None:
    """Positions are counted with enough bits: no two pairs of a row or of a column draw the same random bits."""
    for lengths in ((9, 601), (601, 9)):
        Case(1, lengths, (32, 32)).check_dropout(HALF, 0.3, method="fused", deterministic=False)


def test_padding_may_hold_anything(fake_cupy) -> None:
    """Keys and values beyond `key_lengths` may be NaN: both passes skip them or treat them as zeros."""
    rng, lengths = np.random.default_rng(0), fake_cupy.asarray(np.array([77, 200]))
    query, *rest = (rng.standard_normal((2, 2, 200, 32)).astype(HALF) for _ in range(4))
    results = []
    for padding in (None, np.nan):
        key, value, g = (x.copy() for x in rest)
        if padding is not None:
            key[0, :, 77:] = value[0, :, 77:] = padding
        leaves = [Tensor(fake_cupy.asarray(array), requires_grad=True) for array in (query, key, value)]
        out = ops.attention(*leaves, key_lengths=lengths, method="fused", deterministic=True)
        results.append([x.numpy() for x in (out, *grad(out, leaves, fake_cupy.asarray(g)))])
    np.testing.assert_equal(*results)


@pytest.mark.parametrize("options", [{}, EXTRAS], ids=["lean", "extras"])
@pytest.mark.parametrize("dtype", [HALF, SINGLE])
def test_scores_beyond_float16(dtype, options, fake_cupy) -> None:
    """Scores go from 0 to 114,688, beyond float16. Each query attends to one key, and the largest scores come last.

    The product of query i and key j is nonzero if i % 32 == j % 32. It is larger for later keys j.
    """
    places, rng = np.arange(97), np.random.default_rng(0)
    query, key = np.zeros((2, 1, 1, 97, 32), dtype)
    query[..., places, places % 32] = 256
    key[..., places, places % 32] = 256 * (1 + places // 32 / 4)
    value, g = rng.standard_normal((2, 1, 1, 97, 32)).astype(dtype)
    seen = np.where(places % 32 == 0, 96, 64 + places % 32)
    leaves = [Tensor(fake_cupy.asarray(array), requires_grad=True) for array in (query, key, value)]
    own = {name: fake_cupy.asarray(array) for name, array in options.items()}
    out = ops.attention(*leaves, scale=1.0, method="fused", **own)
    d_query, d_key, d_value = (x.numpy().astype(SINGLE) for x in grad(out, leaves, fake_cupy.asarray(g)))
    np.testing.assert_allclose(out.numpy(), value[:, :, seen], rtol=1e-6)
    expected = np.zeros((97, 32), SINGLE)
    np.add.at(expected, seen, g[0, 0].astype(SINGLE))
    np.testing.assert_allclose(d_value[0, 0], expected, atol=np.finfo(dtype).eps * np.abs(expected).max())
    for gradient in (d_query, d_key):  # zero, because the weight is 1 for any score
        np.testing.assert_allclose(gradient, 0, atol=256 * 32 * np.finfo(SINGLE).eps * np.abs(g).max())


@pytest.mark.parametrize("extras", [{}, {"slopes": np.zeros(2, SINGLE)}], ids=["lean", "extras"])
def test_sums_of_float16_inputs_are_float32(extras, fake_cupy) -> None:
    """The log-sum-exp of small scores of float16 inputs equals the float64 result to the precision of float32."""
    query, key, value = (array.astype(HALF) for array in Case(2, (33, 601), (32, 32)).arrays)
    own = {name: fake_cupy.asarray(array) for name, array in extras.items()}
    arrays = map(fake_cupy.asarray, (query, key, value))
    found = device_kernels(0).forward(*arrays, AttentionOptions(scale=0.2, **own))[1].get()
    assert (found[..., 0] == 0).all()
    scores = 0.2 * query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2)
    np.testing.assert_allclose(found[..., 1], np.log2(np.exp(scores).sum(-1)), atol=2e-5)


@pytest.mark.parametrize("extras", [False, True])
def test_rows_that_lie_gigabytes_apart(extras, fake_cupy) -> None:
    """All products with strides have 64 bits: rows that lie far apart give the same results as adjacent rows."""
    rng = np.random.default_rng(0)
    near = [rng.standard_normal((2, 2, 3, 32)).astype(HALF) for _ in range(4)]
    near += [rng.random((2, 2, 3, 3)) < 0.7, rng.standard_normal((2, 2, 3, 3)).astype(HALF)] if extras else []
    own, results = device_kernels(0), []
    for placed in (fake_cupy.asarray, lambda array: wrap(far_apart(array))):
        query, key, value, g, *others = map(placed, near)
        call = AttentionOptions(scale=0.3, causal=True, **dict(zip(("mask", "bias"), others, strict=False)))
        out, totals = own.forward(query, key, value, call)
        room = tuple(map(placed, np.zeros((3, *query.shape), HALF)))
        found = own.backward(query, key, value, call, out, totals, g, deterministic=True, room=room)
        results.append([x.get() for x in (out, *found)])
    np.testing.assert_equal(*results)


@pytest.mark.parametrize("width", [32, 64, 96, 128])
def test_tiles_are_read_without_bank_conflicts(width, fake_cupy) -> None:
    """Each float16 access to shared memory takes the minimum number of turns."""
    case = Case(1, (70, 113), (width, width), frozenset({"causal"}))
    shared_memory_turns()
    with kernels.mode(check=True):
        for deterministic in (False, True):
            case.run(HALF, method="fused", device="cuda", deterministic=deterministic)
    turns = shared_memory_turns()
    assert turns
    for place, (least, taken) in turns.items():
        assert taken == least, f"{place}: {taken} turns instead of {least}"


def test_bank_conflicts_of_float32(fake_cupy) -> None:
    """Bank conflicts add these percentages to each kernel's turns of shared memory, as in docs/flash_attention.md.

    They occur where sums are written into a tile, 8 bytes per lane. Chunks 2n and 2n + 1 of an even row and of the next
    odd row are in the same banks, and half a warp writes both rows.
    """
    shared_memory_turns()
    case = Case(1, (40, 50), (32, 32), frozenset({"causal"}))
    with kernels.mode(check=True):
        for deterministic in (False, True):
            case.run(SINGLE, method="fused", device="cuda", deterministic=deterministic)
    least, lost = Counter[str](), Counter[str]()
    for (name, _), turns in shared_memory_turns().items():
        least[name] += turns[0]
        lost[name] += turns[1] - turns[0]
    assert {name: round(100 * lost[name] / least[name], 1) for name in least} == {
        "attention_forward": 5.6,
        "attention_backward_keys": 3.0,
        "attention_query_gradient": 61.5,
        "attention_backward_queries": 2.4,
    }
