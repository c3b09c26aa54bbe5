"""Chapter 11, the exercises: greedy search, a trap for it, the score of a sentence, and beam search."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...models.generation.beam import beam_search as search_with_beam
from ...models.generation.decoding import Uncached
from ...models.generation.greedy import greedy_search
from ...models.generation.penalties import length_penalty
from ...models.generation.rules import Rules
from ..exercise import Wrong, need
from .c11_beam_solution import beam_search, from_table, greedy, trap

BOS, EOS = 0, 1


Model = Callable[[list[int]], np.ndarray]


def model(seed: int, words: int = 5) -> Model:
    """Return a model with random log-probabilities that depend on the last two words."""
    logits = 1.5 * np.random.default_rng(seed).standard_normal((words, words, words))
    logits[:, :, BOS] -= 9
    log_p = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    return begun(lambda ids: log_p[ids[-2] if len(ids) > 1 else BOS, ids[-1]])


def begun(next_log_p: Model) -> Model:
    """Return a model that raises Wrong unless the ids begin with bos."""

    def checked(ids: Any) -> np.ndarray:
        if list(ids[:1]) != [BOS]:
            raise Wrong(f"The model got the words {list(map(int, ids))}. It needs all words so far, with bos in front.")
        return next_log_p(ids)

    return checked


def found(answer: Any, what: str) -> tuple[list[int], float]:
    ids, value = need(answer, tuple, what)
    return list(ids), float(value)


def state(next_log_p: Model) -> Uncached:
    return Uncached(lambda ids, origin: np.stack([next_log_p(row) for row in ids.tolist()]), 1)


def probe_greedy(greedy: Any) -> dict[str, Any]:
    ends, (cut, cut_value) = model(26), found(greedy(model(26), BOS, EOS, 2), "greedy(...)")
    ids, value = found(greedy(ends, BOS, EOS, 12), "greedy(...)")
    return {
        "the words, up to a limit of 2": cut,
        "their log-probability": cut_value,
        "the words, up to eos": ids,
        "the log-probability of the whole sentence": value,
    }


def real_greedy(next_log_p, bos, eos, limit):
    (hypothesis,) = greedy_search(state(next_log_p), Rules(bos, eos, max_length=limit))
    return hypothesis.ids, hypothesis.score


def probe_trap(trap: Any) -> dict[str, Any]:
    table = np.asarray(trap(), dtype=float)
    if table.shape != (4, 4):
        raise Wrong(f"The table has the shape {table.shape}. It should have 4 rows and 4 columns.")
    right = bool(((table >= 0) & (table <= 1)).all())
    each = table[[0, 2, 3]].sum(axis=1) if right else np.zeros(3)
    sums = bool(np.allclose(each, 1))
    lost, half = False, False
    if sums:
        with np.errstate(divide="ignore"):
            _, mine = greedy(from_table(table), BOS, EOS, 6)
            _, best = beam_search(from_table(table), BOS, EOS, 4**6, 6)
        lost, half = bool(best > mine + 1e-9), bool(best > mine + np.log(2))
    return {
        "the table contains probabilities": right,
        "the sums of the rows of the words 0, 2 and 3": each,
        "greedy search misses the most probable sentence": lost,
        "the sentence of greedy search is less than half as probable": half,
    }


def real_trap():
    """Return a table in which eos is certain after word 3, and uncertain after word 2."""
    return np.array([[0, 0, 0.51, 0.49], [1, 0, 0, 0], [0, 0.34, 0.33, 0.33], [0, 1, 0, 0]])


def probe_score(score: Any) -> dict[str, Any]:
    return {
        "the score without a penalty (alpha 0)": score(-4.0, 7, 0.0),
        "the score of one word (the penalty is 1)": score(-4.0, 1, 0.6),
        "the scores of 7 and of 13 words": np.array([score(-4.0, length, 0.6) for length in (7, 13)]),
    }


def real_score(log_p: float, length: int, alpha: float) -> float:
    return log_p / length_penalty(length, alpha)


def probe_extended(extended: Any) -> dict[str, Any]:
    def ids_and_values(sentences: Any) -> tuple[list[list[int]], np.ndarray]:
        longer = need(extended(sentences, model(5, 4), BOS), list, "extended(...)")
        return [list(ids) for _, ids in longer], np.array([value for value, _ in longer])

    first, two = ids_and_values([(0.0, [])]), ids_and_values([(-0.5, [2]), (-1.0, [3])])
    return {
        "the sentences of one word, best first": first[0],
        "their log-probabilities": first[1],
        "the continuations of two sentences, best first": two[0],
        "the log-probabilities of these continuations": two[1],
    }


def real_extended(sentences, next_log_p, bos):
    totals = np.array([[total] for total, _ in sentences]) + np.stack([next_log_p([bos, *ids]) for _, ids in sentences])
    order = np.argsort(-totals, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, totals.shape), strict=True)
    return [(totals[i, word], [*sentences[i][1], int(word)]) for i, word in places]


def probe_beam_search(beam_search: Any) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for text, options in {
        "with the trap, width 2": (begun(from_table(trap() + 1e-30)), 2, 6, 0.0),
        "with width 1": (model(10), 1, 6, 0.0),
        "with width 2": (model(31), 2, 6, 0.0),
        "with width 2 and a limit of 4": (model(18), 2, 4, 0.0),
        "with width 2 and a limit of 5": (model(35), 2, 5, 0.0),
        "with width 3 and alpha 1": (model(33), 3, 8, 1.0),
        "with width 4 and alpha 0.6": (model(2), 4, 6, 0.6),
        "where an ending among the first 3 leaves room for 3": (model(455), 3, 8, 1.0),
    }.items():
        next_log_p, width, limit, alpha = options
        ids, value = found(beam_search(next_log_p, BOS, EOS, width, limit, alpha), "beam_search(...)")
        results[f"the words {text}"], results[f"the score {text}"] = ids, value
    return results


def real_beam_search(next_log_p, bos, eos, width, limit, alpha=0.0):
    rules = Rules(bos, eos, max_length=limit)
    ((hypothesis,),) = search_with_beam(state(next_log_p), rules, width=width, alpha=alpha)
    return hypothesis.ids, hypothesis.score
