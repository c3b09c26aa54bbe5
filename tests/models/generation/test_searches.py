"""Test invariants of greedy and beam search that hold for any model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.models import Hypothesis, Rules, beam_search, greedy_search, length_penalty
from handloom.models.generation import coverage_penalty
from tests.support.decoding import BOS, EOS, build, every_output, fed_to, random_source, start_uncached, textbook_score

pytestmark = pytest.mark.slow

RULES = Rules(BOS, EOS, max_length=8)
SEEDS = st.integers(0, 10_000)
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def same(one: list[Hypothesis], other: list[Hypothesis]) -> None:
    assert [h.ids for h in one] == [h.ids for h in other]
    np.testing.assert_allclose([h.score for h in one], [h.score for h in other], rtol=1e-9)


@st.composite
def constraints(draw, rows: int, vocabulary: int = 9) -> Rules:
    """Draw rules of every kind for `rows` sentences, with prefixes of different lengths."""
    tokens = st.integers(4, vocabulary - 1)
    return Rules(
        BOS,
        EOS,
        prefix=[draw(st.lists(tokens, max_size=3)) for _ in range(rows)],
        min_length=draw(st.integers(0, 4)),
        max_length=draw(st.integers(4, 8)),
        repetition_penalty=draw(st.sampled_from([1.0, 1.5, 0.7])),
        no_repeat_ngram=draw(st.sampled_from([0, 1, 2, 3])),
        forbidden=draw(st.sampled_from([(), (0, 1)])),
    )


def alone(rules: Rules, row: int) -> Rules:
    assert rules.prefix is not None
    return Rules(**{**vars(rules), "prefix": [rules.prefix[row]]})


@settings(max_examples=12)
@given(data=st.data(), seed=SEEDS, lengths=LENGTHS)
def test_a_batch_equals_single_sentences_and_the_cache_changes_nothing(data, seed: int, lengths: list[int]) -> None:
    model, rng = build(seed, layers=2), np.random.default_rng(seed)
    source = random_source(rng, lengths)
    rules = data.draw(constraints(len(lengths)))
    greedy = greedy_search(model.start(source), rules)
    same(greedy, greedy_search(start_uncached(model, source), rules))
    beams = beam_search(model.start(source), rules, width=3, n_best=2)
    for row, length in enumerate(lengths):
        one, own = source[row : row + 1, :length], alone(rules, row)
        same(greedy_search(model.start(one), own), greedy[row : row + 1])
        same(beam_search(model.start(one), own, width=3, n_best=2)[0], beams[row])
        same(beam_search(start_uncached(model, one), own, width=3, n_best=2)[0], beams[row])
        same(beam_search(model.start(one), own, width=1, alpha=0.0)[0], greedy[row : row + 1])
        for alpha in (-1.0, 0.6, 3.0):
            assert beam_search(model.start(one), own, width=1, alpha=alpha)[0][0].ids == greedy[row].ids


@settings(max_examples=10)
@given(data=st.data(), seed=SEEDS, alpha=st.sampled_from([0.0, 0.6, 1.5, -0.5]), beta=st.sampled_from([0.0, 0.2]))
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(data, seed: int, alpha: float, beta: float) -> None:
    """With every rule and penalty, the search agrees with an exhaustive search by the definitions."""
    model = build(seed, vocabulary=6)
    source = random_source(np.random.default_rng(seed), [3], 6)
    drawn = data.draw(constraints(1, vocabulary=6))
    rules = Rules(**{**vars(drawn), "min_length": min(drawn.min_length, 3), "max_length": 3})
    prefix = list(rules.prefix[0])  # type: ignore[index]
    scores = []
    for ids, ended in every_output(6, prefix, 3):
        total, attended = textbook_score(model, source, ids, ended, rules, len(prefix))
        if total > -np.inf:
            length = len(ids) - len(prefix) + ended
            scores.append(total / length_penalty(length, alpha) + float(coverage_penalty(attended, beta)))
    state = model.start(source, keep_attention=beta > 0)
    found = beam_search(state, rules, width=216, alpha=alpha, coverage=beta, n_best=5)[0]
    if scores:  # small vocabularies run out of n-grams
        np.testing.assert_allclose([h.score for h in found], sorted(scores, reverse=True)[:5], rtol=1e-9)


@given(seed=SEEDS, width=st.integers(2, 5), alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_n_best_are_distinct_sorted_and_truly_scored(seed: int, width: int, alpha: float) -> None:
    model, source = build(seed), np.array([[4, 6, 8]])
    rules = Rules(BOS, EOS, max_length=6)
    found = beam_search(model.start(source), rules, width=width, alpha=alpha, n_best=width)[0]
    assert len(found) == width == len({tuple(h.ids) for h in found})
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for h in found:
        ended = len(h.ids) < 6
        total = textbook_score(model, source, h.ids, ended, rules)[0]
        assert h.score == pytest.approx(total / length_penalty(len(h.ids) + ended, alpha), rel=1e-9)


def test_the_search_stops_when_no_hypothesis_can_still_win() -> None:
    """If <eos> is almost certain, no other hypothesis can catch up, so the search takes n_best steps."""
    model = build(0)
    model.output.bias.data[EOS] = 30.0
    for n_best, expected in ((1, 1), (2, 2)):
        state = model.start(np.array([[4, 5, 6]]))
        fed = fed_to(state)
        found = beam_search(state, Rules(BOS, EOS, max_length=40), width=4, alpha=0.0, n_best=n_best)[0]
        assert (found[0].ids, len(fed)) == ([], expected)


@given(seed=SEEDS)
def test_stopping_early_changes_no_result(seed: int) -> None:
    """A wider n-best list makes the search run longer; the best results stay the same."""
    model, source = build(seed), random_source(np.random.default_rng(seed), [4, 2])
    for alpha in (0.0, 1.0, -0.5):
        long = beam_search(model.start(source), RULES, width=4, alpha=alpha, n_best=4)
        short = beam_search(model.start(source), RULES, width=4, alpha=alpha)
        same([h[0] for h in short], [h[0] for h in long])


def test_the_models_end_their_sequences_at_different_times() -> None:
    """Of the outputs of random models, some are empty, some end with <eos>, and some reach the limit."""
    lengths = [len(greedy_search(build(s).start(np.array([[4, 5, 6]])), RULES)[0].ids) for s in range(100)]
    assert min(np.mean(np.array(lengths) == length) for length in (0, 8)) > 0.1
    assert len(set(lengths)) > 5


def test_finished_sentences_leave_the_batch() -> None:
    model = build(0, layers=2)
    state = model.start(random_source(np.random.default_rng(0), [2, 6, 4, 5]))
    fed = fed_to(state)
    lengths = sorted(len(h.ids) for h in greedy_search(state, Rules(BOS, EOS, max_length=20)))
    assert len(set(lengths)) > 1
    assert list(map(len, fed)) == [sum(length >= step for length in lengths) for step in range(len(fed))]


def test_the_prefix_that_all_have_is_fed_at_once() -> None:
    model = build(0)
    for bos, prefix, chunk in ((BOS, [[5, 6, 7], [5, 6, 8, 4]], 4), (None, [[5, 6, 7]] * 2, 3), (BOS, [[], [5]], 1)):
        state = model.start(np.array([[4, 5], [6, 7]]))
        fed = fed_to(state)
        greedy_search(state, Rules(bos, EOS, prefix=prefix, max_length=2))
        assert fed[0].shape[1] == chunk
        assert {ids.shape[1] for ids in fed[1:]} == {1}


def test_the_models_positions_limit_the_length() -> None:
    model = build(0)
    model.output.bias.data[EOS] = -1e4  # never generates <eos>
    assert len(greedy_search(model.start(np.full((1, 30), 5)), Rules(BOS, EOS))[0].ids) == 40
    assert len(greedy_search(model.start(np.full((1, 2), 5)), Rules(BOS, EOS))[0].ids) == 14
    prompt = Rules(BOS, EOS, prefix=[[4] * 38])
    assert len(greedy_search(model.start(np.full((1, 2), 5)), prompt)[0].ids) == 40
    for search in (greedy_search, lambda *inputs: beam_search(*inputs)[0]):
        assert len(search(model.start(np.full((1, 2), 5)), Rules(BOS, EOS, max_length=3))[0].ids) == 3
        with pytest.raises(ValueError, match="a prefix of 40 tokens leaves no room for new ones"):
            search(model.start(np.full((1, 2), 5)), Rules(BOS, EOS, prefix=[[4] * 40]))


def test_numbers_out_of_range_are_named() -> None:
    model = build(0)
    state = model.start(np.array([[4]]))
    for width, n_best in ((2, 3), (0, 1), (2, 0)):
        with pytest.raises(ValueError, match=f"n_best = {n_best} must be between 1 and the beam's width = {width}"):
            beam_search(state, RULES, width=width, n_best=n_best)
    for said, call in (
        ("needs cross-attention", lambda: beam_search(state, RULES, coverage=0.1)),
        ("coverage is -1, but it must be a number from 0 on", lambda: beam_search(state, RULES, coverage=-1)),
        ("got 2 prefixes for a state of 1 seq", lambda: greedy_search(state, Rules(BOS, EOS, prefix=[[4], [5]]))),
        ("without bos_id every sequence needs a prefix", lambda: greedy_search(state, Rules(None, EOS))),
        ("min_length is 4, but it must be at most max_length = 3", lambda: Rules(BOS, EOS, max_length=3, min_length=4)),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(TypeError, match="prefix ids must be integers, not float64"):
        greedy_search(state, Rules(BOS, EOS, prefix=[[4.5]]))


def test_an_empty_batch_gives_nothing() -> None:
    model = build(0)
    assert greedy_search(model.start(np.zeros((0, 3), int)), RULES) == []
    assert beam_search(model.start(np.zeros((0, 3), int)), RULES) == []


def test_penalties_are_gnmts() -> None:
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(100, 0.0) == 1
    assert coverage_penalty(np.array([1.0, 2.0, np.exp(-1)]), 0.5) == pytest.approx(-0.5)
