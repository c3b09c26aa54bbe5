"""English inflection: plurals, the forms of verbs, a and an, the possessive, and the verb group with do-support."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from .words import Modal, Noun, Verb

_BE_PRESENT = ("am", "are", "is", "are", "are", "are")
_BE_PAST = ("was", "were", "was", "were", "were", "were")
_DOUBLED = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")  # run, put: one short syllable

# Auxiliaries and their contractions with not; the others add n't.
_NOT = {"am": "'m not", "can": "can't", "will": "won't"}


def add_s(word: str) -> str:
    """The -s of plurals and third persons: boxes, stories, goes, keys."""
    if re.search(r"(s|x|z|ch|sh|o)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


@cache
def noun_form(noun: Noun, plural: bool) -> str:
    """The English noun in its number; in a compound of several words the last one takes the -s."""
    return (noun.english_plural or add_s(noun.english)) if plural else noun.english


def indefinite_article(next_word: str) -> str:
    """`a` or `an` by the first letter, which is enough for the words of this grammar."""
    return "an" if next_word[0] in "aeiou" else "a"


def possessive(owner: str) -> str:
    """the pirate's, the pirates', the children's"""
    return owner + ("'" if owner.endswith("s") and not owner.endswith("ss") else "'s")


# --- verbs ------------------------------------------------------------------------------------------------------------


@cache
def verb_forms(principal_parts: str) -> tuple[str, str, str, str, str]:
    """Base, third person, past, past participle and -ing form from "eat/ate/eaten" or just "walk"."""
    base, *irregular = principal_parts.split("/")
    third = "has" if base == "have" else add_s(base)
    ending_y = re.fullmatch(r".*[^aeiou]y", base)
    doubled = base + base[-1] if _DOUBLED.fullmatch(base) else base
    if irregular:
        past, past_participle = irregular
    else:
        past = base + "d" if base.endswith("e") else base[:-1] + "ied" if ending_y else doubled + "ed"
        past_participle = past
    if base.endswith("ie"):
        ing = base[:-2] + "ying"
    elif base.endswith("e") and not base.endswith("ee"):
        ing = base[:-1] + "ing"
    else:
        ing = doubled + "ing"
    return base, third, past, past_participle, ing


class VerbGroup(NamedTuple):
    """The auxiliary, if there is one, and the rest: ("is", "eating"), ("", "ate"), ("does", "want to eat")."""

    auxiliary: str
    main: str

    def negated(self) -> VerbGroup:
        """doesn't eat, isn't eating, can't eat; needs an auxiliary."""
        return VerbGroup(_NOT.get(self.auxiliary, self.auxiliary + "n't"), self.main)


def be(person: int, past: bool) -> str:
    """am, are, is; was, were."""
    return (_BE_PAST if past else _BE_PRESENT)[person]


def _simple(parts: str, person: int, past: bool, with_do: bool) -> VerbGroup:
    base, third, past_form, _, _ = verb_forms(parts)
    if with_do:
        return VerbGroup("did" if past else ("does" if person == 2 else "do"), base)
    return VerbGroup("", past_form if past else (third if person == 2 else base))


def modal_group(modal: Modal, verb: Verb, person: int, past: bool, with_do: bool) -> VerbGroup:
    """can eat; has to eat, does not have to eat; is allowed to eat."""
    infinitive = verb_forms(verb.english)[0]
    if modal.english == "can":
        return VerbGroup("could" if past else "can", infinitive)
    if modal.english == "be":
        return VerbGroup(be(person, past), f"{modal.link} {infinitive}")
    auxiliary, main = _simple(modal.english, person, past, with_do)
    return VerbGroup(auxiliary, f"{main} {modal.link} {infinitive}")


def tense_group(verb: Verb, person: int, tense: str, with_do: bool) -> VerbGroup:
    """The verb in "present", "past", "progressive", "perfect" or "future".

    `with_do`: the clause is a question or negated, so a simple tense needs the auxiliary do (be never does).
    """
    base, _, _, past_participle, ing = verb_forms(verb.english)
    if tense == "progressive":
        return VerbGroup(be(person, False), ing)
    if tense == "perfect":
        return VerbGroup("has" if person == 2 else "have", "been" if base == "be" else past_participle)
    if tense == "future":
        return VerbGroup("will", base)
    if base == "be":
        return VerbGroup(be(person, tense == "past"), "")
    return _simple(verb.english, person, tense == "past", with_do)
