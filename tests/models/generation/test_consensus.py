"""Test minimum Bayes risk decoding: lengths of common subsequences by the definition, and the chosen sequences."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.models import Hypothesis, Rules, Strategy
from handloom.models.generation.consensus import by_consensus, common_lengths
from tests.support.decoding import BOS, EOS, build, random_source

IDS = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5)


@given(IDS)
def test_common_lengths_are_those_of_the_longest_subsequence_of_both(sequences: list[list[int]]) -> None:
    parts = [{part for n in range(len(one) + 1) for part in itertools.combinations(one, n)} for one in sequences]
    expected = [[max(map(len, a & b)) for b in parts] for a in parts]
    np.testing.assert_array_equal(common_lengths(sequences), expected)


def test_the_sequence_most_like_the_others_comes_first_and_none_twice() -> None:
    drawn = [Hypothesis(ids, -1.0) for ids in ([8, 9, 9], [4, 5, 6], [4, 5, 6, 7], [4, 6], [4, 5, 6])]
    found = by_consensus(drawn)
    assert [one.ids for one in found] == [[4, 5, 6], [4, 5, 6, 7], [4, 6], [8, 9, 9]]
    assert found[0].score == pytest.approx((0 + 1 + 6 / 7 + 4 / 5) / 4)
    parity = by_consensus(drawn, lambda ids: [id % 2 == 0 for id in ids])
    assert parity[0].ids == [4, 5, 6], "even, odd, even occurs twice, and a third sequence begins with it"
    assert by_consensus([Hypothesis([], 0.0), Hypothesis([], 0.0)]) == [Hypothesis([], 1.0)]
    assert by_consensus([Hypothesis([4], 0.0)]) == [Hypothesis([4], 0.0)]


def test_a_strategy_chooses_among_what_it_would_draw() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    options: dict[str, Any] = {"temperature": 2.0, "rules": Rules(max_length=6), "seed": 3}
    drawn = Strategy(sampling=True, n_best=20, **options).generate(model.start(source), bos_id=BOS, eos_id=EOS)
    strategy = Strategy(consensus=20, n_best=2, **options)
    found = strategy.generate(model.start(source), bos_id=BOS, eos_id=EOS)
    assert [[h.ids for h in two] for two in found] == [[h.ids for h in by_consensus(all_)[:2]] for all_ in drawn]
    assert (strategy.name, strategy.width) == ("consensus of 20", 20)
