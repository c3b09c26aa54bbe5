"""English-French sentence pairs from a small grammar.

It holds to what makes French agree: gender and number of determiner, adjective, predicate and the participle after
être; elision (l'arbre, j'admire, n'oublie, parce qu'il); contraction (au, aux, du, des); bel, vieil and nouvel before a
vowel; de before a plural adjective that precedes its noun; ne ... pas around the verb that is conjugated.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from .tables import read_tables

Pair = tuple[str, str]  # English, French


class FrenchNoun(NamedTuple):
    """A noun in both languages, singular and plural."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool


class FrenchAdjective(NamedTuple):
    """An adjective: French forms, and whether it stands before the noun.

    `before_vowel` is the masculine singular before a vowel (bel, vieil, nouvel) where it differs.
    """

    english: str
    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    precedes: str = ""
    before_vowel: str = ""


class FrenchVerb(NamedTuple):
    """A verb in both languages; French verbs end in -er and are regular, so the stem says all.

    `with_etre` builds the past with être, whose participle agrees with the subject.
    """

    english: str
    third: str
    past: str
    stem: str
    with_etre: str = ""


def _noun(english: str, french: str, english_plural: str = "", french_plural: str = "") -> FrenchNoun:
    article, french = french.split(" ", 1)
    plurals = english_plural or english + "s", french_plural or french + "s"
    return FrenchNoun(english, plurals[0], french, plurals[1], article == "la")


_TABLES = read_tables("french.txt")
PEOPLE, ANIMALS, THINGS, PLACES = (
    [_noun(*cells) for cells in _TABLES[name]] for name in ("people", "animals", "things", "places")
)
ADJECTIVES, MOODS = ([FrenchAdjective(*cells) for cells in _TABLES[name]] for name in ("adjectives", "moods"))
TRANSITIVE, INTRANSITIVE = ([FrenchVerb(*cells) for cells in _TABLES[name]] for name in ("transitive", "intransitive"))


class NounPhrase(NamedTuple):
    """A noun phrase in both languages, and what agrees with it. `person` is 1 or 3."""

    english: str
    french: str
    feminine: bool
    plural: bool
    person: int = 3


class Tense(NamedTuple):
    """A tense with the adverbs that go with it."""

    name: str
    adverbs: tuple[Pair, ...]


PRESENT = Tense("present", (("every day", "chaque jour"), ("in the morning", "le matin"), ("in winter", "en hiver")))
PAST = Tense("past", (("yesterday", "hier"), ("last week", "la semaine dernière"), ("last night", "la nuit dernière")))
FUTURE = Tense("future", (("tomorrow", "demain"), ("next year", "l'année prochaine"), ("soon", "bientôt")))

_DETERMINERS = {  # English singular, plural; French masculine, feminine, before a vowel (m, f), plural
    "the": ("the", "the", "le ", "la ", "l'", "l'", "les "),
    "a": ("a", "", "un ", "une ", "un ", "une ", "des "),
    "this": ("this", "these", "ce ", "cette ", "cet ", "cette ", "ces "),
    "my": ("my", "my", "mon ", "ma ", "mon ", "mon ", "mes "),
    "our": ("our", "our", "notre ", "notre ", "notre ", "notre ", "nos "),
}
_PRONOUNS = [  # those of unknown gender can't be the subject of être with a participle
    NounPhrase("I", "je", False, False, 1),
    NounPhrase("we", "nous", False, True, 1),
    NounPhrase("he", "il", False, False),
    NounPhrase("she", "elle", True, False),
]
_ETRE = {
    "present": ("suis", "est", "sommes", "sont"),
    "past": ("étais", "était", "étions", "étaient"),
    "future": ("serai", "sera", "serons", "seront"),
}
_AVOIR = ("ai", "a", "avons", "ont")
_ENDINGS = {"present": ("e", "e", "ons", "ent"), "future": ("erai", "era", "erons", "eront")}


def starts_with_vowel(word: str) -> bool:
    """Whether a word elides the word before it; every h of this lexicon is mute."""
    return word[0].lower() in "aeiouyéèêâîôh"


def elide(word: str, following: str) -> str:
    """`word` and `following`, with je, ne, de and que cut short before a vowel."""
    if starts_with_vowel(following) and word in ("je", "ne", "de", "que", "parce que"):
        return word[:-1] + "'" + following
    return f"{word} {following}"


def contract(preposition: str, phrase: str) -> str:
    """à and de before le and les become au, aux, du and des; l' and la stay."""
    for article, forms in (("le ", {"à": "au ", "de": "du "}), ("les ", {"à": "aux ", "de": "des "})):
        if phrase.startswith(article):
            return forms[preposition] + phrase.removeprefix(article)
    return elide(preposition, phrase)


def agree(adjective: FrenchAdjective, feminine: bool, plural: bool) -> str:
    """The form of the adjective."""
    if plural:
        return adjective.feminine_plural if feminine else adjective.masculine_plural
    return adjective.feminine if feminine else adjective.masculine


def noun_phrase(
    noun: FrenchNoun, determiner: str, plural: bool = False, adjective: FrenchAdjective | None = None
) -> NounPhrase:
    """Determiner, adjective and noun, in the order and the forms of each language."""
    french = noun.french_plural if plural else noun.french
    precedes = bool(adjective and adjective.precedes)
    if adjective is not None:
        form = agree(adjective, noun.feminine, plural)
        if precedes and not plural and not noun.feminine and adjective.before_vowel and starts_with_vowel(french):
            form = adjective.before_vowel
        french = f"{form} {french}" if precedes else f"{french} {form}"
    english_forms, forms = _DETERMINERS[determiner][:2], _DETERMINERS[determiner][2:]
    if plural:
        article = "de " if determiner == "a" and precedes else forms[4]
    else:
        article = forms[2 * starts_with_vowel(french) + noun.feminine]
    english = f"{adjective.english} " if adjective else ""
    english += noun.english_plural if plural else noun.english
    before = english_forms[plural]
    if before == "a" and english[0] in "aeiou":
        before = "an"
    return NounPhrase(f"{before} {english}".strip(), article + french, noun.feminine, plural)


def verb_phrase(verb: FrenchVerb, tense: Tense, subject: NounPhrase, negated: bool) -> Pair:
    """The verb of a clause in both languages, without its subject; French with ne ... pas where it is negated."""
    ending = (subject.person == 3) + 2 * subject.plural
    singular_third = subject.person == 3 and not subject.plural
    if tense is PRESENT:
        english = verb.third if singular_third else verb.english
        if negated:
            english = f"{'does' if singular_third else 'do'} not {verb.english}"
    elif tense is PAST:
        english = f"did not {verb.english}" if negated else verb.past
    else:
        english = f"will {'not ' * negated}{verb.english}"
    if tense is PAST:
        participle = verb.stem + "é"
        if verb.with_etre:
            participle += "e" * subject.feminine + "s" * subject.plural
        finite, rest = (_ETRE["present"] if verb.with_etre else _AVOIR)[ending], " " + participle
    else:
        finite, rest = verb.stem + _ENDINGS[tense.name][ending], ""
    return english, (elide("ne", finite) + " pas" if negated else finite) + rest


def with_subject(subject: NounPhrase, verb: str) -> str:
    """French subject and verb: j' before a vowel."""
    return elide(subject.french, verb) if subject.french == "je" else f"{subject.french} {verb}"


class FrenchStories:
    """Draws clauses and sentences."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def person(self, pronouns: bool = True) -> NounPhrase:
        """A subject: mostly a noun phrase, sometimes a pronoun."""
        if pronouns and self.rng.random() < 0.25:
            return self.rng.choice(_PRONOUNS)
        noun = self.rng.choice(PEOPLE + ANIMALS)
        mood = self.rng.choice(MOODS) if self.rng.random() < 0.25 else None
        determiner = self.rng.choice(("the", "the", "a", "this", "my", "our"))
        return noun_phrase(noun, determiner, self.rng.random() < 0.3, mood)

    def thing(self) -> NounPhrase:
        """An object, sometimes with its owner: the teacher's book, le livre du professeur."""
        if self.rng.random() < 0.15:
            owner = noun_phrase(self.rng.choice(PEOPLE), "the")
            noun = self.rng.choice(THINGS)
            plain = noun_phrase(noun, "the")
            english = f"{owner.english}'s {noun.english}"
            return NounPhrase(english, f"{plain.french} {contract('de', owner.french)}", noun.feminine, False)
        if self.rng.random() < 0.2:
            return noun_phrase(self.rng.choice(PEOPLE + ANIMALS), self.rng.choice(("the", "a", "this")))
        adjective = self.rng.choice(ADJECTIVES) if self.rng.random() < 0.5 else None
        determiner = self.rng.choice(("the", "a", "this", "my", "our"))
        return noun_phrase(self.rng.choice(THINGS), determiner, self.rng.random() < 0.3, adjective)

    def place(self) -> Pair:
        """Where something happens."""
        place = noun_phrase(self.rng.choice(PLACES), "the")
        return self.rng.choice(
            [
                (f"near {place.english}", f"près {contract('de', place.french)}"),
                (f"behind {place.english}", f"derrière {place.french}"),
                (f"in front of {place.english}", f"devant {place.french}"),
                (f"at {place.english}", contract("à", place.french)),
            ]
        )

    def clause(self, tense: Tense) -> Pair:
        """Subject and predicate."""
        kind, negated = self.rng.random(), self.rng.random() < 0.2
        if kind < 0.2:
            subject, mood = self.person(), self.rng.choice(MOODS)
            while subject.person == 1:  # whose gender nobody knows
                subject = self.person()
            return self.predicate(subject, mood, tense, negated)
        subject = self.person()
        if kind < 0.7:
            english, french = verb_phrase(self.rng.choice(TRANSITIVE), tense, subject, negated)
            thing = self.thing()
            if negated and thing.french.startswith(("un ", "une ", "des ", "de ")):
                # After ne ... pas the indefinite article would become de: the definite one serves as well.
                thing = noun_phrase(self.rng.choice(THINGS), "the")
            english, french = f"{english} {thing.english}", f"{french} {thing.french}"
        else:
            verb = self.rng.choice(INTRANSITIVE)
            while verb.with_etre and subject.person == 1:
                verb = self.rng.choice(INTRANSITIVE)
            english, french = verb_phrase(verb, tense, subject, negated)
        if kind >= 0.7 or self.rng.random() < 0.3:
            place = self.place()
            english, french = f"{english} {place[0]}", f"{french} {place[1]}"
        return f"{subject.english} {english}", with_subject(subject, french)

    def predicate(self, subject: NounPhrase, mood: FrenchAdjective, tense: Tense, negated: bool) -> Pair:
        """Somebody is, was (imparfait) or will be somehow; sometimes with a relative clause."""
        relative = ("", "")
        if subject not in _PRONOUNS and self.rng.random() < 0.5:
            english, french = verb_phrase(
                self.rng.choice(TRANSITIVE), PAST if tense is PAST else PRESENT, subject, False
            )
            thing = self.thing()
            relative = f" that {english} {thing.english}", f" qui {french} {thing.french}"
        ending = 1 + 2 * subject.plural
        forms = {"present": ("is", "are"), "past": ("was", "were"), "future": ("will be", "will be")}
        be = forms[tense.name][subject.plural]
        if negated:
            be = "will not be" if tense is FUTURE else be + " not"
        finite = _ETRE[tense.name][ending]
        finite = elide("ne", finite) + " pas" if negated else finite
        form = agree(mood, subject.feminine, subject.plural)
        return (
            f"{subject.english}{relative[0]} {be} {mood.english}",
            f"{subject.french}{relative[1]} {finite} {form}",
        )

    def sentence(self) -> Pair:
        """A sentence of one clause, or of up to four."""
        tense = self.rng.choice((PRESENT, PAST, FUTURE))
        english, french = self.clause(tense)
        if self.rng.random() < 0.35:
            adverb = self.rng.choice(tense.adverbs)
            if self.rng.random() < 0.5:
                english, french = f"{adverb[0]}, {english}", f"{adverb[1]}, {french}"
            else:
                english, french = f"{english} {adverb[0]}", f"{french} {adverb[1]}"
        joins = 0
        while joins < 3 and self.rng.random() < 0.3:
            joins += 1
            more = self.clause(tense)
            link = self.rng.choice((("and", "et"), ("but", "mais"), ("because", "parce que")))
            english = f"{english}{',' * (link[0] == 'but')} {link[0]} {more[0]}"
            french = f"{french}{',' * (link[0] == 'but')} {elide(link[1], more[1])}"
        return english[0].upper() + english[1:] + ".", french[0].upper() + french[1:] + "."


def french_pairs(seed: int = 0) -> Iterator[Pair]:
    """Endless random (English, French) pairs; the same seed gives the same ones."""
    stories = FrenchStories(random.Random(seed))
    while True:
        yield stories.sentence()
