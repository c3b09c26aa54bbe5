"""Whole sentences: a random pattern, capital letter, full stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .main_clauses import Draft
from .phrases import Combination
from .subordinate_clauses import SubordinateClauses

SHORTEST, LONGEST = 4, 16  # German words


@dataclass(frozen=True, slots=True)
class Sentence:
    """A pair and the combinations of words in it, as (kind, word, noun) with German dictionary forms."""

    german: str
    english: str
    combinations: frozenset[Combination]


class SentenceMaker(SubordinateClauses):
    """Draws whole sentences."""

    def sentence(self) -> Sentence:
        """A sentence of a random pattern."""
        while True:
            self.start()
            german, english, end = self.pick(PATTERNS)(self)
            if SHORTEST <= german.count(" ") + 1 <= LONGEST:
                return Sentence(_punctuate(german, end), _punctuate(english, end), frozenset(self.combinations))


def _punctuate(text: str, end: str) -> str:
    """Capital letter, full stop; a comma that closes a relative clause gives way to the mark after it."""
    text = (text + end).replace(",.", ".").replace(",,", ",").replace(" 'm", "'m")
    return text[0].upper() + text[1:]


# How often each pattern is drawn, of 100.
_SHARES: dict[Callable[[SentenceMaker], Draft], int] = {
    SentenceMaker.statement: 36,
    SentenceMaker.property: 3,
    SentenceMaker.comparison: 3,
    SentenceMaker.sequence: 5,
    SentenceMaker.contrast: 4,
    SentenceMaker.reason: 9,
    SentenceMaker.whenever: 5,
    SentenceMaker.before: 3,
    SentenceMaker.thought: 6,
    SentenceMaker.wondering: 4,
    SentenceMaker.purpose: 4,
    SentenceMaker.subject_with_relative: 4,
    SentenceMaker.object_with_relative: 6,
    SentenceMaker.yes_no_question: 4,
    SentenceMaker.who_question: 2,
    SentenceMaker.object_question: 3,
    SentenceMaker.place_question: 2,
    SentenceMaker.why_question: 2,
    SentenceMaker.command: 4,
}
PATTERNS = [pattern for pattern, share in _SHARES.items() for _ in range(share)]
