"""Test that compiled attention of few queries gives the results of the plain `attend`, which calls NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd.fast import parallel
from handloom.models.generation import cache, raw_layers
from handloom.models.generation.fast import few_queries
from tests.support.decoding import build, needs_numba, random_source

pytestmark = [needs_numba, pytest.mark.usefixtures("restored_threads")]


def arrays(
    rng: np.random.Generator, sentences: int, heads: int, group: int, queries: int, length: int, size: int
) -> Any:
    """Return queries in the layout of `RawAttention.split`, and keys and values that are views of a larger cache."""
    q = rng.normal(size=(sentences, queries, heads, size)).astype(np.float32).swapaxes(1, 2)
    shape = (sentences, heads // group, length + 3, size)
    keys, values = (rng.normal(size=shape).astype(np.float32)[:, :, :length] for _ in range(2))
    return q, keys, values


@given(
    sentences=st.integers(1, 5),
    heads=st.sampled_from([(1, 1), (4, 1), (4, 2), (6, 3)]),
    queries=st.integers(1, few_queries.MAX_QUERIES),
    length=st.sampled_from([0, 1, 2, 3, 4, 5, 8, 23, 64]),
    size=st.sampled_from([1, 6, 16, 64]),
    shared=st.tuples(*[st.booleans()] * 3),
    hidden=st.sampled_from([None, 0.0, 0.5, 0.9]),
    seed=st.integers(0, 1000),
)
def test_it_is_the_plain_attention(
    sentences: int,
    heads: tuple[int, int],
    queries: int,
    length: int,
    size: int,
    shared: tuple[bool, ...],
    hidden: float | None,
    seed: int,
) -> None:
    """The results agree for a bias that is broadcast along any axes, and for queries that see no key."""
    rng = np.random.default_rng(seed)
    q, keys, values = arrays(rng, sentences, *heads, queries, length, size)
    bias = None
    if hidden is not None:
        shape = [1 if one else n for one, n in zip(shared, (sentences, heads[0], queries), strict=True)]
        bias = rng.normal(size=(*shape, length)).astype(np.float32)
        bias[rng.random(bias.shape) < hidden] = -np.inf
    wanted, _ = raw_layers.attend(q, keys, values, bias)
    found = few_queries.attend(q, keys, values, bias)
    assert found is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-6, strict=True)


def test_threads_change_no_bit() -> None:
    given_arrays, results = arrays(np.random.default_rng(0), 7, 4, 2, 3, 50, 16), []
    for threads in (1, 3):
        parallel.set_num_threads(threads)
        results.append(few_queries.attend(*given_arrays, None))
    np.testing.assert_array_equal(*results)


def test_what_is_not_seen_has_no_influence() -> None:
    """A NaN or infinity that is hidden has no effect; if it is visible, the result is NaN."""
    q, keys, values = arrays(np.random.default_rng(0), 2, 2, 1, 2, 6, 8)
    keys[:, :, 5], values[:, :, 5] = np.nan, np.inf
    bias = np.zeros((2, 1, 1, 6), np.float32)
    bias[0, ..., 5] = -np.inf
    out = few_queries.attend(q, keys, values, bias)
    assert out is not None
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1]).all()


def test_scores_far_apart_do_not_overflow() -> None:
    q, keys, values = arrays(np.random.default_rng(0), 1, 1, 1, 1, 9, 4)
    out = few_queries.attend(q * np.float32(1e4), keys, values, None)
    assert out is not None
    np.testing.assert_allclose(out[0, 0, 0], values[0, 0, (keys[0, 0] @ q[0, 0, 0]).argmax()], rtol=1e-6)


def test_what_it_leaves_to_others() -> None:
    q, keys, values = arrays(np.random.default_rng(0), 1, 1, 1, few_queries.MAX_QUERIES + 1, 5, 4)
    assert few_queries.attend(q, keys, values, None) is None
    few = q[:, :, :2], q[:, :, :2].astype(np.float64)
    np.testing.assert_array_equal(*(few_queries.attend(x, keys, values, None) for x in few))  # type: ignore[arg-type]


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_beam_in_which_sequences_have_pasts_of_their_own(norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding with and without compiled attention gives the same logits, also after the cache is swept."""
    monkeypatch.setattr(cache, "INITIAL_CAPACITY", 3)
    rng = np.random.default_rng(0)
    model = build(0, layers=2, norm_first=norm_first).astype(np.float32)
    source = random_source(rng, [3, 5])
    states = [model.start(source) for _ in range(2)]
    used = []
    states[0].decoder.attend_few = lambda *arrays: used.append(len(arrays)) or few_queries.attend(*arrays)
    width, new = 1, 4  # the first step feeds a prefix
    for new_width in (3, 3, 3, 2, 2, 1, 3, 3, 3, 3):
        ids = rng.integers(4, 9, (2 * width, new))
        np.testing.assert_allclose(*(state.step(ids) for state in states), rtol=1e-4, atol=1e-5)
        rows = (np.arange(2)[:, None] * width + rng.integers(0, width, (2, new_width))).reshape(-1)
        for state in states:
            state.select(rows, new_width)
        width, new = new_width, 1
    assert len(used) == 10 * 2 * 2  # steps, layers, self- and cross-attention
