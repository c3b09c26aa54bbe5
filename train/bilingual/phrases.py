"""Noun phrases: who and what, in both languages, and the places with their two-way prepositions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from .english import with_article
from .inflection import adjective_ending, adjective_form, determiner_form, gender_key, noun_form, with_preposition
from .lexicon import (
    ADJECTIVES_OF,
    BARE,
    DEFINITE,
    EVERY,
    INDEFINITE,
    INSTRUMENT,
    KEIN,
    KEIN_UNCOUNTED,
    MANY,
    MY,
    NUMBERS,
    OUR,
    POSSESSIVES,
    THIS,
    YOUR,
    Adjective,
    Determiner,
    Noun,
    nouns_of,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Phrase:
    """A determiner, perhaps an adjective, a noun, perhaps its owner in the genitive."""

    noun: Noun
    plural: bool = False
    determiner: Determiner = DEFINITE
    adjective: Adjective | None = None
    owner: Noun | None = None  # of a definite phrase: der Hut des Königs, the king's hat

    @property
    def person(self) -> int:
        return 5 if self.plural else 2

    @property
    def key(self) -> str:
        """m, f, n or p."""
        return gender_key(self.noun, self.plural)

    @property
    def definite(self) -> bool:
        """Definite objects stand before adverbs of manner and before "nicht", others after."""
        return self.determiner not in (INDEFINITE, BARE, KEIN, KEIN_UNCOUNTED, MANY, *NUMBERS)

    @property
    def english_pronoun(self) -> str:
        return "they" if self.plural else self.noun.pronoun

    def german(self, case: str) -> str:
        text = _german(self.noun, self.plural, self.determiner, self.adjective, case)
        return f"{text} {_german(self.owner, False, DEFINITE, None, 'genitive')}" if self.owner else text

    def english(self) -> str:
        text = _english(self.noun, self.plural, self.determiner, self.adjective)
        return f"the {self.owner.english}'s {text.removeprefix('the ')}" if self.owner else text

    def combinations(self) -> list[str]:
        return [f"{self.adjective.german}|{self.noun.german}"] if self.adjective else []


@cache
def _german(noun: Noun, plural: bool, determiner: Determiner, adjective: Adjective | None, case: str) -> str:
    key = gender_key(noun, plural)
    words = [determiner_form(determiner, case, key)]
    if determiner is INDEFINITE and plural:
        words = []
    if adjective is not None:
        # without an article the plural of ein leaves the case to the adjective
        declension = "strong" if determiner is INDEFINITE and plural else determiner.declension
        words.append(adjective_form(adjective, adjective_ending(declension, case, key)))
    return " ".join(filter(None, [*words, noun_form(noun, plural, case)]))


@cache
def _english(noun: Noun, plural: bool, determiner: Determiner, adjective: Adjective | None) -> str:
    phrase = noun.english_plural if plural else noun.english
    if adjective is not None:
        phrase = f"{adjective.english} {phrase}"
    article = determiner.english_plural if plural else determiner.english
    return with_article(phrase) if article == "a" else f"{article} {phrase}".strip()


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun as a subject; persons as in `inflection`."""

    nominative: str
    english_nominative: str
    person: int
    possessive: Determiner

    definite = True

    def german(self, case: str) -> str:
        return self.nominative

    def english(self) -> str:
        return self.english_nominative

    def combinations(self) -> list[str]:
        return []


PRONOUNS = [
    Pronoun("ich", "I", 0, MY),
    Pronoun("du", "you", 1, YOUR),
    Pronoun("er", "he", 2, POSSESSIVES["he"]),
    Pronoun("sie", "she", 2, POSSESSIVES["she"]),
    Pronoun("wir", "we", 3, OUR),
    Pronoun("sie", "they", 5, POSSESSIVES["they"]),
]

Subject = Phrase | Pronoun


def possessive_of(subject: Subject) -> Determiner:
    """sein, ihr and so on for what belongs to the subject."""
    if isinstance(subject, Pronoun):
        return subject.possessive
    if subject.plural:
        return POSSESSIVES["they"]
    if "person" not in subject.noun.classes:
        return _ITS_F if subject.noun.gender == "f" else _ITS
    if subject.noun.gender == "n" and subject.noun.pronoun == "she":
        return POSSESSIVES["girl"]
    return {"m": POSSESSIVES["he"], "f": POSSESSIVES["she"], "n": _ITS}[subject.noun.gender]


_ITS = Determiner("sein", "ein", "its", "its")
_ITS_F = Determiner("ihr", "ein", "its", "its")


def draw_adjective(rng: Random, noun: Noun, chance: float) -> Adjective | None:
    choices = ADJECTIVES_OF[noun]
    return rng.choice(choices) if choices and rng.random() < chance else None


def draw_subject(rng: Random, nouns: tuple[Noun, ...], *, pronouns: bool = True) -> Subject:
    """Somebody or something that can be the subject of a verb with these subjects."""
    roll = rng.random()
    noun = rng.choice(nouns)
    if pronouns and roll < 0.12 and "person" in noun.classes:
        return rng.choice(PRONOUNS)
    adjective = draw_adjective(rng, noun, 0.3)
    roll = rng.random()
    if roll < 0.60:
        return Phrase(noun, False, DEFINITE, adjective)
    if roll < 0.72:
        return Phrase(noun, False, INDEFINITE, adjective)
    if roll < 0.77:
        return Phrase(noun, False, THIS, adjective)
    if roll < 0.85 and "kin" in noun.classes:
        return Phrase(noun, False, rng.choice((MY, OUR, YOUR)), adjective)
    if roll < 0.88:
        return Phrase(noun, True, rng.choice((*NUMBERS, MANY)), adjective)
    return Phrase(noun, True, DEFINITE, adjective)


def draw_object(rng: Random, nouns: tuple[Noun, ...], subject: Subject, negated: bool, verb: str) -> Phrase | None:
    """An object, or None by chance. After a negated verb "ein" becomes "kein"."""
    noun = rng.choice(nouns)
    if verb == "spielen" and "instrument" in noun.classes:
        return Phrase(noun, False, INSTRUMENT)
    adjective = draw_adjective(rng, noun, 0.28)
    roll = rng.random()
    if not noun.plural:
        if roll < 0.4:
            return Phrase(noun, False, DEFINITE, adjective)
        return Phrase(noun, False, KEIN_UNCOUNTED if negated else BARE, adjective)
    if roll < 0.38:
        return Phrase(noun, False, DEFINITE, adjective)
    if roll < 0.62:
        return Phrase(noun, False, KEIN if negated else INDEFINITE, adjective)
    if roll < 0.67:
        return Phrase(noun, False, THIS, adjective)
    if roll < 0.70:
        return Phrase(noun, False, EVERY, adjective) if not negated else None
    if roll < 0.76 and noun.classes & _OWNABLE and verb not in _GETTING:
        return Phrase(noun, False, possessive_of(subject), adjective)
    if roll < 0.82 and noun.classes & _OWNABLE:
        return Phrase(noun, False, DEFINITE, adjective, owner=rng.choice(PEOPLE))
    if "room" in noun.classes:
        return Phrase(noun, False, DEFINITE, adjective)
    if roll < 0.91 or "person" in noun.classes:
        return Phrase(noun, True, DEFINITE, adjective)
    if roll < 0.96:
        return Phrase(noun, True, KEIN if negated else INDEFINITE, adjective)
    return Phrase(noun, True, rng.choice((*NUMBERS, MANY)), adjective) if not negated else None


_OWNABLE = frozenset({"kin", "thing", "clothes", "instrument", "food", "text"})
_GETTING = ("kaufen", "stehlen", "finden", "fangen", "jagen")  # nobody buys what is his
PEOPLE = tuple(nouns_of("person"))


# German preposition: where (dative), where to (accusative).
PREPOSITIONS = {
    "in": ("in", "into"),
    "auf": ("on", "onto"),
    "unter": ("under", "under"),
    "neben": ("next to", "next to"),
    "hinter": ("behind", "behind"),
    "vor": ("in front of", "in front of"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A two-way preposition and its phrase; `goal` is where to, otherwise where."""

    preposition: str
    phrase: Phrase
    goal: bool
    settled: bool = False  # what is put in the box is in it then: not "into"

    def german(self) -> str:
        return with_preposition(self.preposition, self.phrase.german("accusative" if self.goal else "dative"))

    def english(self) -> str:
        return f"{PREPOSITIONS[self.preposition][self.goal and not self.settled]} {self.phrase.english()}"


def draw_place(
    rng: Random, nouns: tuple[Noun, ...], goal: bool, *, preposition: str = "", settled: bool = False
) -> Place:
    """A room or a piece of furniture with a preposition that suits it, or with the one given."""
    noun = rng.choice(nouns)
    preposition = preposition or rng.choice([name for name in PREPOSITIONS if name in noun.classes])
    roll = rng.random()
    determiner = INDEFINITE if roll < 0.15 else THIS if roll < 0.2 else DEFINITE
    return Place(preposition, Phrase(noun, False, determiner, draw_adjective(rng, noun, 0.12)), goal, settled)


ROOMS = tuple(nouns_of("room"))
