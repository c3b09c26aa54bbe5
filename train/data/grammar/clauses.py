"""From the parts of a clause to its words, in both languages: where the verb goes, and everything around it.

German puts the finite verb second in a main clause and last in a subordinate one; what is left of the verb (prefix,
participle, infinitive) closes the clause: the bracket. Between them stands the middle field:

    subject | pronouns | time | definite objects | often, not | manner | indefinite objects | place | bound objects

English keeps subject, verb, object, manner, place, time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from . import inflection
from .english import VerbGroup, modal_group, tense_group, verb_forms
from .inflection import NOMINATIVE
from .phrases import Adverbial, Complement, Phrase, PronounPhrase
from .words import Modal, Tense, Time, Verb

SUBJECT = "subject"  # for `omit`: the subject is understood


@dataclass(slots=True)
class Clause:
    """Who does what to whom, when, how and where. A modal takes Tense.HABIT as its present and Tense.PAST as its past.

    `turned`: the German subject is the English object (der Hut gefällt der Hexe, the witch likes the hat).
    `no_not`: the negation is already in an object (keinen Hut).
    """

    verb: Verb
    subject: Phrase
    tense: Tense = Tense.HABIT
    modal: Modal | None = None
    negated: bool = False
    no_not: bool = False
    turned: bool = False
    objects: list[Complement] = field(default_factory=list)
    time: Time | None = None
    manner: Adverbial | None = None
    place: Adverbial | None = None


# --- German -----------------------------------------------------------------------------------------------------------


class Bracket(NamedTuple):
    """The finite verb and what closes the clause; `joined` is the finite verb at the end (aufmacht)."""

    finite: str
    closing: str
    joined: str


def bracket(clause: Clause) -> Bracket:
    """The two halves of the German verb."""
    verb, person = clause.verb, clause.subject.person
    infinitive = verb.prefix + verb.german
    if clause.modal:
        form = inflection.modal_past if clause.tense is Tense.PAST else inflection.modal_present
        finite, closing = form(clause.modal, person), infinitive
    elif clause.tense.german == "future":
        finite, closing = inflection.WERDEN[person], infinitive
    elif clause.tense.german == "present":
        finite = inflection.present(verb, person)
        return Bracket(finite, verb.prefix, verb.prefix + finite)
    elif verb.german == "sein":
        return Bracket(inflection.SEIN_PAST[person], "", inflection.SEIN_PAST[person])
    else:
        auxiliary = inflection.AUXILIARY[verb.auxiliary]
        finite, closing = auxiliary[person], inflection.participle(verb)
    return Bracket(finite, closing, f"{closing} {finite}")


def middle_field(clause: Clause, omit: object = None) -> list[str]:
    """What stands between the two halves of the verb, without the subject. `omit` is the part that stands elsewhere."""
    time = clause.time if clause.time is not omit else None
    early = time is not None and not (time.inner or clause.negated)  # with "nicht", definite objects come first
    pronouns: list[str] = []
    definite: list[str] = []
    indefinite: list[str] = []
    closely_bound: list[str] = []
    for item in clause.objects:
        if item is omit:
            continue
        if item.bound:
            closely_bound.append(item.german())
        elif isinstance(item.phrase, PronounPhrase):
            pronouns.append(item.german())
        else:
            (definite if item.definite else indefinite).append(item.german())
    words = pronouns
    if time and early:
        words.append(time.german)
    words += definite
    if time and not early:
        words.append(time.german)
    if clause.negated and not clause.no_not:
        words.append("nicht")
    if clause.manner:
        words.append(clause.manner.german)
    words += indefinite
    if clause.place and clause.place is not omit:
        words.append(clause.place.german)
    return words + closely_bound


def german_main(clause: Clause, first: str = "", omit: object = None) -> str:
    """Verb second, after the subject or after `first`; `omit` is the part of the clause that `first` speaks for.
    With `omit=SUBJECT` and no `first` the verb opens: the second half of "Er steht auf und macht die Tür zu"."""
    verb = bracket(clause)
    subject = "" if omit is SUBJECT else clause.subject.german(NOMINATIVE)
    start = [first, verb.finite, subject] if first or omit is SUBJECT else [subject, verb.finite]
    return _join([*start, *middle_field(clause, omit), verb.closing])


def german_continued(clause: Clause) -> str:
    """A second bracket that shares subject and auxiliary: "Er ist aufgestanden und in den Garten gegangen"."""
    return _join([*middle_field(clause), bracket(clause).closing])


def german_question(clause: Clause) -> str:
    """Verb first."""
    verb = bracket(clause)
    return _join([verb.finite, clause.subject.german(NOMINATIVE), *middle_field(clause), verb.closing])


def german_final(clause: Clause, first: str, omit: object = None) -> str:
    """Verb last, after a conjunction or a relative pronoun: "weil er die Tür aufmacht"."""
    subject = "" if omit is SUBJECT else clause.subject.german(NOMINATIVE)
    return _join([first, subject, *middle_field(clause, omit), bracket(clause).joined])


def german_command(clause: Clause, please: bool) -> str:
    """Mach bitte die Tür zu"""
    verb = inflection.imperative(clause.verb, clause.subject.person)
    words = middle_field(clause)
    if please:
        first = clause.objects[0] if clause.objects else None
        after_pronoun = first and isinstance(first.phrase, PronounPhrase) and not first.preposition
        words.insert(1 if after_pronoun else 0, "bitte")
    return _join([verb, *words, clause.verb.prefix])


def german_purpose(clause: Clause) -> str:
    """um die Tür aufzumachen"""
    return _join(["um", *middle_field(clause), inflection.zu_infinitive(clause.verb)])


# --- English ----------------------------------------------------------------------------------------------------------


def _group(clause: Clause, question: bool = False) -> VerbGroup:
    """The English verb of the clause, with its negation."""
    person = clause.objects[0].phrase.person if clause.turned else clause.subject.person
    with_do = question or clause.negated
    if clause.modal:
        group = modal_group(clause.modal, clause.verb, person, clause.tense is Tense.PAST, with_do)
    else:
        group = tense_group(clause.verb, person, clause.tense.english, with_do)
    return group.negated() if clause.negated else group


def _subject(clause: Clause) -> str:
    return clause.objects[0].phrase.english_subject() if clause.turned else clause.subject.english_subject()


def _predicate(clause: Clause, main: str, omit: object = None, fronted: Time | None = None) -> list[str]:
    """The main verb and all that follows it."""
    verb = clause.verb
    if clause.turned:
        objects = [clause.subject.english_object()]
    else:
        objects = [item.english() for item in clause.objects if item is not omit]
    words = [main, verb.preposition]
    if verb.particle:  # wake him up, wake up the king
        pronoun = bool(clause.objects) and isinstance(clause.objects[0].phrase, PronounPhrase)
        objects.insert(1 if pronoun and objects else 0, verb.particle)
    words += objects
    if clause.manner:
        words.append(clause.manner.english)
    if clause.place and clause.place is not omit:
        words.append(clause.place.english)
    if clause.time and not clause.time.inner and clause.time is not fronted:
        words.append(clause.time.english)
    return words


def _inner(clause: Clause, fronted: Time | None = None) -> str:
    return clause.time.english if clause.time and clause.time.inner and clause.time is not fronted else ""


def english_statement(clause: Clause, fronted: Time | None = None, omit: object = None) -> str:
    """Subject, verb, object, manner, place, time; a time that is `fronted` in German comes first here too.

    With `omit` an object is left out (the boy whom the witch helped), or the subject (the witch who helped the boy).
    """
    auxiliary, main = _group(clause)
    first = fronted.english if fronted else ""
    subject = "" if omit is SUBJECT else _subject(clause)
    return _join([first, subject, auxiliary, _inner(clause, fronted), *_predicate(clause, main, omit, fronted)])


def english_question(clause: Clause, first: str = "", omit: object = None) -> str:
    """Auxiliary first, after the question word if there is one."""
    auxiliary, main = _group(clause, question=True)
    return _join([first, auxiliary, _subject(clause), _inner(clause), *_predicate(clause, main, omit)])


def english_command(clause: Clause, please: bool) -> str:
    """Please close the door; don't close the door"""
    start = ["please" if please else "", "don't" if clause.negated else ""]
    return _join([*start, *_predicate(clause, verb_forms(clause.verb.english)[0])])


def english_purpose(clause: Clause) -> str:
    """to close the door"""
    return _join(["to", *_predicate(clause, verb_forms(clause.verb.english)[0])])


def _join(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word)
