"""Rules that are functions, and generation with any function from ids to logits."""

import itertools
from typing import Any

import numpy as np
import pytest

from handloom import models, nn
from handloom.autograd import Tensor, manual_seed
from handloom.models import Rules, Strategy, beam_search, generate, greedy_search, sample, stream
from handloom.models.generation import by_consensus
from tests.support.decoding import BOS, EOS, build, random_source, start_uncached

SOURCE = random_source(np.random.default_rng(1), [4, 2, 5])


def banning(*tokens: int) -> Any:
    """Return the rule that bans tokens, as `Rules.forbidden` does, and fails for ids that are not those so far."""

    def ban(ids: np.ndarray, log_p: Any) -> Any:
        assert (ids[:, 0] == BOS).all()
        assert len(ids) == len(log_p)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)
        log_p[:, list(tokens)] = -np.inf
        return log_p

    return ban


def no_pair_twice(ids: np.ndarray, log_p: Any) -> Any:
    """Ban a token that would repeat a pair, as no_repeat_ngram=2 does."""
    for row, so_far in enumerate(ids):
        pairs = {*itertools.pairwise(so_far)}
        log_p[row, [token for token in range(log_p.shape[1]) if (so_far[-1], token) in pairs]] = -np.inf
    return log_p


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("function", "built_in"), [(banning(5, 6), {"forbidden": (5, 6)}), (no_pair_twice, {"no_repeat_ngram": 2})]
)
def test_a_function_does_what_the_built_in_rule_does(function: Any, built_in: dict[str, Any], cached: bool) -> None:
    model = build(3, layers=2)
    own, theirs = Rules(BOS, EOS, max_length=8, functions=(function,)), Rules(BOS, EOS, max_length=8, **built_in)

    def start() -> Any:
        return model.start(SOURCE, decoder=model.raw_decoder()) if cached else start_uncached(model, SOURCE)

    def close(found: Any, wanted: Any) -> None:
        assert [one.ids for one in found] == [one.ids for one in wanted]
        np.testing.assert_allclose([one.score for one in found], [one.score for one in wanted], rtol=1e-9)

    close(greedy_search(start(), own), greedy_search(start(), theirs))
    assert [x.ids for x in greedy_search(start(), own, scores=False)] == [x.ids for x in greedy_search(start(), own)]
    close(sample(start(), own, seed=2), sample(start(), theirs, seed=2))
    for found, wanted in zip(*(beam_search(start(), rules, width=3, n_best=3) for rules in (own, theirs)), strict=True):
        close(found, wanted)
    one = [model.start(SOURCE[:1]) for _ in range(2)]
    assert list(stream(one[0], own)) == list(stream(one[1], theirs))
    strategy = Strategy(consensus=4, rules=Rules(max_length=8)).with_rules(function)
    drawn = strategy.generate(start(), bos_id=BOS, eos_id=EOS)
    plain = Strategy(consensus=4, rules=Rules(max_length=8, **built_in)).generate(start(), bos_id=BOS, eos_id=EOS)
    assert [x[0].ids for x in drawn] == [x[0].ids for x in plain]
    assert by_consensus(drawn[0])


def test_the_screen_that_skips_logits_is_not_used_with_a_function() -> None:
    assert Rules(functions=(no_pair_twice,)).ruled_out is None


def test_a_rule_that_returns_something_else_is_named() -> None:
    model = build(3)
    for wrong, said in ((lambda ids, log_p: None, "None"), (lambda ids, log_p: log_p[:, 1:], r"\(3, 8\)")):
        with pytest.raises(ValueError, match=rf"the rule <lambda> must return log-probabilities \(3, 9\), not {said}"):
            greedy_search(model.start(SOURCE), Rules(BOS, EOS, max_length=4, functions=(wrong,)))
    for wrong in (("no",), "no", 3):
        with pytest.raises(TypeError, match="a rule must be a function of ids and log-probabilities, not"):
            Rules(functions=wrong)
    with pytest.raises(TypeError, match="ids is one with 1 at index 0, but it must be a list of lists"):
        generate(successor, [1, 2], 3)
    with pytest.raises(TypeError, match="model is 'model', but it must be a function"):
        generate("model", [[1, 2]], 3)
    with pytest.raises(ValueError, match="n_best=2 has no effect"):
        generate(successor, [[1, 2]], 3, strategy=Strategy(beam=2, n_best=2))


def successor(ids: np.ndarray) -> np.ndarray:
    """Return logits that prefer the token after the last one."""
    return 5 * np.eye(10)[(ids + 1) % 10]


def test_any_function_from_ids_to_logits_generates() -> None:
    assert generate(successor, [[3], [6, 7]], 3) == [[3, 4, 5, 6], [6, 7, 8, 9, 0]]
    assert generate(lambda ids: Tensor(successor(ids)), [[3]], 9, eos_id=6) == [[3, 4, 5]]
    assert generate(successor, [[3]], 3, strategy=Strategy(beam=4)) == [[3, 4, 5, 6]]
    assert len(generate(successor, [[3]], 3, strategy=Strategy(sampling=True))[0]) == 4
    assert generate(successor, [[3]], 3, rules=lambda ids, log_p: np.where(np.arange(10) == 4, -np.inf, log_p)) != [
        [3, 4, 5, 6]
    ]
    seen: list[int] = []
    generate(lambda ids: (seen.append(ids.shape[1]), successor(ids))[1], [[1, 2, 3, 4]], 3, context=2)
    assert seen == [2, 2, 2]
    with pytest.raises(ValueError, match=r"must return logits \(rows, length, vocab_size\) .*, not \(1, 10\)"):
        generate(lambda ids: successor(ids)[:, -1], [[3]], 3)
    with pytest.raises(ValueError, match="every sequence needs a prefix"):
        generate(successor, [[]], 3)


def test_models_generate_in_evaluation_mode_and_keep_their_modes() -> None:
    manual_seed(0)
    model = models.LanguageModel(models.LanguageModelConfig(10, 8, 2, layers=1, dim_feedforward=8, dropout=0.5))
    chain = nn.Sequential(nn.Embedding(10, 8), nn.Dropout(0.5), nn.Linear(8, 10))
    for one in (model, chain):
        one.train()
        assert generate(one, [[3], [4, 5]], 5) == generate(one, [[3], [4, 5]], 5)
        assert all(module.training for module in one.modules())
    assert generate(model, [[3]], 5) == generate(lambda ids: model.eval()(ids), [[3]], 5)
