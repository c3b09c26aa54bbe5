"""Noun phrases and their derivatives, in both languages: agreement in gender, number and case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..files import read_tables
from . import words

Combination = tuple[str, str, str]


class Text(NamedTuple):
    """A finished part of a sentence in both languages, such as a place or a clause. `end` is the mark that follows."""

    german: str
    english: str
    end: str = "."

    def followed_by(self, other: Text, german: str = ", ", english: str = " ") -> Text:
        """Join both languages of two parts, with the words that come between the parts in each language."""
        return Text(self.german + german + other.german, self.english + english + other.english, self.end)


# A row for each gender (p: plural of any gender), with the endings or forms of the four cases.
_ENDINGS = {
    name: {gender: tuple(forms) for gender, *forms in rows}
    for name, rows in read_tables(__file__, "endings.txt").items()
}
_AFTER = {"der": "weak", "dieser": "weak", "ein": "mixed", "strong": "strong", "bare": "strong"}


@cache
def determiner_form(determiner: words.Determiner, gender: str, case: int) -> str:
    """Return the form of a determiner: "ein" for "m" and ACCUSATIVE gives "einen"."""
    if determiner.declension == "bare":
        return determiner.german
    table = {"der": "article", "ein": "ein"}.get(determiner.declension, "dieser")
    ending = _ENDINGS[table][gender][case]
    return ("eur" if determiner.german == "euer" and ending else determiner.german) + ending


@cache
def noun_form(noun: words.Noun, plural: bool, case: int) -> str:
    """Return the noun in a number and case: den Hunden, des Kindes, dem Piraten."""
    if plural:
        return noun.plural + ("n" if case == words.DATIVE and noun.plural[-1] not in "ns" else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n") and case != words.NOMINATIVE
    return noun.genitive if weak or case == words.GENITIVE else noun.german


@dataclass(slots=True)
class NounPhrase:
    """A noun and the words that agree with it. An `owner` is in the genitive: den Hut des Piraten, the pirate's hat."""

    noun: words.Noun
    determiner: words.Determiner
    adjective: words.Adjective | None = None
    plural: bool = False
    owner: NounPhrase | None = None
    relative: Text | None = None  # a clause, without the commas that German puts around it

    @property
    def person(self) -> int:
        """The person of the verb: er (2) or sie (5)."""
        return 5 if self.plural else 2

    @property
    def gender(self) -> str:
        """The row of the phrase's forms in the inflection tables."""
        return "p" if self.plural else self.noun.gender

    def german(self, case: int) -> str:
        """Return the phrase in a case: "den roten Hut des Piraten"."""
        parts = [determiner_form(self.determiner, self.gender, case)]
        if self.adjective:
            endings = _ENDINGS[_AFTER[self.determiner.declension]]
            parts.append(self.adjective.stem + endings[self.gender][case])
        parts.append(noun_form(self.noun, self.plural, case))
        if self.owner:
            parts.append(self.owner.german(words.GENITIVE))
        text = join(parts)
        return f"{text}, {self.relative.german}," if self.relative else text

    def english(self) -> str:
        """Return the phrase: "the pirate's red hat"."""
        text = self.noun.english_plural if self.plural else self.noun.english
        if self.adjective:
            text = f"{self.adjective.english} {text}"
        article = self.determiner.english_plural if self.plural else self.determiner.english
        if self.owner:
            owner = self.owner.english()
            article = owner + ("'" if owner.endswith("s") and not owner.endswith("ss") else "'s")
        elif article == "a" and text[0] in "aeiou":  # the first letter is enough for the words of this grammar
            article = "an"
        return join([article, text, self.relative.english if self.relative else ""])

    english_subject = english_object = property(english)

    def pronoun(self) -> words.Pronoun:
        """Return the pronoun that refers to the phrase: er and he, but for das Mädchen es and she."""
        return words.PRONOUNS[5] if self.plural else words.PRONOUN_FOR[self.noun.gender, self.noun.pronoun]

    def relative_pronoun(self, case: int) -> str:
        """Return the relative pronoun: der, den or dem. It has the gender of the noun, and the case of its clause."""
        return _ENDINGS["relative"][self.gender][case]


Phrase = NounPhrase | words.Pronoun


def shows_accusative(phrase: Phrase) -> bool:
    """Whether accusative and nominative differ, as only in the masculine singular. Such an object may come first."""
    return isinstance(phrase, NounPhrase) and phrase.gender == "m"


def two_way_phrase(preposition: str, phrase: NounPhrase, goal: bool) -> Text:
    """in den Wald, into the forest (goal); im Wald, in the forest."""
    german = f"{preposition} {phrase.german(words.ACCUSATIVE if goal else words.DATIVE)}"
    for long, short in (("in dem ", "im "), ("in das ", "ins ")):
        if german.startswith(long):
            german = short + german.removeprefix(long)
    return Text(german, f"{words.TWO_WAY[preposition][goal]} {phrase.english()}")


class Complement(NamedTuple):
    """An object: its case, and the preposition if the verb needs one (auf den König warten)."""

    case: int
    phrase: Phrase
    preposition: str = ""
    companion: bool = False  # mit dem Bären tanzen: English needs its own "with"

    @property
    def german(self) -> str:
        """Return the object in its case."""
        return join([self.preposition, self.phrase.german(self.case)])

    @property
    def english(self) -> str:
        """Return the English object without the preposition, which belongs to the verb."""
        return join(["with" if self.companion else "", self.phrase.english_object])

    @property
    def bound(self) -> bool:
        """Whether the object comes directly before the end of the clause: auf ihn warten, Klavier spielen."""
        bare = isinstance(self.phrase, NounPhrase) and self.phrase.determiner is words.DETERMINERS["instrument"]
        return bool(self.preposition) or bare

    @property
    def definite(self) -> bool:
        """Whether the object is definite: such objects come early in the German sentence, indefinite ones late."""
        return isinstance(self.phrase, NounPhrase) and self.phrase.determiner.definite


def join(parts: Iterable[str]) -> str:
    """Return the parts with blanks between them; empty ones are left out."""
    return " ".join(part for part in parts if part)
