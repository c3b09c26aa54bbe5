"""Makes German-English sentence pairs from a glossary of everyday words, which are rare in the other data sets.

glossary.txt contains words, names, sentences, and patterns into which the words and names fit. A word in a pattern has
the gender and the case that German requires. The text was written for handloom.
"""

from random import Random

from .files import Pair, read_tables, sections

_TABLES = read_tables(__file__, "grammar/glossary.txt")
_PATTERNS = sections(_TABLES, "patterns")
#: Endings after "ein", "mein" and "kein", by case: masculine, feminine, neuter.
_ENDINGS = {"": ("", "e", ""), "en": ("en", "e", ""), "em": ("em", "er", "em")}
#: An article in a pattern -> its forms: masculine, feminine, neuter.
_ARTICLES = {
    "der": ("der", "die", "das"),
    "den": ("den", "die", "das"),
    "dem": ("dem", "der", "dem"),
    **{
        word + case: tuple(word + ending for ending in endings)
        for word in ("ein", "mein", "dein", "kein")
        for case, endings in _ENDINGS.items()
    },
}
#: Kinds of words that occur in more patterns than the others: the model must learn to copy them.
_OFTEN = {"places": 4, "first names": 2, "surnames": 2}
_AUXILIARIES = {"hat": ("habe", "hast", "hat", "haben"), "ist": ("bin", "bist", "ist", "sind")}


def glossary_pairs(each: int, seed: int = 0) -> list[Pair]:
    """Return sentence pairs: each sentence of the glossary and each of its words in a pattern, `each` times.

    Names occur more often. The patterns of a word are random, and the seed determines them.
    """
    random = Random(seed)
    pairs = [(german, english) for german, english in _TABLES["sentences"] for _ in range(each)]
    kinds = [kind for kind in _PATTERNS if kind != "plurals"]
    words = {kind: [_FORMS.get(kind, _as_it_is)(row) for row in _TABLES[kind]] for kind in kinds}
    words["plurals"] = [forms for forms in words["nouns"] if "plural" in forms]
    for kind, patterns in _PATTERNS.items():
        for forms in words[kind]:
            for german, english in random.choices(patterns, k=each * _OFTEN.get(kind, 1)):
                pairs.append((_filled(german, forms), _filled(english, forms)))
    return pairs


def _filled(pattern: str, forms: dict[str, str]) -> str:
    text = pattern.format_map(forms)
    return text[0].upper() + text[1:]


def _as_it_is(row: list[str]) -> dict[str, str]:
    return dict(zip(("german", "english"), row, strict=True))


def _name(row: list[str]) -> dict[str, str]:
    """Return the German and the English form, which is the same if the name has only one cell."""
    return _as_it_is(row if len(row) > 1 else row * 2)


def _noun(row: list[str]) -> dict[str, str]:
    """Return the forms of a noun: with each article, alone, and in English with and without an article."""
    german, english, *plurals = row
    article, noun = german.split(" ", 1)
    noun, _, oblique = noun.partition("|")
    gender = ("der", "die", "das").index(article)
    forms = {
        name: f"{articles[gender]} {(oblique or noun) if name.endswith(('en', 'em')) else noun}"
        for name, articles in _ARTICLES.items()
    }
    forms |= {"noun": noun, "english": english, "a": f"{indefinite(english)} {english}"}
    if plurals:
        forms |= {"plural": plurals[0], "plurals": plurals[1] if len(plurals) > 1 else plural(english)}
    return forms


def _verb(row: list[str]) -> dict[str, str]:
    """Return the forms of a verb: infinitive, participle and auxiliary; infinitive and past in English."""
    german, english, perfect, past = row
    auxiliary, participle = perfect.split(" ", 1)
    forms = zip(("habe", "hast", "hat", "haben"), _AUXILIARIES[auxiliary], strict=True)
    return {**dict(forms), "verb": german, "participle": participle, "english": english, "past": past}


_FORMS = {"nouns": _noun, "mass nouns": _noun, "verbs": _verb, "first names": _name, "surnames": _name, "places": _name}


def indefinite(english: str) -> str:
    """Return the indefinite article of an English noun.

    >>> [indefinite(noun) for noun in ("umbrella", "uniform", "hour", "knife")]
    ['an', 'a', 'an', 'a']
    """
    first = english.lower()
    vowel = first[0] in "aeiou" and not first.startswith(("uni", "use", "usa", "usb", "ute", "euro", "one"))
    return "an" if vowel or first.startswith(("hour", "hono", "heir")) else "a"


def plural(english: str) -> str:
    """Return the regular plural of an English noun.

    >>> [plural(noun) for noun in ("key", "city", "box", "watch", "platform")]
    ['keys', 'cities', 'boxes', 'watches', 'platforms']
    """
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + ("es" if english.endswith(("s", "x", "z", "ch", "sh")) else "s")
