"""Patterns of sentences without subordinate clauses: statements, questions and commands."""

from __future__ import annotations

from typing import NamedTuple

from .clauses import (
    SUBJECT,
    Clause,
    english_command,
    english_question,
    english_statement,
    german_command,
    german_continued,
    german_main,
    german_question,
)
from .inflection import DATIVE, NOMINATIVE
from .phrases import Adverbial, NounPhrase, Phrase, PronounPhrase
from .storyteller import ACTIONS_OF, ADJECTIVES_OF, PERSONAL_ACTIONS, WILLED, Storyteller, reversible
from .words import (
    ACTIONS,
    ALL_NOUNS,
    BE,
    COMMAND_TIMES,
    COMPARISONS,
    DEFINITE,
    PRONOUNS,
    STATES,
    THINKING,
    THIS,
    TIMES,
    TURNED,
    WHICH,
    WHO,
    Tense,
    Verb,
)


class Draft(NamedTuple):
    """A sentence in both languages before its first letter is capitalised, and the mark that ends it."""

    german: str
    english: str
    end: str = "."


_STATEMENTS = ACTIONS * 3 + STATES * 3 + TURNED * 3
_LOCATED = [verb for verb in ACTIONS if any(slot.case in ("goal", "place") for slot in verb.slots)]
# Verbs with one object and no preposition, which can be asked for or stand in a relative clause.
ONE_OBJECT = [
    verb
    for verb in PERSONAL_ACTIONS
    if [slot.case for slot in verb.slots if not slot.optional] in (["accusative"], ["dative"])
    and not verb.slots[0].preposition
]
_DEGREES = [("", ""), ("sehr ", "very "), ("ziemlich ", "rather "), ("wirklich ", "really ")]
_UNGRADED = {"weiß", "schwarz", "rot", "blau", "grün", "golden", "kaputt", "geheim"}
NARRATIVE = [Tense.PAST, Tense.PAST, Tense.HABIT]


class MainClauses(Storyteller):
    """Each public method is one pattern."""

    def statement(self) -> Draft:
        """Der Pirat hat gestern den Schatz versteckt."""
        verb = self.pick(_STATEMENTS)
        if verb in ACTIONS:
            return self._arrange(self.event(verb))
        return self._arrange(self.clause(verb, negated=self.chance(0.15)))

    def _arrange(self, clause: Clause) -> Draft:
        """A statement with the subject first, or another part: time (also in English), place or object."""
        if clause.time and clause.time.may_front and self.chance(0.4):
            german = german_main(clause, clause.time.german, clause.time)
            return Draft(german, english_statement(clause, fronted=clause.time))
        english = english_statement(clause)
        if clause.place and not clause.negated and self.chance(0.25):
            return Draft(german_main(clause, clause.place.german, clause.place), english)
        item = clause.objects[0] if clause.objects and not clause.negated else None
        if item and isinstance(item.phrase, NounPhrase) and item.definite and not item.preposition:
            shows_case = item.case == DATIVE or item.phrase.shows_accusative()
            if shows_case and self.chance(0.3):
                return Draft(german_main(clause, item.german(), item), english)
        return Draft(german_main(clause), english)

    def property(self) -> Draft:
        """Die Suppe ist frisch. Der Wald war sehr dunkel."""
        noun = self.pick([noun for noun in ALL_NOUNS if ADJECTIVES_OF[noun]])
        subject = NounPhrase(noun, self.pick([DEFINITE, DEFINITE, THIS]), plural=self.chance(0.2))
        adjective = self.pick(ADJECTIVES_OF[noun])
        self.combinations.add(("adjective", adjective.german, noun.german))
        negated = self.chance(0.2)
        degrees = _DEGREES[:1] if adjective.german in _UNGRADED else _DEGREES[:2] if negated else _DEGREES
        german, english = self.pick(degrees)
        place = Adverbial(german + adjective.german, english + adjective.english)
        clause = Clause(BE, subject, self.pick([Tense.HABIT, Tense.PAST]), place=place, negated=negated)
        return Draft(german_main(clause), english_statement(clause))

    def comparison(self) -> Draft:
        """Der Esel ist klüger als der König."""
        subject = self.topic(ACTIONS[0], plain=True)
        other = self.noun_phrase(self.noun(ACTIONS[0].subjects), "definite", plain=True)
        positive, comparative, english, english_comparative = self.pick(COMPARISONS)
        if self.chance(0.6):
            german, english = f"{comparative} als", f"{english_comparative} than"
        else:
            german, english = f"so {positive} wie", f"as {english} as"
        place = Adverbial(f"{german} {other.german(NOMINATIVE)}", f"{english} {other.english()}")
        clause = Clause(BE, subject, negated=self.chance(0.25), place=place)
        return Draft(german_main(clause), english_statement(clause))

    def sequence(self) -> Draft:
        """Der Bäcker steht auf und macht das Fenster auf."""
        tense = self.pick(NARRATIVE)
        verb = self.pick(PERSONAL_ACTIONS)
        subject = self.topic(THINKING[0])
        first = self.clause(verb, subject, tense=tense)
        second = self.clause(self._other_action(subject, verb), subject, tense=tense, bare=True)
        if self.chance(0.5):
            first.time = self.pick([time for time in TIMES[tense] if time.may_front])
            german, english = german_main(first, first.time.german, first.time), english_statement(first, first.time)
        else:
            german, english = german_main(first), english_statement(first)
        shared = tense is Tense.PAST and first.verb.auxiliary == second.verb.auxiliary
        again = german_continued(second) if shared else german_main(second, omit=SUBJECT)
        return Draft(f"{german} und {again}", f"{english} and {english_statement(second, omit=SUBJECT)}")

    def contrast(self) -> Draft:
        """Der Hund schläft, aber die Katze tanzt."""
        tense = self.pick(NARRATIVE)
        first = self._short_clause(tense)
        clauses = [first, self._short_clause(tense, other_than=first.verb)]
        return Draft(", aber ".join(map(german_main, clauses)), ", but ".join(map(english_statement, clauses)))

    def _other_action(self, subject: Phrase, verb: Verb) -> Verb:
        choices = ACTIONS_OF[subject.noun] if isinstance(subject, NounPhrase) else PERSONAL_ACTIONS
        other = self.pick(choices)
        while other is verb:
            other = self.pick(choices)
        return other

    def _short_clause(self, tense: Tense, other_than: Verb | None = None) -> Clause:
        verb = self.pick(ACTIONS)
        while verb is other_than:
            verb = self.pick(ACTIONS)
        return self.clause(verb, self.topic(verb), tense=tense, bare=True)

    def yes_no_question(self) -> Draft:
        """Hast du den Schlüssel gefunden?"""
        verb = self.pick(ACTIONS)
        clause = self.event(verb, self.topic(verb))
        if clause.negated or (clause.time and clause.time.negative):
            self.start()
            return self.yes_no_question()
        return Draft(german_question(clause), english_question(clause), "?")

    def who_question(self) -> Draft:
        """Wer hat den Kuchen gegessen?"""
        clause = self.event(self.pick(PERSONAL_ACTIONS), PronounPhrase(WHO))
        return Draft(german_main(clause), english_statement(clause), "?")

    def object_question(self) -> Draft:
        """Wem hat der Ritter geholfen? Was hat das Kind gefunden? Welchen Hut hat die Hexe gekauft?"""
        verb = self.pick(ONE_OBJECT)
        slot = verb.slots[0]
        if self.chance(0.4):
            clause = self.incident(verb, given=NounPhrase(self.noun(slot.nouns), WHICH))
            item = clause.objects[0]
            if not reversible(clause):
                german, english = german_main(clause, item.german(), item), item.phrase.english_object()
                return Draft(german, english_question(clause, english, item), "?")
            self.start()
        word, english = ("wem" if slot.case == "dative" else "wen"), "who"
        if not slot.nouns[0].classes & {"person", "animal"}:
            word, english = "was", "what"
        clause = self.incident(verb, asked=slot)
        return Draft(german_main(clause, word), english_question(clause, english), "?")

    def place_question(self) -> Draft:
        """Wo schläft der Bär? Wohin ist der Dieb gelaufen?"""
        verb = self.pick(_LOCATED)
        slot = verb.slots[-1]
        clause = self.incident(verb, asked=slot)
        german = german_main(clause, "wohin" if slot.case == "goal" else "wo")
        return Draft(german, english_question(clause, "where"), "?")

    def why_question(self) -> Draft:
        """Warum weint das Mädchen? Wann ist die Tante angekommen?"""
        verb = self.pick(ACTIONS)
        german, english = self.pick([("warum", "why"), ("warum", "why"), ("wann", "when")])
        clause = self.incident(verb)
        if german == "wann" and clause.time:
            german, english = "warum", "why"
        return Draft(german_main(clause, german), english_question(clause, english), "?")

    def command(self) -> Draft:
        """Mach bitte das Fenster zu!"""
        listener = PronounPhrase(self.pick([PRONOUNS[1], PRONOUNS[1], PRONOUNS[4]]))
        clause = self.clause(self.pick(WILLED), listener, negated=self.chance(0.2))
        if not clause.negated and not clause.manner and self.chance(0.4):
            clause.time = self.pick(COMMAND_TIMES)
        please = self.chance(0.5)
        return Draft(german_command(clause, please), english_command(clause, please), "!")
