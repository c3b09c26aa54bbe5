"""Determiners and pronouns, as tables."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import rows


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """`declension` says which endings it takes and which the adjective after it: "der" has its own forms, "dieser"
    the same endings; "ein" has gaps, which a strong adjective ending fills; "strong" leaves all to the adjective but
    inflects (viele); "bare" has no endings at all (zwei, or no word)."""

    german: str
    declension: str
    english: str
    english_plural: str
    definite: bool = True


DEFINITE = Determiner("d", "der", "the", "the")
INDEFINITE = Determiner("ein", "ein", "a", "", definite=False)
BARE = Determiner("", "bare", "", "", definite=False)  # the plural of ein: Äpfel
INSTRUMENT = Determiner("", "bare", "the", "the", definite=False)  # Klavier spielen, "to play the piano"
THIS = Determiner("dies", "dieser", "this", "these")
WHICH = Determiner("welch", "dieser", "which", "which")
EVERY = Determiner("jed", "dieser", "every", "")
ALL = Determiner("all", "dieser", "", "all the")
MANY = Determiner("viel", "strong", "", "many", definite=False)
NO = Determiner("kein", "ein", "no", "no")  # in a subject: "No pirate sleeps."
NOT_A = Determiner("kein", "ein", "a", "any", definite=False)  # in an object: "doesn't read a book"
NUMBERS = [
    Determiner(german, "bare", "", english, definite=False)
    for german, english in [("zwei", "two"), ("drei", "three"), ("vier", "four"), ("fünf", "five"), ("sieben", "seven")]
]


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """A personal pronoun. `person` counts ich, du, er, wir, ihr, sie from 0 to 5."""

    person: int
    german_cases: tuple[str, str, str]  # nominative, accusative, dative
    english_subject: str
    english_object: str
    possessive: Determiner


_PRONOUNS = """
    ich  mich  mir    mein  I     me    my
    du   dich  dir    dein  you   you   your
    er   ihn   ihm    sein  he    him   his
    wir  uns   uns    unser  we   us    our
    ihr  euch  euch   euer  you   you   your
    sie  sie   ihnen  ihr   they  them  their
    sie  sie   ihr    ihr   she   her   her
    es   es    ihm    sein  it    it    its
"""


def _pronoun(person: int, cells: list[str]) -> Pronoun:
    nominative, accusative, dative, possessive, subject, object_, english_possessive = cells
    owner = Determiner(possessive, "ein", english_possessive, english_possessive)
    return Pronoun(person, (nominative, accusative, dative), subject, object_, owner)


PRONOUNS = [_pronoun(min(i, 5) if i < 6 else 2, cells) for i, cells in enumerate(rows(_PRONOUNS))]

# The pronoun that takes up a noun: German goes by grammatical gender, English by what is meant (sie, die Katze: it).
_GERMAN_PRONOUN = {"m": PRONOUNS[2], "f": PRONOUNS[6], "n": PRONOUNS[7]}
_ENGLISH_PRONOUN = {"he": PRONOUNS[2], "she": PRONOUNS[6], "it": PRONOUNS[7]}


def _mixed_pronoun(gender: str, english: str) -> Pronoun:
    german, other = _GERMAN_PRONOUN[gender], _ENGLISH_PRONOUN[english]
    owner = Determiner(german.possessive.german, "ein", other.possessive.english, other.possessive.english)
    return Pronoun(2, german.german_cases, other.english_subject, other.english_object, owner)


PRONOUN_FOR = {(gender, english): _mixed_pronoun(gender, english) for gender in "mfn" for english in _ENGLISH_PRONOUN}
WHO = Pronoun(2, ("wer", "wen", "wem"), "who", "who", PRONOUNS[2].possessive)
