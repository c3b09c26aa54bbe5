"""Greedy and beam search, held to what must be true of any model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import manual_seed, no_grad, ops
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer, beam_search, greedy_search, length_penalty

PAD, BOS, EOS = 0, 2, 3
SPECIAL = {"bos_id": BOS, "eos_id": EOS}


def build(seed: int, vocabulary: int = 9) -> Seq2SeqTransformer:
    """A random model whose output is sharp enough that <eos> comes at different times."""
    manual_seed(seed)
    config = Seq2SeqConfig(vocabulary, vocabulary, 8, 2, 1, 1, 12, 0.0, max_length=40)
    model = Seq2SeqTransformer(config).astype(np.float64).eval()
    model.output.weight.data[...] *= 4
    return model


def score(model: Seq2SeqTransformer, source: np.ndarray, ids: list[int], ended: bool) -> float:
    """Log-probability of a translation by one uncached pass."""
    target = [BOS, *ids] if ended else [BOS, *ids[:-1]]
    wanted = [*ids, EOS] if ended else ids
    with no_grad():
        log_p = ops.log_softmax(model(source, np.array([target]))).data[0]
    return float(log_p[np.arange(len(wanted)), wanted].sum())


@given(seed=st.integers(0, 10_000), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_batch_equals_one_by_one_and_beam_one_equals_greedy(seed: int, lengths: list[int]) -> None:
    model, rng = build(seed), np.random.default_rng(seed)
    source = np.zeros((len(lengths), max(lengths)), int)
    for row, length in zip(source, lengths, strict=True):
        row[:length] = rng.integers(4, 9, length)
    greedy = greedy_search(model, source, max_length=8, **SPECIAL)
    for number, length in enumerate(lengths):
        alone = source[number : number + 1, :length]
        one = greedy_search(model, alone, max_length=8, **SPECIAL)[0]
        assert one.ids == greedy[number].ids
        ended = len(one.ids) < 8
        assert one.score == pytest.approx(score(model, alone, one.ids, ended), rel=1e-9)
        beam = beam_search(model, alone, beam=1, alpha=0.0, max_length=8, **SPECIAL)[0][0]
        assert beam.ids == one.ids
        assert beam.score == pytest.approx(one.score, rel=1e-9)
    beams = beam_search(model, source, beam=3, max_length=8, **SPECIAL)
    for number, length in enumerate(lengths):
        alone = beam_search(model, source[number : number + 1, :length], beam=3, max_length=8, **SPECIAL)[0]
        assert alone[0].ids == beams[number][0].ids
        assert alone[0].score == pytest.approx(beams[number][0].score, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_full_beam_finds_the_best_of_all(alpha: float, seed: int) -> None:
    """As wide as the whole space, the search must agree with trying everything."""
    model = build(seed, vocabulary=6)
    source = np.array([[4, 5, 4]])
    words = [token for token in range(6) if token != EOS]
    best = -np.inf
    for length in range(4):
        for ids in itertools.product(words, repeat=length):
            best = max(best, score(model, source, list(ids), True) / length_penalty(length + 1, alpha))
    for ids in itertools.product(words, repeat=4):
        best = max(best, score(model, source, list(ids), False) / length_penalty(4, alpha))
    found = beam_search(model, source, beam=6**4, alpha=alpha, max_length=4, **SPECIAL)[0][0]
    assert found.score == pytest.approx(best, rel=1e-9)


@given(seed=st.integers(0, 10_000), beam=st.integers(2, 5))
def test_n_best_are_distinct_sorted_and_truly_scored(seed: int, beam: int) -> None:
    model, source = build(seed), np.array([[4, 6, 8]])
    found = beam_search(model, source, beam=beam, alpha=0.6, max_length=6, n_best=beam, **SPECIAL)[0]
    assert len({tuple(h.ids) for h in found}) == len(found)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for h in found:
        ended = len(h.ids) < 6
        length = len(h.ids) + ended
        assert h.score == pytest.approx(score(model, source, h.ids, ended) / length_penalty(length, 0.6), rel=1e-9)


def test_length_penalty_is_gnmts() -> None:
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(100, 0.0) == 1


def test_the_models_positions_bound_the_length() -> None:
    model = build(0)
    model.output.bias.data[EOS] = -1e4  # never ends by itself
    assert len(greedy_search(model, np.full((1, 30), 5), **SPECIAL)[0].ids) == 40
    assert len(greedy_search(model, np.full((1, 2), 5), max_length=3, **SPECIAL)[0].ids) == 3
    assert len(beam_search(model, np.full((1, 2), 5), max_length=3, **SPECIAL)[0][0].ids) == 3
    for search in (greedy_search, beam_search):
        with pytest.raises(ValueError, match="max_length = 0 must be at least 1"):
            search(model, np.array([[4]]), max_length=0, **SPECIAL)
    with pytest.raises(ValueError, match="n_best = 3 must lie between 1 and beam = 2"):
        beam_search(model, np.array([[4]]), beam=2, n_best=3, **SPECIAL)
