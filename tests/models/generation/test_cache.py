"""Compare the cached state with the model without a cache, for any selections of sequences."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import no_grad
from handloom.models import Seq2SeqTransformer
from handloom.models.generation import cache as cache_module
from handloom.models.generation.cache import TreeCache
from handloom.nn import attention_maps
from tests.support.decoding import build, random_source, start_uncached


@pytest.fixture(autouse=True)
def small_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a small initial capacity, so that short sequences also grow and sweep the cache."""
    monkeypatch.setattr(cache_module, "INITIAL_CAPACITY", 3)


@given(
    data=st.data(),
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    norm_first=st.booleans(),
    activation=st.sampled_from(["relu", "gelu", "swiglu"]),
    pattern=st.sampled_from(["full", "full", "local:2", "strided:2"]),
    packed=st.booleans(),
    copy=st.booleans(),
)
def test_any_course_of_steps_and_selections(data, seed, lengths, norm_first, activation, pattern, packed, copy) -> None:
    options = {"pattern": pattern, "copy": copy, "uncopied_id": 4}
    model = build(seed, layers=2, norm_first=norm_first, activation=activation, **options)
    rng = np.random.default_rng(seed)
    source = random_source(rng, lengths)
    decoder = model.raw_decoder() if packed else None
    cached, uncached = model.start(source, decoder=decoder), start_uncached(model, source)
    width = 1
    for _ in range(data.draw(st.integers(1, 9))):
        chunk = data.draw(st.integers(1, 3)) if width == 1 and cached._cache.allowed is None else 1
        ids = rng.integers(4, 9, (cached.rows, chunk))
        np.testing.assert_allclose(cached.step(ids), uncached.step(ids), rtol=1e-9, atol=1e-10)
        if data.draw(st.booleans()):
            sentences = cached.rows // width
            kept = data.draw(st.lists(st.integers(0, sentences - 1), min_size=1, max_size=3))
            new_width = data.draw(st.sampled_from([1, 2, 3]))
            rows = (np.array(kept)[:, None] * width + rng.integers(0, width, (len(kept), new_width))).reshape(-1)
            cached.select(rows, new_width)
            uncached.select(rows, new_width)
            width = new_width


def test_the_sweep_keeps_the_cache_small() -> None:
    """If three sequences always continue the same sequence, the cache keeps one past, not three."""
    cache = TreeCache(1, 2, 1, 4, np.float32, np)
    cache.extend(0)
    cache.select(np.array([0, 0, 0, 1, 1, 1]), 3)
    for position in range(1, 101):
        cache.extend(position)
        cache.select(np.array([1, 1, 1, 5, 5, 5]), 3)
    # The steps add 301 nodes. A sweep begins at twice the nodes that the last sweep left; arrays grow by doubling.
    assert cache.length <= 2 * (101 + 3)
    assert cache.allowed is not None
    np.testing.assert_array_equal(cache.allowed.sum(axis=2), 101)


def test_reordering_a_beam_copies_no_keys() -> None:
    cache = TreeCache(1, 2, 1, 4, np.float32, np)
    cache.extend(0)
    cache.select(np.array([0, 0, 1, 1]), 2)
    keys = cache.keys[0]
    keys.flags.writeable = False
    cache.select(np.array([1, 0, 3, 3]), 2)
    assert cache.keys[0] is keys
    with pytest.raises(ValueError, match="sequences of different sentences can't be in one group of 2"):
        cache.select(np.array([1, 2]), 2)


@pytest.mark.parametrize("beam", [False, True])
def test_attention_is_that_of_the_plain_path(beam: bool) -> None:
    """The attention of each layer and head agrees with the plain path in each step, also if the beam is reordered."""
    model, rng = build(0, layers=2), np.random.default_rng(0)
    source = random_source(rng, [3, 5])
    state = model.start(source, keep_attention=True)
    target, origin = np.empty((2, 0), int), np.arange(2)
    for step in range(6):
        ids = rng.integers(4, 9, (state.rows, 2 if step == 0 else 1))
        state.step(ids)
        target = np.concatenate([target, ids], axis=1)
        with no_grad(), attention_maps(model) as maps:
            memory, lengths = model.encode(source[origin])
            model.decode(target, memory, lengths)
        weights = [maps[name][0] for name in maps if "multihead" in name]
        for found, expected in zip(state.cross_attentions, weights, strict=True):
            np.testing.assert_allclose(found, expected[:, :, -ids.shape[1] :], rtol=1e-9, atol=1e-12)
        last = weights[-1][:, :, -ids.shape[1] :]
        np.testing.assert_allclose(state.cross_attention, last.mean(axis=1).sum(axis=1), rtol=1e-9, atol=1e-12)
        if beam:
            rows = np.array([0, 0, 1, 1]) if step == 0 else np.array([1, 0, 2, 2])
            state.select(rows, 2)
            target, origin = target[rows], origin[rows]


def test_a_source_of_padding_alone_is_attended_to_with_zeros() -> None:
    model, source = build(0, layers=2), np.array([[0, 0], [4, 5]])
    cached, uncached = model.start(source), start_uncached(model, source)
    for ids in (np.array([[2], [2]]), np.array([[5], [6]])):
        np.testing.assert_allclose(cached.step(ids), uncached.step(ids), rtol=1e-9, atol=1e-10)
    assert model.start(source, np.array([150, 2], np.uint8)).suggested_lengths.tolist() == [310, 14]


def test_chunks_are_for_single_sequences() -> None:
    state = build(0).start(np.array([[4, 5]]))
    state.step(np.array([[2, 4]]))
    state.select(np.array([0, 0]), 2)
    with pytest.raises(ValueError, match="several tokens can be fed at once"):
        state.step(np.array([[4, 5], [4, 5]]))


def test_the_layers_keep_nothing() -> None:
    model = build(0)
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    model.start(np.array([[4, 5]])).step(np.array([[2]]))
    assert before == {name: set(vars(module)) for name, module in model.named_modules()}


@pytest.mark.parametrize("keep_attention", [False, True])
def test_sources_without_tokens(keep_attention: bool) -> None:
    model = build(0)
    source = np.empty((2, 0), np.int64)
    cached, uncached = model.start(source, keep_attention=keep_attention), start_uncached(model, source)
    for ids in ([[4], [5]], [[6], [7]]):
        np.testing.assert_allclose(cached.step(np.array(ids)), uncached.step(np.array(ids)), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["_layer_by_layer", "_project", "_causal"])
def test_an_interrupted_state_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has tokens that the length does not count, so the logits would be wrong."""
    state = build(0).start(np.array([[4, 5]]))
    state.step(np.array([[1]]))
    with monkeypatch.context() as patch:
        patch.setattr(state, name, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            state.step(np.array([[6, 7]]))
    for use in (lambda: state.step(np.array([[6]])), lambda: state.select(np.array([0]))):
        with pytest.raises(RuntimeError, match="interrupted in a step or a select: start a new state"):
            use()


@pytest.mark.parametrize("start", [Seq2SeqTransformer.start, start_uncached])
def test_a_refused_step_leaves_the_state_as_it_was(start: Any) -> None:
    state, other = (start(build(0), np.array([[4, 5]])) for _ in range(2))
    with pytest.raises(IndexError):
        state.step(np.array([[10_000]]))
    np.testing.assert_array_equal(state.step(np.array([[6]])), other.step(np.array([[6]])))
