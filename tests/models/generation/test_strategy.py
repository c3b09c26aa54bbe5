"""One object for all options: it calls the searches unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.models import Rules, Strategy, beam_search, greedy_search
from tests.support.decoding import BOS, EOS, build, random_source

SPECIAL = {"bos_id": BOS, "eos_id": EOS}


def test_a_strategy_is_the_search_it_names() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    rules = Rules(BOS, EOS, max_length=6, repetition_penalty=1.3)
    more = {"max_length": 6, "repetition_penalty": 1.3}
    greedy = Strategy(beam=1, **more).generate(model.start(source), **SPECIAL)
    assert greedy == [[h] for h in greedy_search(model.start(source), rules)]
    beam = Strategy(beam=4, alpha=0.3, n_best=2, **more).generate(model.start(source), **SPECIAL)
    assert beam == beam_search(model.start(source), rules, width=4, alpha=0.3, n_best=2)


def test_draws_depend_on_seed_number_and_draw_alone() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    strategy = Strategy(sampling=True, n_best=5, temperature=4.0, max_length=6)
    together = strategy.generate(model.start(source), numbers=[7, 8], **SPECIAL)
    alone = strategy.generate(model.start(source[1:]), numbers=[8], **SPECIAL)[0]
    assert [h.ids for h in together[1]] == [h.ids for h in alone]
    assert len({tuple(h.ids) for h in together[0]}) > 1
    for found in together:
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    with pytest.raises(ValueError, match="n_best = 0 must be at least 1"):
        Strategy(sampling=True, n_best=0).generate(model.start(source), **SPECIAL)


def test_scores_can_be_left_out() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    rules = Rules(BOS, EOS, max_length=6)
    with_scores, without = (greedy_search(model.start(source), rules, scores=scores) for scores in (True, False))
    assert [h.ids for h in with_scores] == [h.ids for h in without]
    assert np.isnan([h.score for h in without]).all()


def test_names_for_tables() -> None:
    made = Strategy(), Strategy(beam=1), Strategy(sampling=True)
    assert [strategy.name for strategy in made] == ["beam 5", "greedy", "sampling"]
