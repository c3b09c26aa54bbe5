"""The limits of attention's kernels, run by the emulator: see tests/support/attention_limits.py."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.autograd.kernels.loading import read_source
from tests.support import attention_limits as limits
from tests.support.cuda_emulator import EmulatedModule, compiler_missing
from tests.support.emulated_attention import kernels

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))]

EXTRAS = {"alibi_slopes": np.zeros(1)}  # asks for the variant that bias and masks need, and changes nothing


def test_dropout_over_more_keys_and_queries_than_a_few_blocks() -> None:
    limits.dropout_over_long_rows(kernels())


def test_padding_may_hold_anything() -> None:
    limits.padding_of_any_kind(kernels())


@pytest.mark.parametrize("options", [{}, EXTRAS], ids=["lean", "extras"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scores_beyond_float16(dtype, options) -> None:
    limits.large_scores(kernels(), dtype, **options)


@pytest.mark.parametrize("extras", [{}, {"slopes": np.zeros(2, np.float32)}], ids=["lean", "extras"])
def test_sums_of_float16_inputs_are_float32(extras) -> None:
    limits.sums_in_float32(kernels(), **extras)


@pytest.mark.parametrize("extras", [False, True])
def test_rows_that_lie_gigabytes_apart(extras) -> None:
    limits.rows_far_apart(kernels(), extras)


@pytest.mark.parametrize(("width", "checked"), [(32, True), (64, False), (96, False), (128, True)])
def test_tiles_are_read_without_bank_conflicts(width, checked) -> None:
    limits.no_bank_conflicts(kernels(checked=checked), width)


def test_bank_conflicts_of_float32() -> None:
    """Where sums are written into a tile, 8 bytes a lane: chunks 2n and 2n + 1 of an even row and the odd one after it
    lie in the same banks, and half a warp writes both rows. docs/flash_attention.md has these figures."""
    assert limits.bank_conflicts_in_float32(kernels(checked=True)) == {
        "attention_forward": 5.6,
        "attention_backward_keys": 3.0,
        "attention_query_gradient": 61.5,
        "attention_backward_queries": 2.4,
    }


def test_a_column_of_a_float32_tile_lies_in_all_banks() -> None:
    """The same for what is read by plain loads: eight rows' 16 bytes, wherever the tile is read, in 32 banks."""
    text = (
        read_source("attention_tiles.cuh")
        + """
    extern "C" __global__ void k(int* out) {
        int row = threadIdx.x, chunk = blockIdx.x;
        int* own = out + (chunk * 16 + row) * 4;
        own[0] = place_of<16>(row, chunk % 4), own[1] = place_of<32>(row, chunk % 8);
        own[2] = place_of<96>(row, chunk), own[3] = place_of<128>(row, chunk);
    }"""
    )
    places = np.zeros((24, 2, 8, 4), np.int32)  # chunk, eight rows of two times eight, which width
    EmulatedModule(text, ("-DHALF=0",)).get_function("k")((24,), (16,), (places,))
    columns = np.sort(places // 4 % 8, axis=2)
    assert (columns == np.arange(8)[:, None]).all()
