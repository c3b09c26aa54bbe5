"""The English-French grammar: agreement, elision, contraction; and nothing that French does not allow."""

from __future__ import annotations

import itertools
import re

import pytest

from handloom.train.data.grammar.french import (
    ADJECTIVES,
    MOODS,
    PEOPLE,
    PLACES,
    THINGS,
    french_pairs,
    noun_phrase,
)

NOUNS = {noun.english[0]: noun for noun in [*PEOPLE, *THINGS, *PLACES]}
QUALITIES = {adjective.english: adjective for adjective in [*ADJECTIVES, *MOODS]}


@pytest.mark.parametrize(
    ("noun", "determiner", "plural", "adjective", "english", "french"),
    [
        ("tree", "the", False, None, "the tree", "l'arbre"),
        ("tree", "the", False, "old", "the old tree", "le vieil arbre"),
        ("tree", "this", False, "beautiful", "this beautiful tree", "ce bel arbre"),
        ("tree", "this", False, "green", "this green tree", "cet arbre vert"),
        ("tree", "a", True, "small", "small trees", "de petits arbres"),
        ("tree", "a", True, "green", "green trees", "des arbres verts"),
        ("picture", "my", False, None, "my picture", "mon image"),
        ("picture", "my", False, "new", "my new picture", "ma nouvelle image"),
        ("umbrella", "a", False, None, "an umbrella", "un parapluie"),
        ("coat", "our", True, "old", "our old coats", "nos vieux manteaux"),
        ("man", "the", True, "brave", "the brave men", "les hommes courageux"),
    ],
)
def test_noun_phrases(noun, determiner, plural, adjective, english, french) -> None:
    phrase = noun_phrase(NOUNS[noun], determiner, plural, adjective and QUALITIES[adjective])
    assert (phrase.english, phrase.french) == (english, french)


def test_no_sentence_breaks_a_rule() -> None:
    vowel = "[aeiouyéèêâîôh]"
    forbidden = [
        rf"\b(je|ne|de|la|le|que|ma|ce) {vowel}",  # not elided
        r"\b(à|de) les?\b",  # not contracted
        r"\b(beau|nouveau|vieux) (arbre|enfant|ami|oiseau|homme)\b",
        r"  |,,| ,| \.",
        r"\bdes (petits|petites|grands|grandes|vieux|vieilles|nouveaux|nouvelles|beaux|belles)\b",
    ]
    for english, french in itertools.islice(french_pairs(2), 4000):
        for pattern in forbidden:
            assert not re.search(pattern, french, re.IGNORECASE), (pattern, french)
        assert re.fullmatch(r"[A-Z][\w' ,]*\.", english), english
        assert re.fullmatch(r"[A-Z][\w' ,]*\.", french), french
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", english), english
        assert ("not" in english.split()) == ("pas" in french.split()), (english, french)
