"""English-French sentence pairs from a small grammar, with the words of french.txt.

It follows these rules: agreement in gender and number of determiner, adjective, predicate and the participle after
être; elision (l'arbre, j'admire, n'oublie, parce qu'il); contraction (au, aux, du, des); bel, vieil and nouvel before a
vowel; de before a plural adjective that precedes its noun; ne ... pas around the verb that is conjugated.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from ..files import Pair, read_tables, sections


class FrenchNoun(NamedTuple):
    """A noun: its singular and plural in both languages."""

    english: list[str]
    french: list[str]
    feminine: bool


class FrenchAdjective(NamedTuple):
    """An adjective: French masculine, feminine and their plurals, and whether it comes before the noun.

    `before_vowel` is the masculine singular before a vowel (bel, vieil, nouvel) where it differs.
    """

    english: str
    french: list[str]
    precedes: bool
    before_vowel: str


class FrenchVerb(NamedTuple):
    """A verb. The French verbs end in -er and are regular, so the stem determines all forms.

    `with_etre` builds the past with être, whose participle agrees with the subject.
    """

    english: str
    third: str
    past: str
    stem: str
    with_etre: str = ""


class NounPhrase(NamedTuple):
    """A noun phrase in both languages, with the features that other words agree with. `person` is 1 or 3."""

    english: str
    french: str
    feminine: bool
    plural: bool
    person: int = 3

    @property
    def ending(self) -> int:
        """The column of the phrase's form in a verb's table: je, il, nous, ils."""
        return (self.person == 3) + 2 * self.plural


def _noun(english: str, french: str, english_plural: str = "", french_plural: str = "") -> FrenchNoun:
    article, french = french.split(" ", 1)
    return FrenchNoun(
        [english, english_plural or english + "s"], [french, french_plural or french + "s"], article == "la"
    )


def _adjective(english: str, *cells: str) -> FrenchAdjective:
    precedes, before_vowel = (*cells[4:], "", "")[:2]
    return FrenchAdjective(english, list(cells[:4]), bool(precedes), before_vowel or cells[0])


_TABLES = read_tables(__file__, "french.txt")
PEOPLE, ANIMALS, THINGS, PLACES = (
    [_noun(*cells) for cells in _TABLES[name]] for name in ("people", "animals", "things", "places")
)
ADJECTIVES, MOODS = ([_adjective(*cells) for cells in _TABLES[name]] for name in ("adjectives", "moods"))
TRANSITIVE, INTRANSITIVE = ([FrenchVerb(*cells) for cells in _TABLES[name]] for name in ("transitive", "intransitive"))
ADVERBS = sections(_TABLES, "adverbs")  # by tense: present, past, future
_TENSES = list(ADVERBS)
_DETERMINERS = {english: forms for english, *forms in _TABLES["determiners"]}
_FORMS = {name: forms for name, *forms in _TABLES["forms"]}
_PRONOUNS = [  # words of unknown gender can't be the subject of être with a participle
    NounPhrase("I", "je", False, False, 1),
    NounPhrase("we", "nous", False, True, 1),
    NounPhrase("he", "il", False, False),
    NounPhrase("she", "elle", True, False),
]
_BE = {"present": ["is", "are"], "past": ["was", "were"], "future": ["will be", "will be"]}
_LINKS = (("and", "et"), ("but", "mais"), ("because", "parce que"))


def starts_with_vowel(word: str) -> bool:
    """Return whether a word causes elision of the word before it; every h of this lexicon is mute."""
    return word[0].lower() in "aeiouyéèêâîôh"


def elide(word: str, following: str) -> str:
    """Join `word` and `following`; je, ne, de and que are elided before a vowel."""
    if starts_with_vowel(following) and word in ("je", "ne", "de", "que", "parce que"):
        return word[:-1] + "'" + following
    return f"{word} {following}"


def contract(preposition: str, phrase: str) -> str:
    """Contract à and de before le and les to au, aux, du and des; l' and la are unchanged."""
    for article, forms in (("le ", {"à": "au ", "de": "du "}), ("les ", {"à": "aux ", "de": "des "})):
        if phrase.startswith(article):
            return forms[preposition] + phrase.removeprefix(article)
    return elide(preposition, phrase)


def noun_phrase(
    noun: FrenchNoun, determiner: str, plural: bool = False, adjective: FrenchAdjective | None = None
) -> NounPhrase:
    """Join determiner, adjective and noun, in the order and the forms of each language."""
    english, french = noun.english[plural], noun.french[plural]
    plural_before, *articles = _DETERMINERS[determiner]
    before = plural_before if plural else determiner
    if adjective:
        english = f"{adjective.english} {english}"
        form = adjective.french[noun.feminine + 2 * plural]
        if adjective.precedes and not plural and not noun.feminine and starts_with_vowel(french):
            form = adjective.before_vowel
        french = f"{form} {french}" if adjective.precedes else f"{french} {form}"
    if before == "a" and english[0] in "aeiou":
        before = "an"
    article = articles[4 if plural else 2 * starts_with_vowel(french) + noun.feminine]
    if article == "des" and adjective and adjective.precedes:
        article = "de"
    french = article + ("" if article.endswith("'") else " ") + french
    return NounPhrase(f"{before} {english}".strip(), french, noun.feminine, plural)


def negate(finite: str) -> str:
    """Put ne ... pas around the verb that is conjugated."""
    return elide("ne", finite) + " pas"


def verb_phrase(verb: FrenchVerb, tense: str, subject: NounPhrase, negated: bool) -> Pair:
    """Return the verb of a clause in both languages, without its subject."""
    third, rest = subject.person == 3 and not subject.plural, ""
    if tense == "future":
        english = f"will {'not ' * negated}{verb.english}"
    elif negated:
        english = f"{'did' if tense == 'past' else 'does' if third else 'do'} not {verb.english}"
    else:
        english = verb.past if tense == "past" else verb.third if third else verb.english
    if tense == "past":
        finite, rest = _FORMS["être present" if verb.with_etre else "avoir"][subject.ending], f" {verb.stem}é"
        if verb.with_etre:
            rest += "e" * subject.feminine + "s" * subject.plural
    else:
        finite = verb.stem + _FORMS[tense][subject.ending]
    return english, (negate(finite) if negated else finite) + rest


class FrenchStories:
    """A generator of random clauses and sentences."""

    def __init__(self, rng: random.Random):
        self.choice, self.random = rng.choice, rng.random

    def person(self) -> NounPhrase:
        """Return a subject: mostly a noun phrase, sometimes a pronoun."""
        if self.random() < 0.25:
            return self.choice(_PRONOUNS)
        noun = self.choice(PEOPLE + ANIMALS)
        mood = self.choice(MOODS) if self.random() < 0.25 else None
        return noun_phrase(noun, self.choice(("the", "the", "a", "this", "my", "our")), self.random() < 0.3, mood)

    def thing(self) -> NounPhrase:
        """Return an object, sometimes with its owner: the teacher's book, le livre du professeur."""
        if self.random() < 0.15:
            owner, thing = noun_phrase(self.choice(PEOPLE), "the"), self.choice(THINGS)
            french = f"{noun_phrase(thing, 'the').french} {contract('de', owner.french)}"
            return NounPhrase(f"{owner.english}'s {thing.english[0]}", french, thing.feminine, False)
        if self.random() < 0.2:
            return noun_phrase(self.choice(PEOPLE + ANIMALS), self.choice(("the", "a", "this")))
        adjective = self.choice(ADJECTIVES) if self.random() < 0.5 else None
        determiner = self.choice(("the", "a", "this", "my", "our"))
        return noun_phrase(self.choice(THINGS), determiner, self.random() < 0.3, adjective)

    def place(self) -> Pair:
        """Return a phrase that says where something happens."""
        english, french, *_ = noun_phrase(self.choice(PLACES), "the")
        places = [("near", f"près {contract('de', french)}"), ("behind", f"derrière {french}")]
        places += [("in front of", f"devant {french}"), ("at", contract("à", french))]
        preposition, there = self.choice(places)
        return f"{preposition} {english}", there

    def clause(self, tense: str) -> Pair:
        """Return the subject and the predicate of a clause."""
        kind, negated = self.random(), self.random() < 0.2
        subject = self.person()
        if kind < 0.2:
            mood = self.choice(MOODS)
            while subject.person == 1:  # whose gender nobody knows
                subject = self.person()
            return self.predicate(subject, mood, tense, negated)
        if kind < 0.7:
            verb = verb_phrase(self.choice(TRANSITIVE), tense, subject, negated)
            thing = self.thing()
            if negated and thing.french.startswith(("un ", "une ", "des ", "de ")):
                # After ne ... pas the indefinite article would become de, so the definite article is used.
                thing = noun_phrase(self.choice(THINGS), "the")
            parts = [verb, thing[:2]]
        else:
            intransitive = self.choice(INTRANSITIVE)
            while intransitive.with_etre and subject.person == 1:
                intransitive = self.choice(INTRANSITIVE)
            parts = [verb_phrase(intransitive, tense, subject, negated)]
        if kind >= 0.7 or self.random() < 0.3:
            parts.append(self.place())
        english, french = (" ".join(words) for words in zip(*parts, strict=True))
        return f"{subject.english} {english}", elide(subject.french, french)

    def predicate(self, subject: NounPhrase, mood: FrenchAdjective, tense: str, negated: bool) -> Pair:
        """Describe somebody in a clause in the present, imparfait or future, sometimes with a relative clause."""
        english, french, *_ = subject
        if subject not in _PRONOUNS and self.random() < 0.5:
            verb = verb_phrase(self.choice(TRANSITIVE), "past" if tense == "past" else "present", subject, False)
            thing = self.thing()
            english += f" that {verb[0]} {thing.english}"
            french += f" qui {verb[1]} {thing.french}"
        be, finite = _BE[tense][subject.plural], _FORMS[f"être {tense}"][subject.ending]
        if negated:
            be, finite = "will not be" if tense == "future" else be + " not", negate(finite)
        form = mood.french[subject.feminine + 2 * subject.plural]
        return f"{english} {be} {mood.english}", f"{french} {finite} {form}"

    def sentence(self) -> Pair:
        """Return a random sentence of one to four clauses."""
        tense = self.choice(_TENSES)
        english, french = self.clause(tense)
        if self.random() < 0.35:
            adverb = self.choice(ADVERBS[tense])
            if self.random() < 0.5:
                english, french = f"{adverb[0]}, {english}", f"{adverb[1]}, {french}"
            else:
                english, french = f"{english} {adverb[0]}", f"{french} {adverb[1]}"
        joins = 0
        while joins < 3 and self.random() < 0.3:
            joins += 1
            more, link = self.clause(tense), self.choice(_LINKS)
            comma = "," * (link[0] == "but")
            english, french = f"{english}{comma} {link[0]} {more[0]}", f"{french}{comma} {elide(link[1], more[1])}"
        return english[0].upper() + english[1:] + ".", french[0].upper() + french[1:] + "."


def french_pairs(seed: int = 0) -> Iterator[Pair]:
    """Yield random (English, French) pairs without end. The same seed gives the same pairs."""
    stories = FrenchStories(random.Random(seed))
    while True:
        yield stories.sentence()
