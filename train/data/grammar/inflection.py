"""German inflection: the endings of determiners, adjectives and nouns, and the forms of verbs.

Each table has a row per gender (p: plural of any gender) and a column per case, as in any school grammar.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from .tables import read_tables
from .words import Adjective, Determiner, Modal, Noun, Verb

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)

# A row for each gender, with the forms of the four cases.
_TABLES = read_tables("endings.txt")
_ENDINGS = {name: {gender: tuple(forms) for gender, *forms in rows} for name, rows in _TABLES.items()}
DEFINITE_ARTICLE, RELATIVE_PRONOUN = _ENDINGS["article"], _ENDINGS["relative"]
_DECLENSION_AFTER = {"der": "weak", "dieser": "weak", "ein": "mixed", "strong": "strong", "bare": "strong"}


@cache
def determiner_form(determiner: Determiner, gender: str, case: int) -> str:
    """`determiner_form(INDEFINITE, "m", ACCUSATIVE)` is "einen"."""
    kind = determiner.declension
    if kind == "der":
        return DEFINITE_ARTICLE[gender][case]
    if kind == "bare":
        return determiner.german
    ending = _ENDINGS["ein" if kind == "ein" else "dieser"][gender][case]
    stem = "eur" if determiner.german == "euer" and ending else determiner.german
    return stem + ending


@cache
def adjective_form(adjective: Adjective, determiner: Determiner, gender: str, case: int) -> str:
    """The attributive form after `determiner`: weak after der, mixed after ein, strong where nothing shows the case."""
    stem = adjective.german.removesuffix("e")  # müde, der müde Bär
    if stem.endswith("el"):
        stem = stem[:-2] + "l"  # dunkel, der dunkle Wald
    return stem + _ENDINGS[_DECLENSION_AFTER[determiner.declension]][gender][case]


@cache
def noun_form(noun: Noun, plural: bool, case: int) -> str:
    """The noun in a number and case: den Hunden, des Kindes, dem Piraten."""
    if plural:
        return noun.plural + ("n" if case == DATIVE and noun.plural[-1] not in "ns" else "")
    if noun.weak and case != NOMINATIVE:
        return noun.plural
    if case == GENITIVE and noun.gender != "f":
        syllables = len(_vowel_groups(noun.german))
        return noun.german + ("es" if noun.german.endswith(("s", "ß", "x", "z", "st")) or syllables == 1 else "s")
    return noun.german


def _vowel_groups(word: str) -> list[str]:
    """The vowel groups of a word, one a syllable."""
    vowels = "aeiouäöüy"
    lower = " " + word.lower()
    return [second for first, second in pairwise(lower) if second in vowels and first not in vowels]


# --- verbs ------------------------------------------------------------------------------------------------------------

_PAST_ENDINGS = ("e", "est", "e", "en", "et", "en")  # ich du er wir ihr sie; of modals
_INSEPARABLE = ("be", "ver", "er", "ent", "ge", "zer")
_IRREGULAR_PRESENT = _ENDINGS["present"]
AUXILIARY = _IRREGULAR_PRESENT
WERDEN = AUXILIARY["werden"]
SEIN_PAST = _ENDINGS["past"]["sein"]


def _stem(infinitive: str) -> str:
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]  # les-en, fütter-n


def _linking_e(stem: str) -> str:
    """er arbeit-e-t, er zeichn-e-t, but er wohn-t, er lern-t: an e where the ending could not be spoken."""
    hard_cluster = stem[-1] in "mn" and (stem[-2] not in "aeiouäöürlhmn" or stem.endswith("chn"))
    return "e" if stem[-1] in "td" or hard_cluster else ""


def _with_e(infinitive: str) -> str:
    """ich streichle, but ich füttere, ich spiele."""
    return infinitive[:-3] + "le" if infinitive.endswith("eln") else _stem(infinitive) + "e"


def _second_person(third: str) -> str:
    """du from er: liest, liest; gibt, gibst."""
    stem = third[:-1]
    return third if stem[-1] in "sßxz" else stem + "st"


@cache
def present(verb: Verb, person: int) -> str:
    """The present tense without the separable prefix; person 0 to 5 is ich, du, er, wir, ihr, sie."""
    if forms := _IRREGULAR_PRESENT.get(verb.german):
        return forms[person]
    stem = _stem(verb.german)
    if person in (3, 5):
        return verb.german
    if verb.third and not verb.third.endswith("t"):  # weiß, mag: no ending in ich and er
        if person in (0, 2):
            return verb.third
        if person == 1:
            return verb.third + ("t" if verb.third[-1] == "ß" else "st")
    third = verb.third or stem + _linking_e(stem) + "t"
    if person == 2:
        return third
    if person == 1:
        return _second_person(third)
    return _with_e(verb.german) if person == 0 else stem + _linking_e(stem) + "t"


@cache
def participle(verb: Verb) -> str:
    """The past participle: aufgemacht, verkauft, probiert, gegessen."""
    strong = verb.participle
    if strong:
        return verb.prefix + strong
    stem = _stem(verb.german)
    ge = "" if verb.german.startswith(_INSEPARABLE) or verb.german.endswith("ieren") else "ge"
    return verb.prefix + ge + stem + _linking_e(stem) + "t"


@cache
def zu_infinitive(verb: Verb) -> str:
    """zu essen, aufzumachen."""
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"


@cache
def imperative(verb: Verb, person: int) -> str:
    """The command to one (du, 1) or several (ihr, 4): gib, gebt; only e to i changes its stem (lies, but schlaf)."""
    if person == 4:
        return present(verb, 4)
    stem = _stem(verb.german)
    if "e" in stem and "i" in verb.third:
        return verb.third[:-1]
    return _with_e(verb.german) if _linking_e(stem) or verb.german.endswith(("ern", "eln", "ieren")) else stem


@cache
def modal_present(modal: Modal, person: int) -> str:
    """ich kann, du kannst, er kann, wir können."""
    if person in (3, 5):
        return modal.german
    if person == 4:
        return _stem(modal.german) + "t"
    second = "t" if modal.singular[-1] == "s" else "st"
    return modal.singular + (second if person == 1 else "")


@cache
def modal_past(modal: Modal, person: int) -> str:
    """ich konnte, du konntest, er konnte."""
    return modal.past + _PAST_ENDINGS[person]
