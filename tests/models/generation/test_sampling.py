"""Test sampling: frequencies match the distribution, and the seed determines the draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.models import Rules, Sampler, beam_search, greedy_search, sample, stream
from handloom.models.generation.greedy import decode, likeliest
from tests.support.decoding import BOS, EOS, build, fed_to, log_probabilities, random_source, start_uncached

RULES = Rules(BOS, EOS, max_length=8)


def exact(log_p: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Return the distribution of the draws, computed by the definition."""
    p = np.exp(log_p / temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_k:
        p[order[top_k:]] = 0
        p /= p.sum()
    mass = 0.0
    for token in order:
        if mass >= top_p:
            p[token] = 0
        mass += p[token]
    return p / p.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.7, 0, 1.0), (2.0, 4, 1.0), (1.0, 0, 0.8), (1.5, 0, 0.95), (1.0, 5, 0.7), (1.0, 1, 1.0)],
)
def test_frequencies_are_those_of_the_exact_distribution(temperature: float, top_k: int, top_p: float) -> None:
    """Draw the second token 4,000 times after a prefix; apply a chi-square test at the 99.9 % quantile."""
    stats = pytest.importorskip("scipy.stats", reason="the chi-square quantile is scipy's")
    model, source = build(5, vocabulary=12), np.array([[4, 9, 6]])
    p = exact(log_probabilities(model, source, [7]), temperature, top_k, top_p)
    draws = 4000
    rules = Rules(BOS, None, prefix=[[7]] * draws, max_length=1)
    state = model.start(np.tile(source, (draws, 1)))
    found = sample(state, rules, temperature=temperature, top_k=top_k, top_p=top_p, seed=1)
    counts = np.bincount([h.ids[1] for h in found], minlength=12)
    assert not counts[p == 0].any()
    expected = draws * p[p > 0]
    statistic = ((counts[p > 0] - expected) ** 2 / expected).sum()
    assert statistic <= stats.chi2.ppf(0.999, max(len(expected) - 1, 1))


@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_batch_equals_single_sequences(seed: int, lengths: list[int]) -> None:
    """The random numbers of a sequence do not depend on the other sequences of the batch or their prefixes."""
    model, rng = build(seed), np.random.default_rng(seed)
    source = random_source(rng, lengths)
    seeds = rng.integers(0, 1000, len(lengths)).tolist()
    prefix = [rng.integers(4, 9, rng.integers(0, 3)).tolist() for _ in lengths]
    options = {"temperature": 1.3, "top_p": 0.9}
    rules = Rules(BOS, EOS, prefix=prefix, max_length=8)
    found = sample(model.start(source), rules, seed=seeds, **options)
    uncached = sample(start_uncached(model, source), rules, seed=seeds, **options)
    for row, length in enumerate(lengths):
        own = Rules(BOS, EOS, prefix=[prefix[row]], max_length=8)
        one = sample(model.start(source[row : row + 1, :length]), own, seed=[seeds[row]], **options)[0]
        assert one.ids == found[row].ids == uncached[row].ids
        assert one.score == pytest.approx(found[row].score, rel=1e-9)


@given(seed=st.integers(0, 1000))
def test_temperature_zero_and_near_zero_are_greedy(seed: int) -> None:
    model, source = build(seed), random_source(np.random.default_rng(seed), [3, 5])
    greedy = greedy_search(model.start(source), RULES)
    for options in ({"temperature": 0.0}, {"temperature": 1e-6}, {"top_k": 1}, {"top_p": 1e-9}):
        found = sample(model.start(source), RULES, **options)
        assert [h.ids for h in found] == [h.ids for h in greedy]
        np.testing.assert_allclose([h.score for h in found], [h.score for h in greedy], rtol=1e-9)


def test_the_seed_decides() -> None:
    model, source = build(3), np.tile([[4, 5, 6]], (20, 1))
    one, again, other = (sample(model.start(source), RULES, seed=seed) for seed in (0, 0, 1))
    assert one == again
    assert one != other
    assert len({tuple(h.ids) for h in one}) > 5


def test_a_stream_gives_the_tokens_of_a_search() -> None:
    model, source = build(6), np.array([[4, 5, 8]])
    rules = Rules(BOS, EOS, prefix=[[5, 6]], max_length=8)
    assert list(stream(model.start(source), rules)) == greedy_search(model.start(source), rules)[0].ids
    drawn = sample(model.start(source), rules, temperature=1.5, seed=3)[0].ids
    assert list(stream(model.start(source), rules, Sampler(temperature=1.5, seed=3))) == drawn
    with pytest.raises(ValueError, match="a stream generates one sequence, but the state has 2 rows"):
        stream(model.start(np.tile(source, (2, 1))), rules)


def test_a_stream_does_no_work_ahead() -> None:
    state = build(6).start(np.array([[4, 5, 8]]))
    fed = fed_to(state)
    tokens = stream(state, Rules(BOS, None, max_length=8))
    assert not fed
    next(tokens)
    assert len(fed) == 1


@pytest.mark.parametrize("choose", [likeliest, Sampler(), Sampler(top_k=3), Sampler(top_p=0.9)])
@pytest.mark.parametrize("scores", [True, False])
def test_nan_is_an_error(choose, scores: bool) -> None:
    """NaN logits, as after diverged training, raise the same error in all searches."""
    model = build(0)
    model.output.bias.data[5] = np.nan
    with pytest.raises(ValueError, match="are NaN"):
        decode(model.start(np.array([[4, 5]])), RULES, choose, scores=scores)
    with pytest.raises(ValueError, match="are NaN"):
        beam_search(model.start(np.array([[4, 5]])), RULES, width=3)
