"""Noun phrases and what is built on them: prepositional phrases and adverbials, each in both languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from . import english, inflection
from .inflection import ACCUSATIVE, DATIVE, GENITIVE
from .words import INSTRUMENT, PRONOUN_FOR, PRONOUNS, Adjective, Determiner, Noun, Pronoun

Combination = tuple[str, str, str]


class Relative(NamedTuple):
    """A finished relative clause, without the commas that German puts around it."""

    german: str
    english: str


@dataclass(slots=True)
class NounPhrase:
    """A noun with what agrees with it. An `owner` stands in the genitive: den Hut des Piraten, the pirate's hat."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False
    owner: NounPhrase | None = None
    relative: Relative | None = None

    @property
    def person(self) -> int:
        """The person of the verb: er (2) or sie (5)."""
        return 5 if self.plural else 2

    @property
    def gender(self) -> str:
        """The row of the inflection tables."""
        return "p" if self.plural else self.noun.gender

    def german(self, case: int) -> str:
        """The phrase in a case: "den roten Hut des Piraten"."""
        gender, determiner = self.gender, self.determiner
        text = inflection.determiner_form(determiner, gender, case)
        if self.adjective:
            form = inflection.adjective_form(self.adjective, determiner, gender, case)
            text = f"{text} {form}" if text else form
        noun = inflection.noun_form(self.noun, self.plural, case)
        text = f"{text} {noun}" if text else noun
        if self.owner:
            text = f"{text} {self.owner.german(GENITIVE)}"
        return f"{text}, {self.relative.german}," if self.relative else text

    def english(self) -> str:
        """The phrase: "the pirate's red hat"."""
        text = english.noun_form(self.noun, self.plural)
        if self.adjective:
            text = f"{self.adjective.english} {text}"
        article = self.determiner.english_plural if self.plural else self.determiner.english
        if self.owner:
            text = f"{english.possessive(self.owner.english())} {text}"
        elif article == "a":
            text = f"{english.indefinite_article(text)} {text}"
        elif article:
            text = f"{article} {text}"
        return f"{text} {self.relative.english}" if self.relative else text

    english_subject = english_object = english

    def pronoun(self) -> Pronoun:
        """The pronoun that takes the phrase up again: er and he, but for das Mädchen es and she."""
        return PRONOUNS[5] if self.plural else PRONOUN_FOR[self.noun.gender, self.noun.pronoun]

    def shows_accusative(self) -> bool:
        """Only a masculine singular looks different in the accusative, and so may open a sentence as its object."""
        return self.gender == "m"

    def relative_pronoun(self, case: int) -> str:
        """der, den, dem; agrees with the noun in gender and takes its case from its own clause."""
        return inflection.RELATIVE_PRONOUN[self.gender][case]


@dataclass(slots=True)
class PronounPhrase:
    """A pronoun with the same interface as a noun phrase."""

    word: Pronoun

    @property
    def person(self) -> int:
        """ich, du, er, wir, ihr, sie: 0 to 5."""
        return self.word.person

    def german(self, case: int) -> str:
        """mich, dir, ihm"""
        return self.word.german_cases[case]

    def english_subject(self) -> str:
        """I, she, who"""
        return self.word.english_subject

    def english_object(self) -> str:
        """me, her"""
        return self.word.english_object

    def pronoun(self) -> Pronoun:
        """Itself."""
        return self.word

    def shows_accusative(self) -> bool:
        """A pronoun as an object stays in the middle of the sentence."""
        return False


Phrase = NounPhrase | PronounPhrase

# The same preposition rules the accusative towards a goal and the dative at a place; English has two words for some.
TWO_WAY = {
    "in": ("in", "into"),
    "auf": ("on", "onto"),
    "unter": ("under", "under"),
    "neben": ("next to", "next to"),
    "hinter": ("behind", "behind"),
    "vor": ("in front of", "in front of"),
}
_CONTRACTIONS = {"in dem ": "im ", "in das ": "ins "}


def two_way_phrase(preposition: str, phrase: NounPhrase, goal: bool) -> Adverbial:
    """in den Wald, into the forest (goal); im Wald, in the forest."""
    german = f"{preposition} {phrase.german(ACCUSATIVE if goal else DATIVE)}"
    for long, short in _CONTRACTIONS.items():
        if german.startswith(long):
            german = short + german[len(long) :]
    return Adverbial(german, f"{TWO_WAY[preposition][goal]} {phrase.english()}")


class Adverbial(NamedTuple):
    """A finished part of a sentence in both languages: a place, a manner, a predicate."""

    german: str
    english: str


class Complement(NamedTuple):
    """An object: its case, and the preposition if the verb asks for one (auf den König warten)."""

    case: int
    phrase: Phrase
    preposition: str = ""
    companion: bool = False  # mit dem Bären tanzen: English needs its own "with"

    def german(self) -> str:
        """The object in its case."""
        text = self.phrase.german(self.case)
        return f"{self.preposition} {text}" if self.preposition else text

    def english(self) -> str:
        """The object; the preposition belongs to the English verb."""
        text = self.phrase.english_object()
        return f"with {text}" if self.companion else text

    @property
    def bound(self) -> bool:
        """Whether it stands right before the end of the clause: auf ihn warten, Klavier spielen."""
        bare = isinstance(self.phrase, NounPhrase) and self.phrase.determiner is INSTRUMENT
        return bool(self.preposition) or bare

    @property
    def definite(self) -> bool:
        """Definite objects stand early in the German sentence, indefinite ones late."""
        return isinstance(self.phrase, NounPhrase) and self.phrase.determiner.definite
