"""A clause: one verb with its subject, complements and adverbials, put in order in German and in English.

German orders by brackets. In a main clause the finite verb is second and the rest of the verb stands at the end
(Der Koch *hat* heute einen Kuchen *gebacken*); in a subordinate clause the finite verb is last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from .english import be, question_group, verb_group
from .inflection import HABEN, SEIN, WERDEN, verb_forms, with_preposition
from .lexicon import FREQUENCY, FUTURE, HABIT, INSTRUMENT, KEIN, KEIN_UNCOUNTED, MANNERS, NOW, PAST
from .phrases import ROOMS, Phrase, Place, Pronoun, Subject, draw_object, draw_place, draw_subject
from .verbs import ACTIONS, MODALS, STATES, Modal, Slot, Verb


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
    early, late, prepositional = [], [], []
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
    if front is clause.time:
        return clause.time[0]
    if front is clause.place:
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


def english_options(clause: Clause) -> dict:
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
        words.append(MANNERS[clause.manner])
    if not goal:
        words.append(place)
    if clause.time and clause.time is not without:
        words.append(clause.time[1])
    return words


def english_tense(clause: Clause) -> str:
    return "past" if clause.tense == "perfect" else clause.tense


def english_main(clause: Clause, subject: str | None = None, without: object = None) -> str:
    """Subject, verb, rest. `subject` replaces the subject ("" after a relative pronoun)."""
    subject = clause.subject.english() if subject is None else subject
    auxiliary, no, verb = verb_group(
        clause.verb, english_tense(clause), clause.subject.person, **english_options(clause)
    )
    if (auxiliary, no) == ("can", "not"):
        auxiliary, no = "cannot", ""
    often = clause.frequency[1] if clause.frequency else ""
    return join(subject, auxiliary, no, often, verb, *english_rest(clause, without))


def english_fronted(clause: Clause, front: object) -> str:
    """A fronted time or place stays in front; a fronted object does not."""
    if front is clause.time:
        return join(clause.time[1], english_main(clause, without=front))
    if front is clause.place:
        return join(clause.place.english() + ",", english_main(clause, without=front))
    return english_main(clause)


def english_question(clause: Clause, word: str = "", without: object = None) -> str:
    options = english_options(clause)
    auxiliary, no, verb = question_group(clause.verb, english_tense(clause), clause.subject.person, **options)
    often = clause.frequency[1] if clause.frequency else ""
    return join(word, auxiliary, clause.subject.english(), no, often, verb, *english_rest(clause, without))


# --- sein with an adjective -------------------------------------------------------------------------------------------


def german_is(person: int, tense: str) -> str:
    return SEIN[tense][person]


def english_is(person: int, tense: str) -> str:
    return be(tense, person)


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
        if verb.state or (isinstance(subject, Phrase) and not subject.noun.classes & {"person", "animal"}):
            return None
        modal, tense = rng.choice(MODALS), "past" if tense.endswith("past") else "present"
    if tense == "past" and subject.person in (1, 4) and modal is None:
        tense = "perfect"
    clause = Clause(subject, verb, tense, verb.state, rng.random() < negation, modal)
    place = None
    for slot in verb.slots:
        if slot.kind != "object":
            place = draw_place(rng, slot.nouns, slot.kind == "goal")
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
    return clause


def _add_adverbials(rng: Random, clause: Clause) -> None:
    verb, roll = clause.verb, rng.random()
    living = isinstance(clause.subject, Pronoun) or bool(clause.subject.noun.classes & {"person", "animal"})
    if clause.tense == "future":
        clause.time = rng.choice(FUTURE) if roll < 0.5 else None
    elif clause.tense in ("past", "perfect"):
        clause.time = rng.choice(PAST) if roll < 0.35 and not verb.state else None
    elif clause.modal is not None:
        clause.time = rng.choice(NOW[:1] + NOW[-1:]) if roll < 0.3 else None
    elif not verb.state and roll < 0.18:
        clause.time = rng.choice(NOW)
    elif not verb.state and living and roll < 0.36:
        clause.simple = True
        if rng.random() < 0.5 and not clause.negated:
            clause.frequency = rng.choice(FREQUENCY)
        else:
            clause.time = rng.choice(HABIT)
    if clause.negated:
        return
    roll = rng.random()
    if roll < 0.15 and verb.manners:
        clause.manner = rng.choice(verb.manners)
    elif roll < 0.27 and clause.place is None and verb.state is False and verb.subjects and len(clause.objects) < 2:
        if not any("room" in p.noun.classes or "furniture" in p.noun.classes for _, p in clause.objects):
            clause.place = draw_place(rng, ROOMS, goal=False)
