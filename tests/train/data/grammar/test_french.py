"""The English-French grammar: agreement, elision, contraction; and nothing that French does not allow."""

from __future__ import annotations

import itertools
import re

from handloom.train.data.grammar.french import (
    french_pairs,
)


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
