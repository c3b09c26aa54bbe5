"""The forms of English words: articles, the -s, -ing and past of verbs, and the verb group of a clause."""

from __future__ import annotations

from functools import cache

from .verbs import Modal, Verb

_DOUBLED = {"run", "sit", "get", "put", "forget"}


def with_article(phrase: str) -> str:
    """a cat, an old cat."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def third_person(base: str) -> str:
    """eats, watches, carries, has."""
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


@cache
def progressive(base: str) -> str:
    """eating, baking, lying, running."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return base + (base[-1] if base in _DOUBLED else "") + "ing"


def be(tense: str, person: int) -> str:
    """am, is, are, was, were; persons as in `inflection`."""
    if tense == "past":
        return "was" if person in (0, 2) else "were"
    return "am" if person == 0 else "is" if person == 2 else "are"


def verb_group(
    verb: Verb, tense: str, person: int, *, aspect: str = "simple", negated: bool = False, modal: Modal | None = None
) -> tuple[str, str, str]:
    """The verb of a clause as (auxiliary, "not" or "", rest); ("", "", "eats") where there is no auxiliary.

    Adverbs of frequency stand before the rest, and a question begins with the auxiliary (`question_group`). tense is
    present, past or future; aspect "simple" or "progressive" counts in the present only.
    """
    no = "not" if negated else ""
    if tense == "future":
        return "will", no, verb.english
    if modal is not None:
        return _modal_group(modal, verb.english, tense, person, no)
    if tense == "present" and aspect == "progressive":
        return be(tense, person), no, progressive(verb.english)
    if negated:
        return _do(tense, person), no, verb.english
    return "", "", _finite(verb.english, verb.english_past, tense, person)


def question_group(
    verb: Verb, tense: str, person: int, *, aspect: str = "simple", negated: bool = False, modal: Modal | None = None
) -> tuple[str, str, str]:
    """Like `verb_group`, with do-support wherever there is no other auxiliary."""
    auxiliary, no, rest = verb_group(verb, tense, person, aspect=aspect, negated=negated, modal=modal)
    if auxiliary:
        return auxiliary, no, rest
    return _do(tense, person), no, f"{modal.english} {verb.english}" if modal is not None else verb.english


def _do(tense: str, person: int) -> str:
    return "did" if tense == "past" else "does" if person == 2 else "do"


def _finite(base: str, past: str, tense: str, person: int) -> str:
    return past if tense == "past" else third_person(base) if person == 2 else base


def _modal_group(modal: Modal, base: str, tense: str, person: int, no: str) -> tuple[str, str, str]:
    if modal.english == "can":
        return ("could" if tense == "past" else "can"), no, base
    head, _, link = modal.english.partition(" ")
    if head == "be":
        return be(tense, person), no, f"{link} {base}"
    if no:
        return _do(tense, person), no, f"{modal.english} {base}"
    past = "had" if head == "have" else "wanted"
    return "", "", f"{_finite(head, past, tense, person)} {link} {base}"
