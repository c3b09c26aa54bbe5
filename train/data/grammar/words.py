"""The words of the German-English grammar, from the tables in words.txt.

The *classes* of nouns keep nonsense out of the corpus: only a `text` can be read, and only `food` is eaten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from .tables import read_tables, sections

_TABLES = read_tables("words.txt")

# --- nouns and adjectives ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun of both languages. `gender` is "m", "f" or "n"; a `weak` masculine ends in -n everywhere but in the
    nominative singular (der Pirat, den Piraten). `pronoun` is the English one: das Mädchen is neuter, but "she"."""

    german: str
    plural: str
    gender: str
    weak: bool
    english: str
    english_plural: str  # "" when regular
    pronoun: str
    classes: frozenset[str]


def _noun(section: str, gender: str, german: str, plural: str, english: str, classes: str = "") -> Noun:
    weak, gender = gender == "w", gender.replace("w", "m")
    pronoun = {"m": "he", "f": "she", "n": "it"}[gender] if section == "person" else "it"
    if override := re.search(r" \((\w+)\)", english):
        english, pronoun = english[: override.start()], override[1]
    singular, _, english_plural = english.partition("/")
    tags = frozenset([section, *classes.split()])
    return Noun(german, plural or german, gender, weak, singular, english_plural, pronoun, tags)


ALL_NOUNS = [_noun(section, *cells) for section, rows in sections(_TABLES, "nouns").items() for cells in rows]


def nouns_of(classes: str) -> list[Noun]:
    """The nouns that belong to one of the classes, in the order of the tables: `nouns_of("food text")`."""
    wanted = set(classes.split())
    return [noun for noun in ALL_NOUNS if wanted & noun.classes]


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective and the classes of the nouns it may describe."""

    german: str
    english: str
    classes: frozenset[str]


ADJECTIVES = [Adjective(de, en, frozenset(classes.split())) for de, en, classes in _TABLES["adjectives"]]
FEELINGS = {german: english for german, english, _ in _TABLES["feelings"]}
HINDRANCES = [german for german, _, hinders in _TABLES["feelings"] if hinders]
COMPARISONS = _TABLES["comparisons"]  # positive, comparative, and the same in English

# --- determiners and pronouns -----------------------------------------------------------------------------------------


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
#: How a noun phrase is determined -> its determiner, and whether it is a plural.
DETERMINED = {
    "indefinite": (INDEFINITE, False),
    "definite_plural": (DEFINITE, True),
    "indefinite_plural": (BARE, True),
    "all": (ALL, True),
    "many": (MANY, True),
    "this": (THIS, False),
    "every": (EVERY, False),
    "no": (NO, False),
}


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """A personal pronoun. `person` counts ich, du, er, wir, ihr, sie from 0 to 5."""

    person: int
    german_cases: tuple[str, str, str]  # nominative, accusative, dative
    english_subject: str
    english_object: str
    possessive: Determiner


def _pronoun(person: int, german: list[str], english: list[str]) -> Pronoun:
    """German forms (three cases, possessive) with English ones (subject, object, possessive)."""
    nominative, accusative, dative, possessive = german
    subject, object_, english_possessive = english
    owner = Determiner(possessive, "ein", english_possessive, english_possessive)
    return Pronoun(person, (nominative, accusative, dative), subject, object_, owner)


_FORMS = [(cells[:4], cells[4:]) for cells in _TABLES["pronouns"]]
PRONOUNS = [_pronoun(i if i < 6 else 2, *forms) for i, forms in enumerate(_FORMS)]
# The pronoun that takes up a noun: German goes by grammatical gender, English by what is meant (sie, die Katze: it).
_GENDERS, _MEANT = {"m": 2, "f": 6, "n": 7}, {"he": 2, "she": 6, "it": 7}
PRONOUN_FOR = {
    (gender, english): _pronoun(2, _FORMS[i][0], _FORMS[j][1])
    for gender, i in _GENDERS.items()
    for english, j in _MEANT.items()
}
WHO = Pronoun(2, ("wer", "wen", "wem"), "who", "who", PRONOUNS[2].possessive)

# --- verbs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A place in a verb's frame: `case` with an optional `preposition`, and the nouns that fit there.

    Case is "accusative" or "dative"; "goal" (accusative: into the forest) and "place" (dative: in the forest) are
    the two readings of a two-way preposition, which comes with the noun unless the slot insists on one. "instrument"
    is an accusative with no article: Klavier spielen.
    """

    case: str
    preposition: str
    nouns: list[Noun]
    optional: bool


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """`german` without the separable `prefix`. Empty `third` and `participle` mean: regular."""

    german: str
    prefix: str
    third: str
    participle: str
    auxiliary: str  # haben or sein
    english: str  # principal parts: eat/ate/eaten
    particle: str  # "up", follows a pronoun object: wake him up
    preposition: str  # "for", stays before the object: look for him
    subjects: list[Noun]
    slots: list[Slot]
    feelings: list[str]
    manners: list[str]

    @property
    def name(self) -> str:
        """The infinitive as a dictionary lists it."""
        return self.prefix + self.german


def _slot(text: str) -> Slot:
    kind, _, classes = text.partition(":")
    preposition, _, case = kind.replace("?", "").rpartition("+")
    case = {"acc": "accusative", "dat": "dative"}.get(case, case)
    nouns = nouns_of(classes.replace("/", " "))
    if case == "goal" and preposition:
        nouns = [noun for noun in nouns if preposition in noun.classes]
    return Slot(case, preposition, nouns, "?" in kind)


_DICTIONARY = {infinitive.replace("|", ""): (infinitive, *forms) for infinitive, *forms in _TABLES["verbs"]}


def _verb(name: str, subjects: str, slots: str = "", feelings: str = "", manners: str = "") -> Verb:
    """Join what the tables say about a verb."""
    infinitive, third, participle, english = _DICTIONARY[name]
    prefix, _, german = infinitive.rpartition("|")
    auxiliary = "sein" if participle.startswith("ist ") else "haben"
    participle = participle.removeprefix("ist ").replace("-", "")
    parts, _, particle = english.partition("|")
    parts, _, preposition = parts.partition(" ")
    frame = [_slot(slot) for slot in slots.split()]
    why, how = ([word for word in cell.split("/") if word] for cell in (feelings, manners))
    return Verb(
        german, prefix, third, participle, auxiliary, parts, particle, preposition, nouns_of(subjects), frame, why, how
    )


ACTIONS = [_verb(name, who, *cells) for who, rows in sections(_TABLES, "actions").items() for name, *cells in rows]
STATES = [_verb(*cells) for cells in _TABLES["states"]]
TURNED = [_verb(*cells) for cells in _TABLES["turned"]]
THINKING = [_verb(name, "person") for name in ("glauben", "hoffen", "wissen", "sagen", "vermuten")]
BE = Verb("sein", "", "ist", "gewesen", "sein", "be", "", "", [], [], [], [])

# What nobody does on purpose, so nobody wants it, may do it or is told to do it; and what is over in an instant.
UNWILLED = set(
    "verlieren finden sehen weinen schnarchen aufwachen einschlafen träumen denken liegen stehen".split()  # noqa: SIM905
)
SUDDEN = {"verlieren", "finden", "sehen"}
# What makes its object, so that nothing can have been done to it before; what one does not do with one's own things.
CREATING = {"backen", "kochen", "schreiben"}
NOT_OWN = {"stehlen", "kaufen", "haben", "brauchen", "finden"}
MANNERS = dict(_TABLES["manners"])


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb: the stems of ich/er and of the past, and an English verb with the word that links the infinitive.

    "be allowed" counts as a form of be; "can" stands for itself."""

    german: str
    singular: str
    past: str
    english: str
    link: str


MODALS = [Modal(*cells) for cells in _TABLES["modals"]]

# --- tenses and adverbials of time ------------------------------------------------------------------------------------


class Tense(Enum):
    """German form and English form.

    German has fewer tenses in use than English. "Er isst" is "he eats" or "he is eating"; "er hat gegessen" is "he ate"
    or "he has eaten". The adverbial of time decides, so that every German sentence has one English translation.
    """

    HABIT = ("present", "present")
    NOW = ("present", "progressive")  # with gerade, im Moment
    PAST = ("perfect", "past")
    EXPERIENCE = ("perfect", "perfect")  # with schon, noch nie
    FUTURE = ("future", "future")
    PLAN = ("present", "future")  # with morgen, bald

    @property
    def german(self) -> str:
        """present, perfect or future"""
        return self.value[0]

    @property
    def english(self) -> str:
        """present, progressive, past, perfect or future"""
        return self.value[1]


@dataclass(frozen=True, eq=False, slots=True)
class Time:
    """An adverbial of time. `inner` ones stand where "nicht" would, in English before the main verb: oft, schon."""

    german: str
    english: str
    inner: bool
    may_front: bool
    negative: bool  # nie
    negatable: bool  # whether the clause can have "nicht" as well


def _time(german: str, english: str, flags: str = "") -> Time:
    inner = "inner" in flags
    negatable = not inner and "positive" not in flags
    return Time(german, english, inner, "fixed" not in flags, "negative" in flags, negatable)


_TIMES = {name: [_time(*cells) for cells in rows] for name, rows in sections(_TABLES, "times").items()}
TIMES = {tense: _TIMES["future" if tense is Tense.PLAN else tense.name.lower()] for tense in Tense}
COMMAND_TIMES = _TIMES["command"]
NOT_YET = Time("noch", "yet", False, False, False, True)  # noch nicht, noch kein
