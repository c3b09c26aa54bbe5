"""Chapter 11, the exercises: greedy search, a trap for it, the score of a sentence, and beam search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...models.generation.beam import beam_search as search_with_beam
from ...models.generation.decoding import Uncached
from ...models.generation.greedy import greedy_search
from ...models.generation.penalties import length_penalty
from ...models.generation.rules import Rules
from ..exercise import Exercise, need
from .c11_beam_solution import beam_search, extended, from_table, greedy, score, trap

BOS, EOS = 0, 1


Model = Callable[[list[int]], np.ndarray]


def model(seed: int, words: int = 5) -> Model:
    """Return a model with random log-probabilities that depend on the last two words."""
    logits = 1.5 * np.random.default_rng(seed).standard_normal((words, words, words))
    logits[:, :, BOS] -= 9
    log_p = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    return lambda ids: log_p[ids[-2] if len(ids) > 1 else BOS, ids[-1]]


def found(answer: Any, what: str) -> tuple[list[int], float]:
    ids, value = need(answer, tuple, what)
    return list(ids), float(value)


def state(next_log_p: Model) -> Uncached:
    return Uncached(lambda ids, origin: np.stack([next_log_p(row) for row in ids.tolist()]), 1)


# -- greedy ------------------------------------------------------------------------------------------------------------


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


GREEDY = Exercise(
    greedy,
    probe_greedy,
    real_greedy,
    source="models.generation.greedy.decode",
    hints=(
        "Is the end of a sentence a choice like any other? So does it count in the sum, and is it one of the words?",
        "For the words 2, then eos, with probabilities 0.5 and 0.4: the ids are [2], and the sum is log 0.5 + log "
        "0.4 = -1.61.",
        "log_p = next_log_p([bos, *ids]); word = int(log_p.argmax()); total += log_p[word]; if word == eos: break; "
        "ids.append(word). Return ids, total.",
    ),
    changes="""
        The words are right, but the log-probability of eos is missing: to end the sentence is a choice like any other.
        - total += log_p[word]
        + total += log_p[word] * (word != eos)
        eos is among the words. It ends the sentence, but it is not one of its words.
        - break
        + ids.append(word)
        + break
        bos is among the words. It is only the beginning of the list that the model gets.
        - return ids, total
        + return [bos, *ids], total
        The search continues after eos. Words after the end have no meaning: stop at eos.
        - if word == eos:
        + if False:
        This is the probability. Return the log-probability, which is a sum of logarithms.
        - return ids, total
        + return ids, np.exp(total)
    """,
)


@GREEDY.right
def recursive(next_log_p, bos, eos, limit):
    def rest(ids, left):
        if not left:
            return [], 0.0
        log_p = next_log_p([bos, *ids])
        word = int(np.argsort(-log_p, kind="stable")[0])
        if word == eos:
            return [], log_p[eos]
        after, total = rest([*ids, word], left - 1)
        return [word, *after], total + log_p[word]

    return rest([], limit)


# -- trap --------------------------------------------------------------------------------------------------------------


def probe_trap(trap: Any) -> dict[str, Any]:
    table = np.asarray(trap(), dtype=float)
    right = table.shape == (4, 4) and bool(((table >= 0) & (table <= 1)).all())
    each = table[[0, 2, 3]].sum(axis=1) if right else np.zeros(3)
    sums = bool(np.allclose(each, 1))
    lost, half = False, False
    if sums:
        with np.errstate(divide="ignore"):
            _, mine = greedy(from_table(table), BOS, EOS, 6)
            _, best = beam_search(from_table(table), BOS, EOS, 4**6, 6)
        lost, half = bool(best > mine + 1e-9), bool(best > mine + np.log(2))
    return {
        "whether the table has the shape (4, 4) and holds probabilities": right,
        "the sums of the rows of the words 0, 2 and 3": each,
        "whether greedy misses the likeliest sentence": lost,
        "whether what greedy finds is less than half as likely": half,
    }


def real_trap():
    """Return a table in which eos is certain after word 3, and uncertain after word 2."""
    return np.array([[0, 0, 0.51, 0.49], [1, 0, 0, 0], [0, 0.34, 0.33, 0.33], [0, 1, 0, 0]])


TRAP = Exercise(
    trap,
    probe_trap,
    real_trap,
    source="models.generation.greedy.likeliest",
    hints=(
        "After which first word should the best way to go on be as bad as it can be: after the likelier one or the "
        "other?",
        "In the picture 0.55 leads to three ways of about 0.33, and 0.45 to an end with 0.98: 0.187 and 0.441.",
        "Row 0 = [0, 0, 0.55, 0.45]; row 3 = [0, 0.98, 0.01, 0.01]. In row 2 eos is the likeliest by a hair, and "
        "the row sums to 1.",
    ),
    changes="""
        Here the likeliest first word leads to the likeliest sentence, so greedy search is right. Make the second word
        that follows it uncertain.
        - 0.55, 0.45
        + 0.9, 0.1
        - 0.34, 0.33, 0.33
        + 0.8, 0.1, 0.1
        Greedy search does walk into the trap, but the sentence that it finds is more than half as likely as the best
        one. Bring the two first words closer together, or make what follows the wrong one less certain.
        - 0.34, 0.33, 0.33
        + 0.6, 0.2, 0.2
        - 0.98, 0.01, 0.01
        + 0.9, 0.05, 0.05
    """,
)


@TRAP.wrong
def columns_sum_to_one():
    """The columns sum to 1, but the rows should sum to 1: row a is for the words after word a."""
    return trap().T


@TRAP.wrong
def logarithms():
    """These are logarithms. The table should contain probabilities, which are from 0 to 1."""
    return np.log(trap() + 1e-9)


@TRAP.right
def another_trap():
    """A correct answer in which greedy search repeats two words, and eos is improbable at each step."""
    return np.array([[0, 0, 0.4, 0.6], [0, 1, 0, 0], [0, 0.95, 0, 0.05], [0, 0.15, 0.1, 0.75]])


# -- score -------------------------------------------------------------------------------------------------------------


def probe_score(score: Any) -> dict[str, Any]:
    return {
        "the score without a penalty (alpha 0)": score(-4.0, 7, 0.0),
        "the score of one word (the penalty is 1)": score(-4.0, 1, 0.6),
        "the scores of 7 and of 13 words": np.array([score(-4.0, length, 0.6) for length in (7, 13)]),
    }


def real_score(log_p, length, alpha):
    return log_p / length_penalty(length, alpha)


SCORE = Exercise(
    score,
    probe_score,
    real_score,
    source="models.generation.penalties.length_penalty",
    hints=(
        "With alpha 0 the penalty must be 1, whatever the length. Which power of a number is always 1?",
        "-4 with the penalty 1.5 should become -2.67, which is better than -4, not -6.",
        "log_p / ((5 + length) / 6) ** alpha",
    ),
    changes="""
        A log-probability is negative: multiplied by a number above 1 it becomes worse, so long sentences would be
        penalised twice. Divide instead.
        - log_p / ((5
        + log_p * ((5
        This divides by length^alpha. This formula is used as well, but here the penalty is made of (5 + length) / 6, so
        that the first few words count less.
        - ((5 + length) / 6) ** alpha
        + length**alpha
        alpha is an exponent, not a factor: ((5 + length) / 6) ** alpha.
        - ((5 + length) / 6) ** alpha
        + ((5 + length) / 6 * alpha or 1)
        Parentheses are missing: ** comes before /, so here only the 6 has the exponent. log_p / ((5 + length) / 6) **
        alpha.
        - ((5 + length) / 6) ** alpha
        + (5 + length) / 6**alpha
        `length` counts eos already: don't subtract it.
        - (5 + length)
        + (4 + length)
    """,
)


@SCORE.right
def through_exponentials(log_p, length, alpha):
    return log_p * np.exp(-alpha * np.log((5.0 + length) / 6.0))


# -- extended ----------------------------------------------------------------------------------------------------------


def probe_extended(extended: Any) -> dict[str, Any]:
    def ids_and_values(sentences: Any) -> tuple[list[list[int]], np.ndarray]:
        longer = need(extended(sentences, model(5, 4), BOS), list, "extended(...)")
        return [list(ids) for _, ids in longer], np.array([value for value, _ in longer])

    first, two = ids_and_values([(0.0, [])]), ids_and_values([(-0.5, [2]), (-1.0, [3])])
    return {
        "the sentences of one word, best first": first[0],
        "their log-probabilities": first[1],
        "what becomes of two sentences, best first": two[0],
        "the log-probabilities of what becomes of two": two[1],
    }


def in_one_array(sentences, next_log_p, bos):
    totals = np.array([[total] for total, _ in sentences]) + np.stack([next_log_p([bos, *ids]) for _, ids in sentences])
    order = np.argsort(-totals, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, totals.shape), strict=True)
    return [(totals[i, word], [*sentences[i][1], int(word)]) for i, word in places]


EXTENDED = Exercise(
    extended,
    probe_extended,
    in_one_array,
    source="models.generation.beam.beam_search",
    hints=(
        "Two sentences and four words: how many longer sentences are there, and do the two families compete?",
        "8 of them, in 1 list. If a sentence has -1.0 and the word -0.5, the new one has -1.5.",
        "(total + log_p, [*ids, word]) in two loops, over the sentences and over enumerate(next_log_p([bos, "
        "*ids])); sorted(longer, key=lambda sentence: -sentence[0]).",
    ),
    changes="""
        All sentences are there, but they are not sorted yet: the best sentence comes first.
        - sorted(longer, key=lambda sentence: -sentence[0])
        + longer
        The order is reversed: the largest log-probability comes first.
        - -sentence[0]
        + sentence[0]
        Only the last word's log-probability counts in yours. The log-probability of a sentence is the sum over all its
        words: add the sum that it had before.
        - (total + log_p, [
        + (log_p, [
        The list that the model gets begins with bos: next_log_p([bos, *ids]).
        - [bos, *ids]
        + ids
    """,
)


@EXTENDED.wrong
def each_for_itself(sentences, next_log_p, bos):
    """The continuations of each sentence are sorted separately. But all continuations compete with each other: the
    third best continuation of the first sentence can be better than the best continuation of the second.
    """
    return [longer for sentence in sentences for longer in extended([sentence], next_log_p, bos)]


EXTENDED.right(
    lambda sentences, next_log_p, bos: sorted(
        not_sorted(sentences, next_log_p, bos), key=lambda sentence: sentence[0], reverse=True
    )
)


def not_sorted(sentences, next_log_p, bos):
    return [
        (total + log_p, [*ids, word]) for total, ids in sentences for word, log_p in enumerate(next_log_p([bos, *ids]))
    ]


# -- beam_search -------------------------------------------------------------------------------------------------------


def probe_beam_search(beam_search: Any) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for text, options in {
        "with the trap, width 2": (from_table(trap() + 1e-30), 2, 6, 0.0),
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


BEAM_SEARCH = Exercise(
    beam_search,
    probe_beam_search,
    real_beam_search,
    source="models.generation.beam.beam_search",
    hints=(
        "Which sentences go on after a round, and which are set aside? Does one that is set aside take the place of "
        "another?",
        "With a width of 2: from the sorted list the first 2 that do not end go on, and those that end count if "
        "they are among the first 2 of the whole list.",
        "for rank, (log_p, ids) in enumerate(extended(...)): if ids[-1] != eos: going_on.append((log_p, ids)), elif "
        "rank < width: finished.append((score(log_p, length, alpha), ids[:-1])). Then sentences = going_on[:width]; "
        "at the end the open ones with score(log_p, limit, alpha), and max(finished).",
    ),
    changes="""
        Only one sentence goes on after each step: keep the `width` best of those that have not ended.
        - going_on[:width]
        + going_on[:1]
        This is right with alpha 0. Compare the finished sentences by `score`, each with its own length.
        - score(log_p, length, alpha)
        + log_p
        It stops as soon as one sentence has ended. A longer sentence that is still open may become better: continue up
        to the limit.
        - sentences = going_on[:width]
        + sentences = going_on[:width]
        + if finished:
        +     break
        - finished += [
        + finished = finished or [
        Every eos counts as finished, even one that is far down the list. Any other word so far down would have been
        dropped: an eos counts only if it is among the first `width`.
        - elif rank < width:
        + else:
        The beam gets narrower with each sentence that ends. Set the finished sentences aside: `width` unfinished
        sentences go on.
        - extended(sentences, next_log_p, bos)
        + extended(sentences, next_log_p, bos)[: max(1, width - len(finished))]
        A sentence that ends takes a place in the beam: in that round fewer than `width` go on. Cut the list of the
        sentences that go on, not the list of all sentences.
        - extended(sentences, next_log_p, bos)
        + extended(sentences, next_log_p, bos)[:width]
        Every sentence goes on, however unlikely it is, so there are soon millions of sentences. Keep the first `width`.
        - going_on[:width]
        + going_on
        The sentences that are still open at the limit are left out, but they should count as they are.
        - finished += [(score(log_p, limit, alpha), ids) for log_p, ids in sentences]
        + pass
        The length of a finished sentence is one too small: eos counts as a word.
        - score(log_p, length, alpha)
        + score(log_p, length - 1, alpha)
        eos is among the words of the result; leave it out.
        - ids[:-1]))
        + ids))
    """,
)


@BEAM_SEARCH.wrong
def greedy_after_all(next_log_p, bos, eos, width, limit, alpha=0.0):
    """This finds the same sentence as greedy search for every width. Keep more than one sentence."""
    ids, total = greedy(next_log_p, bos, eos, limit)
    return ids, score(total, min(len(ids) + 1, limit), alpha)


@BEAM_SEARCH.right
def beam_in_arrays(next_log_p, bos, eos, width, limit, alpha=0.0):
    rows, totals, best = [[]], np.zeros(1), (-np.inf, [])
    for length in range(1, limit + 1):
        table = totals[:, None] + np.stack([next_log_p([bos, *ids]) for ids in rows])
        order = np.argsort(-table, axis=None, kind="stable")
        parents, words = np.unravel_index(order, table.shape)
        for place in np.flatnonzero(words[:width] == eos):
            best = max(best, (score(table[parents[place], eos], length, alpha), rows[parents[place]]))
        kept = np.flatnonzero(words != eos)[:width]
        totals = table[parents[kept], words[kept]]
        rows = [[*rows[parents[place]], int(words[place])] for place in kept]
    for ids, total in zip(rows, totals, strict=True):
        best = max(best, (score(total, limit, alpha), ids))
    return best[1], best[0]
