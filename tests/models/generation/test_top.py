"""Test the largest logits and the log-sum-exp of each row."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd.fast import compiled, parallel
from handloom.models.generation.fast import rows, team
from handloom.models.generation.top import log_sum_exp, top_k

#: Values of MIN_ARRAY_SIZE: compiled loops compute all rows, or none.
ALWAYS, NEVER = 0, 1 << 40


@given(
    least=st.sampled_from([ALWAYS, NEVER]),
    rows=st.integers(1, 4),
    vocabulary=st.sampled_from([1, 5, 15, 16, 33, 255, 512, 513, 6000]),
    k=st.sampled_from([1, 2, 10, 40]),
    levels=st.sampled_from([1, 3, 1000]),
    gap=st.sampled_from([0, 3]),
    seed=st.integers(0, 1000),
)
def test_top_k_is_a_stable_sort(
    least: int, rows: int, vocabulary: int, k: int, levels: int, gap: int, seed: int
) -> None:
    """With few levels, many logits are equal; equal logits must be in the order of their ids."""
    rng = np.random.default_rng(seed)
    logits = rng.integers(0, levels, (rows, vocabulary + gap)).astype(np.float32)[:, :vocabulary]
    logits[rng.random(logits.shape) < 0.2] = -np.inf
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    wanted = np.take_along_axis(logits, expected, axis=1)
    with mock.patch.object(compiled, "MIN_ARRAY_SIZE", least):
        values, ids = top_k(logits, k)
    np.testing.assert_array_equal(values, wanted)
    finite = wanted > -np.inf
    np.testing.assert_array_equal(ids[finite], expected[finite])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_log_sum_exp(dtype: type) -> None:
    logits = np.random.default_rng(0).normal(scale=20, size=(5, 40_000)).astype(dtype)
    logits[1], logits[2, 1:] = -np.inf, -np.inf
    total = log_sum_exp(logits)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(total, np.logaddexp.reduce(logits.astype(np.float64), axis=1), rtol=1e-6)
    assert total.dtype == max(dtype, np.float32, key=lambda t: np.dtype(t).itemsize)


def test_threads_change_no_result(restored_threads: None) -> None:
    logits = np.random.default_rng(0).standard_normal((64, 30_100)).astype(np.float32)
    results = []
    for threads in (1, 3):
        parallel.set_num_threads(threads)
        results.append((log_sum_exp(logits), *top_k(logits, 5)))
    np.testing.assert_equal(*results)


@pytest.mark.parametrize("least", [ALWAYS, NEVER])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("vocabulary", "column"), [(600, 0), (600, 2), (600, 70), (600, 599), (601, 600), (9, 0), (9, 8)]
)
def test_nan_is_an_error(least: int, k: int, vocabulary: int, column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is an error also in a column that folding leaves over, and in rows that are sorted completely."""
    monkeypatch.setattr(compiled, "MIN_ARRAY_SIZE", least)
    logits = np.tile(np.arange(vocabulary, dtype=np.float32), (2, 1))
    logits[1, column] = np.nan
    with pytest.raises(ValueError, match="are NaN"):
        top_k(logits, k)


@pytest.mark.parametrize("least", [ALWAYS, NEVER])
def test_the_largest_of_rows_in_reverse(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in reverse order have a negative stride, which the compiled loops do not support."""
    monkeypatch.setattr(compiled, "MIN_ARRAY_SIZE", least)
    logits = np.random.default_rng(0).standard_normal((3, 600)).astype(np.float32)
    for backwards, forwards in zip(top_k(logits[::-1], 5), top_k(logits, 5), strict=True):
        np.testing.assert_array_equal(backwards, forwards[::-1])
    np.testing.assert_allclose(log_sum_exp(logits[::-1]), log_sum_exp(logits)[::-1], rtol=1e-6)


@pytest.mark.parametrize("least", [ALWAYS, NEVER])
def test_none_of_the_largest_is_an_error(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For k = 0, a compiled loop would write before the beginning of its results."""
    monkeypatch.setattr(compiled, "MIN_ARRAY_SIZE", least)
    with pytest.raises(ValueError, match="kth"):
        top_k(np.zeros((2, 600), np.float32), 0)


def test_without_compilation_numpy_computes_them() -> None:
    """With NUMBA_DISABLE_JIT=1, the functions of the loops are not compiled, so the jobs can't call them."""
    logits = np.zeros((20, 2000), np.float32)
    with mock.patch.object(team, "usable", return_value=False):
        assert not rows.for_loops(logits)
    assert rows.for_loops(logits) == (compiled.missing() is None and team.usable())
