"""The forms of German words: articles, adjective endings, noun cases, personal pronouns and verbs."""

from __future__ import annotations

from functools import cache

from .lexicon import Adjective, Determiner, Noun
from .verbs import Modal, Verb, needs_e, stem

# The definite article, also the relative pronoun but for the dative plural; columns m, f, n, plural.
_DER = {
    "nominative": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "accusative": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "genitive": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
# dieser, jeder; what an adjective takes where no article shows the case.
_DIESER = {
    "nominative": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "accusative": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dative": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "genitive": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
# ein, kein, mein: like dieser, but bare in three places.
_EIN = {case: dict(endings) for case, endings in _DIESER.items()}
_EIN["nominative"] |= {"m": "", "n": ""}
_EIN["accusative"] |= {"n": ""}

_PRONOUNS = {
    "nominative": {"m": "er", "f": "sie", "n": "es", "p": "sie"},
    "accusative": {"m": "ihn", "f": "sie", "n": "es", "p": "sie"},
    "dative": {"m": "ihm", "f": "ihr", "n": "ihm", "p": "ihnen"},
}

_CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "von dem": "vom", "zu dem": "zum", "zu der": "zur"
}  # fmt: skip


def gender_key(noun: Noun, plural: bool) -> str:
    """The column of the tables: the gender, or "p" for every plural."""
    return "p" if plural else noun.gender


def determiner_form(determiner: Determiner, case: str, key: str) -> str:
    """The article or pronoun: den, einem, diese, "" for none. `key` is m, f, n or p."""
    if determiner.declension == "der":
        return _DER[case][key]
    if determiner.declension == "bare" or (key == "p" and determiner.german == "ein"):
        return determiner.german
    endings = _EIN if determiner.declension == "ein" else _DIESER
    return determiner.german + endings[case][key]


def adjective_ending(declension: str, case: str, key: str) -> str:
    """The ending of an adjective after a determiner of that declension.

    Weak after der and dieser. After ein it is weak too, but where ein is bare the adjective shows the gender.
    Strong where there is no article (heißer Tee, zwei rote Äpfel).
    """
    if declension in ("bare", "strong"):
        # des alten Weins: in the genitive the noun shows the case already
        return "en" if case == "genitive" and key in "mn" else _DIESER[case][key]
    if declension == "ein" and key != "p" and _EIN[case][key] == "":
        return _DIESER[case][key]
    if case == "nominative" and key != "p":
        return "e"
    if case == "accusative" and key in "fn":
        return "e"
    return "en"


def adjective_form(adjective: Adjective, ending: str) -> str:
    """The stem and the ending; dunkel and müde lose an e: dunkle, müde."""
    stem = "dunkl" if adjective.german == "dunkel" else adjective.german.removesuffix("e")
    return stem + ending


@cache
def noun_form(noun: Noun, plural: bool, case: str) -> str:
    """The noun in a case: den Bären, des Hundes, mit den Hunden."""
    if plural:
        return noun.plural + ("n" if case == "dative" and not noun.plural.endswith(("n", "s")) else "")
    if noun.weak and case != "nominative":
        return noun.plural
    if case == "genitive" and noun.gender != "f":
        return noun.german + ("es" if noun.german.endswith(("s", "ß", "z", "d", "t")) else "s")
    return noun.german


def pronoun_form(case: str, key: str) -> str:
    """er, sie, es, sie in a case."""
    return _PRONOUNS[case][key]


def relative_pronoun(case: str, key: str) -> str:
    """der, den, dem and so on; the dative plural is denen."""
    return "denen" if (case, key) == ("dative", "p") else _DER[case][key]


def with_preposition(preposition: str, phrase: str) -> str:
    """The preposition and the phrase, contracted where German contracts: in dem Garten -> im Garten."""
    article, _, rest = phrase.partition(" ")
    short = _CONTRACTIONS.get(f"{preposition} {article}")
    return f"{short} {rest}" if short else f"{preposition} {phrase}"


# --- verbs: persons are numbered ich 0, du 1, er/sie/es 2, wir 3, ihr 4, sie 5 ----------------------------------------

SEIN = {
    "present": ["bin", "bist", "ist", "sind", "seid", "sind"],
    "past": ["war", "warst", "war", "waren", "wart", "waren"],
}
HABEN = ["habe", "hast", "hat", "haben", "habt", "haben"]
WERDEN = ["werde", "wirst", "wird", "werden", "werdet", "werden"]
_IRREGULAR = {"haben": HABEN, "wissen": ["weiß", "weißt", "weiß", "wissen", "wisst", "wissen"]}


def _past_forms(third: str) -> list[str]:
    """War, las, spielte in all persons."""
    du = third + ("est" if third.endswith(("s", "ß", "d", "t")) else "st")
    ihr = third + ("et" if third.endswith("d") else "t")
    plural = third + ("n" if third.endswith("e") else "en")
    return [third, du, third, plural, ihr, plural]


def _present_forms(infinitive: str, third: str) -> list[str]:
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive]
    root = stem(infinitive)
    ich = root[:-2] + "le" if root.endswith("el") else root + "e"
    if not third.endswith("t"):  # ich mag, er mag
        ich, du = third, third + ("t" if third.endswith("s") else "st")
    else:
        du = third if third[:-1].endswith(("s", "ß", "z")) else third[:-1] + "st"
    ihr = root + ("et" if needs_e(root) else "t")
    return [ich, du, third, infinitive, ihr, infinitive]


@cache
def verb_forms(verb: Verb | Modal, tense: str) -> list[str]:
    """The finite forms for the six persons, without a separable prefix; tense is "present" or "past"."""
    return _past_forms(verb.past) if tense == "past" else _present_forms(verb.infinitive, verb.third)


def zu_infinitive(verb: Verb) -> str:
    """zu essen, aufzumachen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"


def imperative(verb: Verb) -> str:
    """The form for du, without a separable prefix: hilf, lies, öffne, schlaf."""
    root, changed = stem(verb.infinitive), verb.third.removesuffix("t")
    if changed != root and "i" in changed and not needs_e(root):  # nimm, lies; but schlaf, not schläf
        return changed
    return root + ("e" if needs_e(root) or root.endswith("er") else "")
