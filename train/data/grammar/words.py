"""The words of the German-English grammar, from the tables in words.txt.

The *classes* of nouns exclude meaningless sentences: only a `text` can be read, and only `food` is eaten.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Self

from ..files import read_tables, sections

_TABLES = read_tables(__file__, "words.txt")
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)

# --- nouns and adjectives ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun in both languages.

    `gender` is "m", "f" or "n". `pronoun` is the English pronoun: das Mädchen is neuter, but "she". The genitive of a
    weak masculine noun is also its dative and accusative (des Piraten, den Piraten)."""

    german: str
    genitive: str
    plural: str
    gender: str
    english: str
    english_plural: str
    pronoun: str
    classes: frozenset[str]


def _noun(section: str, gender: str, german: str, genitive: str, plural: str, english: str, classes: str = "") -> Noun:
    tags = frozenset([section, *classes.split()])
    natural = {"m": "he", "f": "she", "n": "it"}[gender] if section == "person" else "it"
    pronoun = "she" if "she" in tags else natural
    singular, several = english.split("/")
    return Noun(german, genitive or german, plural or german, gender, singular, several, pronoun, tags)


ALL_NOUNS = [_noun(section, *cells) for section, rows in sections(_TABLES, "nouns").items() for cells in rows]


def nouns_of(classes: str) -> list[Noun]:
    """Return the nouns that belong to one of the classes, in the order of the tables: `nouns_of("food text")`."""
    wanted = set(classes.split())
    return [noun for noun in ALL_NOUNS if wanted & noun.classes]


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective, its German stem before an ending, and the classes of the nouns that it may describe."""

    german: str
    stem: str
    english: str
    classes: frozenset[str]


def _adjective(german: str, english: str, classes: str) -> Adjective:
    german, _, stem = german.partition("/")
    return Adjective(german, stem or german, english, frozenset(classes.split()))


ADJECTIVES = [_adjective(*cells) for cells in _TABLES["adjectives"]]
ADJECTIVES_OF = {noun: [word for word in ADJECTIVES if word.classes & noun.classes] for noun in ALL_NOUNS}
FEELINGS = {german: english for german, english, _ in _TABLES["feelings"]}
HINDRANCES = [german for german, _, hinders in _TABLES["feelings"] if hinders]
COMPARISONS = _TABLES["comparisons"]  # positive, comparative, and the same in English
WEATHER = _TABLES["weather"]  # clauses after "wenn"
#: In English, for a place and for a goal. The German preposition is the same, with the dative or the accusative.
TWO_WAY = {german: english for german, *english in _TABLES["two-way prepositions"]}

# --- determiners and pronouns -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """A determiner. `declension` determines its endings and those of the adjective after it.

    "der" has its own forms, and "dieser" has the same endings. "ein" has gaps, which a strong adjective ending fills.
    "strong" is inflected (viele), and the adjective has strong endings too. "bare" has no endings (zwei, or no
    word)."""

    german: str
    declension: str
    english: str
    english_plural: str
    definite: bool = True
    plural: bool = False  # whether the noun is in the plural


DETERMINERS = {
    name: Determiner(german, declension, singular, plural, "definite" in flags, "plural" in flags)
    for name, german, declension, singular, plural, flags in _TABLES["determiners"]
}
NUMBERS = [Determiner(german, "bare", "", english, False, True) for german, english in _TABLES["numbers"]]
#: How often a noun phrase has each kind of determiner, by its function in the clause: a name for each distribution.
DETERMINED = {
    role: [name for name, weight in zip(weights[::2], weights[1::2], strict=True) for _ in range(int(weight))]
    for role, weights in ((role, weights.split()) for role, weights in _TABLES["determined"])
}


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """A pronoun, which can replace a phrase. `person` counts ich, du, er, wir, ihr, sie from 0 to 5."""

    person: int
    cases: list[str]  # nominative, accusative, dative
    english_subject: str
    english_object: str
    possessive: Determiner

    def german(self, case: int) -> str:
        """Return the reflexive pronoun in this case: mich, dir, ihm."""
        return self.cases[case]

    def pronoun(self) -> Self:
        """Return the pronoun itself, for the interface of noun phrases."""
        return self


def _pronoun(person: int, german: list[str], english: list[str]) -> Pronoun:
    """Return a pronoun with German forms (three cases, possessive) and English ones (subject, object, possessive)."""
    subject, object_, possessive = english
    return Pronoun(person, german[:3], subject, object_, Determiner(german[3], "ein", possessive, possessive))


_FORMS = [(cells[:4], cells[4:]) for cells in _TABLES["pronouns"]]
*PRONOUNS, WHO = (_pronoun(i if i < 6 else 2, *forms) for i, forms in enumerate(_FORMS))
# The pronoun that refers to a noun: German uses the grammatical gender, English the meaning (sie, die Katze: it).
PRONOUN_FOR = {
    (gender, english): _pronoun(2, _FORMS[i][0], _FORMS[j][1])
    for gender, i in {"m": 2, "f": 6, "n": 7}.items()
    for english, j in {"he": 2, "she": 6, "it": 7}.items()
}

# --- verbs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A place in a verb's frame: `case` with an optional `preposition`, and the nouns that fit into it.

    Case is "accusative" or "dative". "goal" (accusative: into the forest) and "place" (dative: in the forest) are the
    two readings of a two-way preposition; the noun determines this preposition unless the slot names one. "instrument"
    is an accusative without an article: Klavier spielen.
    """

    case: str
    preposition: str
    nouns: list[Noun]
    optional: bool


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in both languages: its forms, and its possible complements."""

    name: str  # the infinitive
    prefix: str  # the separable one
    present: list[str]  # of ich, du, er, wir, ihr, sie; without the prefix
    imperative: str  # to one person
    participle: str
    auxiliary: str  # haben or sein
    english: list[str]  # eat, eats, ate, eaten, eating
    particle: str  # "up", follows a pronoun object: wake him up
    preposition: str  # "for", stays before the object: look for him
    subjects: list[Noun]
    slots: list[Slot]
    feelings: list[str]
    manners: list[str]


def _slot(text: str) -> Slot:
    kind, _, classes = text.partition(":")
    preposition, _, case = kind.replace("?", "").rpartition("+")
    case = {"acc": "accusative", "dat": "dative"}.get(case, case)
    nouns = nouns_of(classes.replace("/", " "))
    if case == "goal" and preposition:
        nouns = [noun for noun in nouns if preposition in noun.classes]
    return Slot(case, preposition, nouns, "?" in kind)


_DICTIONARY = {infinitive.replace("|", ""): (infinitive, *cells) for infinitive, *cells in _TABLES["verbs"]}


def _verb(name: str, subjects: str, slots: str = "", feelings: str = "", manners: str = "") -> Verb:
    """Combine the entries of the tables for a verb."""
    infinitive, present, imperative, participle, english, *more = _DICTIONARY[name]
    preposition, _, particle = more[0].partition("|") if more else ("", "", "")
    return Verb(
        name,
        infinitive.rpartition("|")[0],
        present.split(),
        imperative,
        participle.removeprefix("ist "),
        "sein" if participle.startswith("ist ") else "haben",
        english.split(),
        particle,
        preposition,
        nouns_of(subjects),
        [_slot(slot) for slot in slots.split()],
        *([word for word in cell.split("/") if word] for cell in (feelings, manners)),
    )


ACTIONS = [_verb(name, who, *cells) for who, rows in sections(_TABLES, "actions").items() for name, *cells in rows]
STATES = [_verb(*cells) for cells in _TABLES["states"]]
TURNED = [_verb(*cells) for cells in _TABLES["turned"]]
THINKING = [_verb(name, "person") for name in ("glauben", "hoffen", "wissen", "sagen", "vermuten")]
BE = _verb("sein", "")
#: Names of verbs, grouped by a common trait.
TRAITS = {trait: set(names.split()) for trait, names in _TABLES["traits"]}
MANNERS = dict(_TABLES["manners"])
#: The present and the past of German and English auxiliaries, six persons each.
AUXILIARIES = {name: (present.split(), past.split()) for name, present, past in _TABLES["auxiliaries"]}


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb: its German and English forms, and the English word before the infinitive.

    "be allowed" counts as a form of be; "can" has no such word."""

    present: list[str]
    past: list[str]
    english: list[str]
    link: str


MODALS = {
    name: Modal(present.split(), past.split(), english.split(), link)
    for name, present, past, english, link in _TABLES["modals"]
}

# --- tenses and adverbials of time ------------------------------------------------------------------------------------


class Tense(Enum):
    """The German and the English form of a verb.

    German has fewer tenses in use than English. "Er isst" is "he eats" or "he is eating"; "er hat gegessen" is "he ate"
    or "he has eaten". The adverbial of time selects one, so that every German sentence has one English translation.
    """

    HABIT = ("present", "present")
    NOW = ("present", "progressive")  # with gerade, im Moment
    PAST = ("perfect", "past")
    EXPERIENCE = ("perfect", "perfect")  # with schon, noch nie
    FUTURE = ("future", "future")
    PLAN = ("present", "future")  # with morgen, bald


@dataclass(frozen=True, eq=False, slots=True)
class Time:
    """An adverbial of time with its flags.

    "inner" adverbials (oft, schon) have the position of "nicht", and in English they precede the main verb. "fixed"
    ones never come first. "negative" (nie), "inner" and "positive" ones don't occur with "nicht"."""

    german: str
    english: str
    flags: str = ""


_TIMES = {name: [Time(*cells) for cells in rows] for name, rows in sections(_TABLES, "times").items()}
TIMES = {tense: _TIMES["future" if tense is Tense.PLAN else tense.name.lower()] for tense in Tense}
COMMAND_TIMES = _TIMES["command"]
(NOT_YET,) = _TIMES["not yet"]  # noch nicht, noch kein
