"""A clause: one verb with its subject, complements and adverbials, put in order in German and in English.

German orders by brackets. In a main clause the finite verb is second and the rest of the verb stands at the end
(Der Koch *hat* heute einen Kuchen *gebacken*); in a subordinate clause the finite verb is last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypedDict

from .english import question_group, verb_group
from .inflection import HABEN, SEIN, WERDEN, verb_forms, with_preposition
from .lexicon import FREQUENCY, FUTURE, HABIT, INSTRUMENT, KEIN, KEIN_UNCOUNTED, NOW, PAST, Noun
from .phrases import ROOMS, Phrase, Place, Subject, draw_object, draw_place, draw_subject
from .verbs import ACTIONS, MANNERS, MODALS, STATES, Modal, Slot, Verb


@dataclass(slots=True)
class Clause:
    """What a clause says. `tense` is present, past (Präteritum), perfect or future; English has one past for two."""

    subject: Subject
    verb: Verb
    tense: str = "present"
    simple: bool = False  # no progressive in English: a habit, a state
    negated: bool = False
    modal: Modal | None = None
    objects: list[tuple[Slot, Phrase]] = field(default_factory=list)
    place: Place | None = None
    manner: str = ""
    frequency: tuple[str, str] | None = None
    time: tuple[str, str] | None = None

    def combinations(self) -> list[str]:
        """The pairs of words that a test may hold out: subject and verb, verb and object, adjective and noun."""
        name = self.verb.name
        found = self.subject.combinations()
        if isinstance(self.subject, Phrase):
            found.append(f"{self.subject.noun.german}+{name}")
        for _, phrase in self.objects:
            found += [f"{name}>{phrase.noun.german}", *phrase.combinations()]
        if self.place is not None:
            found += self.place.phrase.combinations()
        return found

    def subject_classes(self) -> frozenset[str]:
        """The classes of the subject; pronouns are for persons."""
        return self.subject.noun.classes if isinstance(self.subject, Phrase) else frozenset(["person"])

    def nouns(self) -> list[Noun]:
        """Every noun of the clause."""
        phrases = [self.subject] if isinstance(self.subject, Phrase) else []
        phrases += [phrase for _, phrase in self.objects] + ([self.place.phrase] if self.place else [])
        return [phrase.noun for phrase in phrases] + [phrase.owner for phrase in phrases if phrase.owner]

    @property
    def nicht(self) -> bool:
        """Negation by "nicht": no object says "kein"."""
        return self.negated and all(p.determiner not in (KEIN, KEIN_UNCOUNTED) for _, p in self.objects)


def german_verb(clause: Clause, person: int) -> tuple[str, str]:
    """The finite verb and the words at the end of a main clause: ("hat", "gebacken"), ("macht", "auf")."""
    verb = clause.verb
    if clause.modal is not None:
        return verb_forms(clause.modal, clause.tense)[person], verb.name
    if clause.tense == "future":
        return WERDEN[person], verb.name
    if clause.tense == "perfect":
        return (SEIN["present"] if verb.auxiliary == "sein" else HABEN)[person], verb.participle
    return verb_forms(verb, clause.tense)[person], verb.prefix


def german_middle(clause: Clause, without: object = None) -> list[str]:
    """The words between the brackets: time, dative, definite object, (nicht), manner, place, other object, goal.

    `without` is left out: what a relative pronoun or a question word stands for, or what stands before the verb.
    """
    early: list[str] = []
    late: list[str] = []
    prepositional: list[str] = []
    for slot, phrase in sorted(clause.objects, key=lambda pair: pair[0].case == "accusative"):
        if phrase is without:
            continue
        text = phrase.german(slot.case)
        if slot.preposition:
            prepositional.append(with_preposition(slot.preposition, text))
        elif phrase.determiner is INSTRUMENT:
            prepositional.append(text)
        else:
            (early if phrase.definite or slot.case == "dative" else late).append(text)
    place = clause.place.german() if clause.place and clause.place is not without else ""
    goal = clause.place is not None and clause.place.goal
    return [
        clause.time[0] if clause.time and clause.time is not without else "",
        clause.frequency[0] if clause.frequency else "",
        *early,
        "nicht" if clause.nicht else "",
        clause.manner,
        "" if goal else place,
        *late,
        *prepositional,
        place if goal else "",
    ]


def join(*words: str) -> str:
    return " ".join(filter(None, words))


def german_main(clause: Clause, front: object = None, subject: str = "") -> str:
    """Verb second. `front` is the time, the place or the object phrase that stands first instead of the subject."""
    finite, end = german_verb(clause, clause.subject.person)
    subject = subject or clause.subject.german("nominative")
    middle = german_middle(clause, without=front)
    if front is None:
        return join(subject, finite, *middle, end)
    return join(german_front(clause, front), finite, subject, *middle, end)


def german_front(clause: Clause, front: object) -> str:
    """The words that stand before the verb."""
    if clause.time and front is clause.time:
        return clause.time[0]
    if clause.place and front is clause.place:
        return clause.place.german()
    return next(phrase.german(slot.case) for slot, phrase in clause.objects if phrase is front)


def german_question(clause: Clause, word: str = "", without: object = None, *, subject: str | None = None) -> str:
    """Verb first, or second after a question word; `subject` "" when the question asks for it (wer)."""
    finite, end = german_verb(clause, clause.subject.person)
    subject = clause.subject.german("nominative") if subject is None else subject
    return join(word, finite, subject, *german_middle(clause, without), end)


def german_final(clause: Clause, subject: str | None = None, without: object = None) -> str:
    """Verb last, for a clause after a conjunction or a relative pronoun (then `subject` may be "")."""
    finite, end = german_verb(clause, clause.subject.person)
    subject = clause.subject.german("nominative") if subject is None else subject
    last = end + finite if end and end == clause.verb.prefix else join(end, finite)
    return join(subject, *german_middle(clause, without), last)


# --- English ----------------------------------------------------------------------------------------------------------


class _Options(TypedDict):
    aspect: str
    negated: bool
    modal: Modal | None


def english_options(clause: Clause) -> _Options:
    """What `verb_group` asks about a clause."""
    aspect = "simple" if clause.simple or clause.verb.state else "progressive"
    return {"aspect": aspect, "negated": clause.negated, "modal": clause.modal}


def english_rest(clause: Clause, without: object = None) -> list[str]:
    """What follows the verb: particle, objects, manner, place, time."""
    words = [clause.verb.particle]
    for slot, phrase in sorted(clause.objects, key=lambda pair: bool(pair[0].english)):
        words.append(join(slot.english, "" if phrase is without else phrase.english()))
    goal = clause.place is not None and clause.place.goal
    place = clause.place.english() if clause.place and clause.place is not without else ""
    if goal:
        words.append(place)
    if clause.manner:
        words.append(MANNERS[clause.manner][0])
    if not goal:
        words.append(place)
    if clause.time and clause.time is not without:
        words.append(clause.time[1])
    return words


def english_verb(clause: Clause) -> tuple[Verb, str, int]:
    """Verb, tense and person; Perfekt and Präteritum are one past."""
    return clause.verb, "past" if clause.tense == "perfect" else clause.tense, clause.subject.person


def english_main(clause: Clause, subject: str | None = None, without: object = None) -> str:
    """Subject, verb, rest. `subject` replaces the subject ("" after a relative pronoun)."""
    subject = clause.subject.english() if subject is None else subject
    auxiliary, no, verb = verb_group(*english_verb(clause), **english_options(clause))
    if (auxiliary, no) == ("can", "not"):
        auxiliary, no = "cannot", ""
    often = clause.frequency[1] if clause.frequency else ""
    return join(subject, auxiliary, no, often, verb, *english_rest(clause, without))


def english_fronted(clause: Clause, front: object) -> str:
    """A fronted time or place stays in front; a fronted object does not."""
    if clause.time and front is clause.time:
        return join(clause.time[1], english_main(clause, without=front))
    if clause.place and front is clause.place:
        return join(clause.place.english() + ",", english_main(clause, without=front))
    return english_main(clause)


def english_question(clause: Clause, word: str = "", without: object = None) -> str:
    auxiliary, no, verb = question_group(*english_verb(clause), **english_options(clause))
    often = clause.frequency[1] if clause.frequency else ""
    return join(word, auxiliary, clause.subject.english(), no, often, verb, *english_rest(clause, without))


# --- drawing a clause -------------------------------------------------------------------------------------------------

TENSES = ("present",) * 9 + ("perfect",) * 6 + ("past",) * 2 + ("future",) * 2 + ("modal",) * 4 + ("modal past",)


def draw_clause(
    rng: Random,
    *,
    tense: str = "",
    subject: Subject | None = None,
    lean: bool = False,
    negation: float = 0.12,
    verbs: list[Verb] | None = None,
) -> Clause | None:
    """A clause by chance, or None when the draw makes no sense. A `lean` one has no adverbials and no modal verb."""
    verb = rng.choice(verbs or (STATES if rng.random() < 0.15 else ACTIONS))
    if subject is None:
        subject = draw_subject(rng, verb.subjects)
    elif isinstance(subject, Phrase) and subject.noun not in verb.subjects:
        return None
    tense = tense or rng.choice(TENSES)
    modal = None
    if tense.startswith("modal"):
        if verb.state or verb.name == "liegen":
            return None
        modal, tense = rng.choice(MODALS), "past" if tense.endswith("past") else "present"
    if verb.state and tense in ("perfect", "future"):
        tense = "past"  # Das Kind hatte einen Ball: few say "hat gehabt"
    if tense == "past" and subject.person == 1 and modal is None:
        tense = "present" if verb.state else "perfect"  # nobody says "du backtest"
    clause = Clause(subject, verb, tense, verb.state, rng.random() < negation, modal)
    place = None
    for slot in verb.slots:
        if slot.kind != "object":
            settled = verb.english == "put"
            place = draw_place(rng, slot.nouns, slot.kind == "goal", preposition=slot.preposition, settled=settled)
            continue
        phrase = draw_object(rng, slot.nouns, subject, clause.negated and slot.case == "accusative", verb.name)
        if phrase is None or any(other.noun is phrase.noun for _, other in clause.objects):
            return None
        if slot.preposition and not phrase.definite:
            phrase = Phrase(phrase.noun, phrase.plural, adjective=phrase.adjective)
        clause.objects.append((slot, phrase))
    clause.place = place
    if not lean:
        _add_adverbials(rng, clause)
    nouns = clause.nouns()
    return clause if len(set(nouns)) == len(nouns) else None


def _add_adverbials(rng: Random, clause: Clause) -> None:
    verb, roll = clause.verb, rng.random()
    living = bool(clause.subject_classes() & {"person", "animal"})
    if clause.tense == "future":
        clause.time = rng.choice(FUTURE) if roll < 0.5 else None
    elif clause.tense in ("past", "perfect"):
        clause.time = rng.choice(PAST) if roll < 0.35 and not verb.state else None
    elif clause.modal is not None:
        clause.time = rng.choice(NOW[:1] + NOW[-1:]) if roll < 0.3 else None
    elif not verb.state and roll < 0.18:
        clause.time = rng.choice(NOW)
    elif not verb.state and living and not clause.negated and roll < 0.36:
        clause.simple = True
        if rng.random() < 0.5:
            clause.frequency = rng.choice(FREQUENCY)
        else:
            clause.time = rng.choice(HABIT)
    if clause.negated:
        return
    roll = rng.random()
    if roll < 0.15 and verb.manners:
        clause.manner = rng.choice(verb.manners)
    elif roll < 0.27 and not verb.state and clause.place is None and len(clause.objects) < 2:
        clause.place = draw_place(rng, ROOMS, goal=False)
