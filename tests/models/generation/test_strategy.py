"""Test that Strategy passes all options to the searches; test lengths, forced tokens and suppressed tokens."""

import math

import numpy as np
import pytest

from handloom.models import Rules, Strategy, beam_search, greedy_search
from handloom.models.generation import Uncached
from tests.support.decoding import BOS, EOS, build, random_source

SPECIAL = {"bos_id": BOS, "eos_id": EOS}


def test_a_strategy_is_the_search_it_names() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    rules = Rules(BOS, EOS, max_length=6, repetition_penalty=1.3)
    own = Rules(max_length=6, repetition_penalty=1.3)
    greedy = Strategy(beam=1, rules=own).generate(model.start(source), **SPECIAL)
    assert greedy == [[h] for h in greedy_search(model.start(source), rules)]
    beam = Strategy(beam=4, alpha=0.3, n_best=2, rules=own).generate(model.start(source), **SPECIAL)
    assert beam == beam_search(model.start(source), rules, width=4, alpha=0.3, n_best=2)


def test_draws_depend_on_seed_number_and_draw_alone() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    strategy = Strategy(sampling=True, n_best=5, temperature=4.0, rules=Rules(max_length=6))
    together = strategy.generate(model.start(source), numbers=[7, 8], **SPECIAL)
    alone = strategy.generate(model.start(source[1:]), numbers=[8], **SPECIAL)[0]
    assert [h.ids for h in together[1]] == [h.ids for h in alone]
    assert len({tuple(h.ids) for h in together[0]}) > 1
    for found in together:
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


NUMBERS = [name for kind in (Strategy, Rules) for name, one in vars(kind()).items() if type(one) in (int, float)]


@pytest.mark.parametrize("name", [*NUMBERS, "max_length", "max_total", "forced_last", "bos_id", "eos_id"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -101, -math.inf, "3", True, [1]])
def test_a_number_out_of_its_bounds_is_named(name, value) -> None:
    kind = Strategy if hasattr(Strategy, name) else Rules
    with pytest.raises(ValueError, match=rf"^{name} is .*, but it must be a (whole )?number "):
        kind(**{name: value})


@pytest.mark.parametrize("name", ["forbidden", "stop"])
@pytest.mark.parametrize("value", [(-1,), (1, math.nan), 3, (True,)])
def test_tokens_that_are_none_are_refused(name, value) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is .* each of them a whole number"):
        Rules(**{name: value})


@pytest.mark.parametrize("rules", [Rules(forbidden=(99,)), Rules(forced_last=99), Rules(stop=(99,)), Rules(eos_id=99)])
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 50, "alpha": 100.0}, {"sampling": True}])
def test_a_rule_about_a_token_that_the_model_lacks_is_refused(rules, options) -> None:
    model = build(1)
    start, ids = model.start(np.array([[4, 5]])), {"bos_id": BOS, "eos_id": rules.eos_id or EOS}
    with pytest.raises(ValueError, match=rf"token 99, but the model has only {model.config.target_vocab_size} tokens"):
        Strategy(**options, rules=rules).generate(start, **ids, scores=False)
    with pytest.raises(ValueError, match="got 2 numbers for 1 sequences"):
        Strategy(**options).generate(start, **SPECIAL, numbers=[3, 4])
    Strategy(**options).generate(model.start(np.array([[4, 5]])), **SPECIAL)


def test_scores_can_be_left_out() -> None:
    model, source = build(1), random_source(np.random.default_rng(0), [3, 5])
    rules = Rules(BOS, EOS, max_length=6)
    with_scores, without = (greedy_search(model.start(source), rules, scores=scores) for scores in (True, False))
    assert [h.ids for h in with_scores] == [h.ids for h in without]
    assert np.isnan([h.score for h in without]).all()


# Options of `transformers` for searches; tests/models/pretrained compares the results with `transformers`.

TABLE = np.log(np.array([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.4, 0.35, 0.25]]))  # row: last token, column: next token


def start(rows: int = 1) -> Uncached:
    return Uncached(lambda ids, origin: TABLE[ids[:, -1]].copy(), rows)


def test_the_last_token_is_forced_and_others_are_suppressed() -> None:
    rules = Rules(None, None, [[1], [1, 2]], max_length=3, forced_last=2, forbidden=(0,))
    for found in (greedy_search(start(2), rules), [row[0] for row in beam_search(start(2), rules, width=2)]):
        assert [one.ids[-1] for one in found] == [2, 2]
        assert all(0 not in one.ids for one in found)
    one = greedy_search(start(), Rules(None, None, [[1]], max_length=2, forced_last=0))[0]
    assert one.ids == [1, 2, 0]
    np.testing.assert_allclose(one.score, TABLE[1, 2])  # a forced token does not change the score


def test_a_strategy_forbids_the_tokens_of_its_rules() -> None:
    strategy = Strategy(beam=1, rules=Rules(max_length=4, forbidden=(0, 2)))
    (row,) = strategy.generate(start(), bos_id=None, eos_id=None, prefix=[[1]])
    assert row[0].ids == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length_norm": "root"}, "length_norm is 'root', but it must be one of 'wu'"),
        ({"early_stopping": "soon"}, "early_stopping is 'soon', but"),
    ],
)
def test_unknown_options_are_refused(options, match) -> None:
    with pytest.raises(ValueError, match=match):
        beam_search(start(), Rules(1, 0), **options)
    with pytest.raises(ValueError, match="penalise is 'ids', but it must be one of logits"):
        Rules(1, 0, penalise="ids")
