"""The limits of attention's kernels, run by the emulator: see tests/support/attention_limits.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import attention_limits as limits
from tests.support.cuda_emulator import compiler_missing
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
