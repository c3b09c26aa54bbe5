"""Options of the searches from `transformers`: lengths, the end of a sentence, forced and suppressed tokens.

That they are equal to theirs is compared in tests/models/pretrained.
"""

from __future__ import annotations

import numpy as np
import pytest

from handloom.models import Rules, Strategy, beam_search, greedy_search
from handloom.models.generation import Uncached

TABLE = np.log(np.array([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.4, 0.35, 0.25]]))  # of the next token, by the last


def start(rows: int = 1) -> Uncached:
    return Uncached(lambda ids, origin: TABLE[ids[:, -1]].copy(), rows)


def test_the_last_token_is_forced_and_others_are_suppressed() -> None:
    rules = Rules(None, None, [[1], [1, 2]], max_length=3, forced_last=2, forbidden=(0,))
    for found in (greedy_search(start(2), rules), [row[0] for row in beam_search(start(2), rules, width=2)]):
        assert [one.ids[-1] for one in found] == [2, 2]
        assert all(0 not in one.ids for one in found)
    one = greedy_search(start(), Rules(None, None, [[1]], max_length=2, forced_last=0))[0]
    assert one.ids == [1, 2, 0]
    np.testing.assert_allclose(one.score, TABLE[1, 2])  # a forced token costs nothing


def test_a_strategy_forbids_its_own_tokens_and_those_of_the_call() -> None:
    strategy = Strategy(beam=1, rules=Rules(max_length=4, forbidden=(2,)))
    (row,) = strategy.generate(start(), bos_id=None, eos_id=None, prefix=[[1]], forbidden=(0,))
    assert row[0].ids == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "match"),
    [({"length_norm": "root"}, "length_norm 'root'"), ({"early_stopping": "soon"}, "early_stopping = 'soon'")],
)
def test_unknown_options_are_refused(options, match) -> None:
    with pytest.raises(ValueError, match=match):
        beam_search(start(), Rules(1, 0), **options)
    with pytest.raises(ValueError, match="penalise is 'ids', but it must be one of logits"):
        Rules(1, 0, penalise="ids")
