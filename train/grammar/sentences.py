"""The patterns of sentences: statements, questions, commands, and everything with a subordinate clause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .clauses import (
    SUBJECT,
    Clause,
    english_command,
    english_purpose,
    english_question,
    english_statement,
    german_command,
    german_final,
    german_main,
    german_purpose,
    german_question,
)
from .inflection import ACCUSATIVE, DATIVE, NOMINATIVE
from .lexicon import (
    ALL_NOUNS,
    COMPARISONS,
    DEFINITE,
    FEELINGS,
    HINDRANCES,
    PRONOUNS,
    THIS,
    WHICH,
    WHO,
)
from .phrases import Adverbial, Combination, NounPhrase, Phrase, PronounPhrase, Relative
from .storyteller import ACTIONS_OF, ADJECTIVES_OF, PERSONAL_ACTIONS, WILLED, Storyteller
from .times import COMMAND_TIMES, TIMES, Tense
from .verbs import ACTIONS, BE, MODALS, STATES, THINKING, TURNED, UNWILLED, Verb


@dataclass(frozen=True, slots=True)
class Sentence:
    """A pair and the combinations of words in it, as (kind, word, word) with German dictionary forms."""

    german: str
    english: str
    combinations: frozenset[Combination]


class _Draft(NamedTuple):
    german: str
    english: str
    end: str = "."


SHORTEST, LONGEST = 4, 16  # German words
WANT = MODALS[2]
_STATEMENTS = ACTIONS * 3 + STATES * 3 + TURNED * 3
_GOING = [verb for verb in ACTIONS if [slot.case for slot in verb.slots] == ["goal"]]
_AIMS = [verb for verb in WILLED if verb.slots and verb.slots[0].case in ("accusative", "dative")]
# Verbs with one object and no preposition, which can be asked for or stand in a relative clause: object noun to verbs.
_ONE_OBJECT = [
    verb
    for verb in PERSONAL_ACTIONS
    if [slot.case for slot in verb.slots if not slot.optional] in (["accusative"], ["dative"])
    and not verb.slots[0].preposition
]
_DONE_TO = {noun: [verb for verb in _ONE_OBJECT if noun in verb.slots[0].nouns] for noun in ALL_NOUNS}
_LOCATED = [verb for verb in ACTIONS if any(slot.case in ("goal", "place") for slot in verb.slots)]
_DEGREES = [("", ""), ("", ""), ("sehr ", "very "), ("ziemlich ", "rather "), ("zu ", "too ")]
_UNGRADED = {"weiß", "schwarz", "rot", "blau", "grün", "golden", "kaputt", "geheim"}
_WEATHER = [
    ("es regnet", "it rains"),
    ("es schneit", "it snows"),
    ("es dunkel wird", "it gets dark"),
    ("die Sonne scheint", "the sun shines"),
    ("der Mond scheint", "the moon shines"),
]
_NARRATIVE = [Tense.PAST, Tense.PAST, Tense.HABIT]


class SentenceMaker(Storyteller):
    """Draws whole sentences. Each method below is one pattern."""

    def sentence(self) -> Sentence:
        """A sentence of a random pattern."""
        while True:
            self.start()
            german, english, end = self.pick(PATTERNS)(self)
            if SHORTEST <= german.count(" ") + 1 <= LONGEST:
                return Sentence(_punctuate(german, end), _punctuate(english, end), frozenset(self.combinations))

    # --- main clauses -------------------------------------------------------------------------------------------------

    def statement(self) -> _Draft:
        """Der Pirat hat gestern den Schatz versteckt."""
        verb = self.pick(_STATEMENTS)
        if verb in ACTIONS:
            return self._arrange(self.event(verb))
        return self._arrange(self.clause(verb, negated=self.chance(0.15)))

    def _arrange(self, clause: Clause) -> _Draft:
        """A statement with the subject first, or another part: time (also in English), place or object."""
        if clause.time and clause.time.may_front and self.chance(0.4):
            german = german_main(clause, clause.time.german, clause.time)
            return _Draft(german, english_statement(clause, fronted=clause.time))
        english = english_statement(clause)
        if clause.place and not clause.negated and self.chance(0.25):
            return _Draft(german_main(clause, clause.place.german, clause.place), english)
        item = clause.objects[0] if clause.objects and not clause.negated else None
        if item and isinstance(item.phrase, NounPhrase) and item.definite and not item.preposition:
            shows_case = item.case == DATIVE or item.phrase.shows_accusative()
            if shows_case and self.chance(0.3):
                return _Draft(german_main(clause, item.german(), item), english)
        return _Draft(german_main(clause), english)

    def property(self) -> _Draft:
        """Die Suppe ist zu warm. Der Wald war sehr dunkel."""
        noun = self.pick([noun for noun in ALL_NOUNS if ADJECTIVES_OF[noun]])
        subject = NounPhrase(noun, self.pick([DEFINITE, DEFINITE, THIS]), plural=self.chance(0.2))
        adjective = self.pick(ADJECTIVES_OF[noun])
        self.combinations.add(("adjective", adjective.german, noun.german))
        german, english = ("", "") if adjective.german in _UNGRADED else self.pick(_DEGREES)
        place = Adverbial(german + adjective.german, english + adjective.english)
        clause = Clause(BE, subject, self.pick([Tense.HABIT, Tense.PAST]), place=place, negated=self.chance(0.2))
        return _Draft(german_main(clause), english_statement(clause))

    def comparison(self) -> _Draft:
        """Der Esel ist klüger als der König."""
        subject = self.topic(ACTIONS[0])
        other = self.noun_phrase(self.noun(ACTIONS[0].subjects), "definite")
        positive, comparative, english, english_comparative = self.pick(COMPARISONS)
        if self.chance(0.6):
            german, english = f"{comparative} als", f"{english_comparative} than"
        else:
            german, english = f"so {positive} wie", f"as {english} as"
        place = Adverbial(f"{german} {other.german(NOMINATIVE)}", f"{english} {other.english()}")
        clause = Clause(BE, subject, negated=self.chance(0.25), place=place)
        return _Draft(german_main(clause), english_statement(clause))

    def sequence(self) -> _Draft:
        """Der Bäcker steht auf und macht das Fenster auf."""
        tense = self.pick(_NARRATIVE)
        verb = self.pick(PERSONAL_ACTIONS)
        subject = self.topic(THINKING[0])
        first = self.clause(verb, subject, tense=tense)
        second = self.clause(self._other_action(subject, verb), subject, tense=tense, bare=True)
        if self.chance(0.5):
            first.time = self.pick([time for time in TIMES[tense] if time.may_front])
            german, english = german_main(first, first.time.german, first.time), english_statement(first, first.time)
        else:
            german, english = german_main(first), english_statement(first)
        german_again, english_again = german_main(second, omit=SUBJECT), english_statement(second, omit=SUBJECT)
        return _Draft(f"{german} und {german_again}", f"{english} and {english_again}")

    def contrast(self) -> _Draft:
        """Der Hund schläft, aber die Katze tanzt."""
        tense = self.pick(_NARRATIVE)
        clauses = [self._short_clause(tense) for _ in range(2)]
        while clauses[1].verb is clauses[0].verb:
            clauses[1] = self._short_clause(tense)
        return _Draft(", aber ".join(map(german_main, clauses)), ", but ".join(map(english_statement, clauses)))

    def _other_action(self, subject: Phrase, verb: Verb) -> Verb:
        choices = ACTIONS_OF[subject.noun] if isinstance(subject, NounPhrase) else PERSONAL_ACTIONS
        other = self.pick(choices)
        while other is verb:
            other = self.pick(choices)
        return other

    def _short_clause(self, tense: Tense, subject: Phrase | None = None) -> Clause:
        verb = self.pick(ACTIONS)
        return self.clause(verb, subject or self.topic(verb), tense=tense, bare=True)

    # --- subordinate clauses ------------------------------------------------------------------------------------------

    def reason(self) -> _Draft:
        """Die Hexe ist eingeschlafen, weil sie müde war. Sie hat gelacht, obwohl sie traurig war."""
        verb = self.pick(ACTIONS)
        while not verb.feelings:
            verb = self.pick(ACTIONS)
        tense = self.pick(_NARRATIVE)
        clause = self.clause(verb, self.topic(verb), tense=tense, negated=self.chance(0.2))
        if self.chance(0.25) and verb.name not in UNWILLED and not clause.negated:
            clause.modal = WANT
        hindrances = [feeling for feeling in HINDRANCES if feeling not in verb.feelings]
        because = self.chance(0.6)
        feeling = self.pick(verb.feelings if because != clause.negated else hindrances)
        again = PronounPhrase(clause.subject.pronoun())
        cause = Clause(BE, again, tense, place=Adverbial(feeling, FEELINGS[feeling]))
        conjunction, english = ("weil", "because") if because else ("obwohl", "although")
        return _Draft(
            f"{german_main(clause)}, {german_final(cause, conjunction)}",
            f"{english_statement(clause)} {english} {english_statement(cause)}",
        )

    def whenever(self) -> _Draft:
        """Wenn der König schläft, tanzen die Hexen."""
        main = self._short_clause(Tense.HABIT)
        if self.chance(0.5):
            german, english = self.pick(_WEATHER)
            german, english = f"wenn {german}", f"when {english}"
        else:
            condition = self._short_clause(Tense.HABIT)
            german, english = german_final(condition, "wenn"), f"when {english_statement(condition)}"
        if self.chance(0.6):
            return _Draft(german_main(main, german + ","), f"{english}, {english_statement(main)}")
        return _Draft(f"{german_main(main)}, {german}", f"{english_statement(main)} {english}")

    def before(self) -> _Draft:
        """Bevor die Hexe einschläft, liest sie das Buch."""
        tense = self.pick(_NARRATIVE)
        verb = self.pick(PERSONAL_ACTIONS)
        subject = self.topic(THINKING[0])
        first = self.clause(verb, subject, tense=tense, bare=True)
        again = PronounPhrase(subject.pronoun())
        main = self.clause(self._other_action(subject, verb), again, tense=tense, bare=True)
        return _Draft(
            german_main(main, german_final(first, "bevor") + ","),
            f"before {english_statement(first)}, {english_statement(main)}",
        )

    def thought(self) -> _Draft:
        """Ich glaube, dass das Gespenst im Turm wohnt."""
        thinking = self.clause(self.pick(THINKING), self.topic(THINKING[0]))
        content = self.event(self.pick(ACTIONS))
        german, english = german_final(content, "dass"), f"that {english_statement(content)}"
        if self.chance(0.2) and thinking.subject.person in (1, 4):
            return _Draft(f"{german_question(thinking)}, {german}", f"{english_question(thinking)} {english}", "?")
        return _Draft(f"{german_main(thinking)}, {german}", f"{english_statement(thinking)} {english}")

    def wondering(self) -> _Draft:
        """Weißt du, ob der Dieb den Ring gestohlen hat? Ich weiß nicht, warum das Kind weint."""
        word = self.pick(["ob", "ob", "warum", "wer"])
        verb = self.pick(PERSONAL_ACTIONS)
        content = self.clause(verb, PronounPhrase(WHO) if word == "wer" else None, tense=self.pick(_NARRATIVE))
        if word == "wer":
            german, english = german_final(content, ""), english_statement(content)
        else:
            english = "whether" if word == "ob" else "why"
            german, english = german_final(content, word), f"{english} {english_statement(content)}"
        know = next(verb for verb in THINKING if verb.german == "wissen")
        if self.chance(0.5):
            asked = Clause(know, PronounPhrase(self.pick([PRONOUNS[1], PRONOUNS[4]])))
            return _Draft(f"{german_question(asked)}, {german}", f"{english_question(asked)} {english}", "?")
        unsure = self.clause(know, self.topic(know), negated=True)
        return _Draft(f"{german_main(unsure)}, {german}", f"{english_statement(unsure)} {english}")

    def purpose(self) -> _Draft:
        """Der Fuchs ist in die Scheune geschlichen, um ein Ei zu stehlen."""
        aim = self.pick(_AIMS)
        going = self.pick(_GOING)
        noun = self.noun([noun for noun in aim.subjects if noun in going.subjects])
        subject = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural", "mine"]))
        main = self.clause(going, subject, tense=self.pick(_NARRATIVE), bare=True)
        goal = self.clause(aim, subject, bare=True)
        return _Draft(
            f"{german_main(main)}, {german_purpose(goal)}", f"{english_statement(main)} {english_purpose(goal)}"
        )

    # --- relative clauses ---------------------------------------------------------------------------------------------

    def relative(self, head: NounPhrase) -> Relative:
        """A relative clause about `head`, in which it acts or has something done to it."""
        case = NOMINATIVE
        tense = self.pick(_NARRATIVE)
        things_done = _DONE_TO[head.noun]
        if things_done and (not ACTIONS_OF[head.noun] or self.chance(0.5)):
            clause = self.clause(self.pick(things_done), tense=tense, given=head, bare=True)
            omit: object = clause.objects[0]
            case = clause.objects[0].case
        else:
            omit = SUBJECT
            clause = self.clause(self.pick(ACTIONS_OF[head.noun]), head, tense=tense, bare=True)
        if "person" not in head.noun.classes:
            word = "that"
        else:
            word = "who" if omit is SUBJECT else "whom"
        return Relative(
            german_final(clause, head.relative_pronoun(case), omit), f"{word} {english_statement(clause, omit=omit)}"
        )

    def subject_with_relative(self) -> _Draft:
        """Die Hexe, die im Wald schläft, kennt den König."""
        verb = self.pick(ACTIONS)
        subject = self.noun_phrase(self.noun(verb.subjects), self.pick(["definite", "definite", "definite_plural"]))
        relative = self.relative(subject)
        clause = self.clause(verb, subject, tense=self.pick(_NARRATIVE), bare=True)
        subject.relative = relative
        return _Draft(german_main(clause), english_statement(clause))

    def object_with_relative(self) -> _Draft:
        """Der Drache hat den Kuchen gegessen, den die Großmutter gebacken hat."""
        verb = self.pick(_ONE_OBJECT)
        noun = self.noun(verb.slots[0].nouns)
        head = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural"]))
        tense = self.pick([Tense.PAST, Tense.PAST, Tense.HABIT, Tense.FUTURE])
        clause = self.clause(verb, tense=tense, given=head, bare=True)
        relative = self.relative(head)
        fronted = self.pick([time for time in TIMES[tense] if time.may_front]) if self.chance(0.3) else None
        clause.time = fronted
        german = german_main(clause, fronted.german, fronted) if fronted else german_main(clause)
        return _Draft(f"{german}, {relative.german}", f"{english_statement(clause, fronted)} {relative.english}")

    # --- questions and commands ---------------------------------------------------------------------------------------

    def yes_no_question(self) -> _Draft:
        """Hast du den Schlüssel gefunden?"""
        verb = self.pick(ACTIONS)
        clause = self.event(verb, self.topic(verb))
        while clause.negated:
            clause = self.event(verb, self.topic(verb))
        return _Draft(german_question(clause), english_question(clause), "?")

    def who_question(self) -> _Draft:
        """Wer hat den Kuchen gegessen?"""
        clause = self.event(self.pick(PERSONAL_ACTIONS), PronounPhrase(WHO))
        return _Draft(german_main(clause), english_statement(clause), "?")

    def object_question(self) -> _Draft:
        """Wem hat der Ritter geholfen? Was hat das Kind gefunden? Welchen Hut hat die Hexe gekauft?"""
        verb = self.pick(_ONE_OBJECT)
        tense = self.pick(_NARRATIVE)
        noun = self.noun(verb.slots[0].nouns)
        clause = self.clause(verb, self.topic(verb), tense=tense, given=NounPhrase(noun, WHICH), bare=True)
        item = clause.objects[0]
        german, english = item.german(), item.phrase.english_object()
        if self.chance(0.6):
            person = "person" in noun.classes
            german = ("wem" if item.case == DATIVE else "wen") if person else german
            english = "who" if person else english
            if item.case == ACCUSATIVE and not noun.classes & {"person", "animal"}:
                german, english = "was", "what"
        return _Draft(german_main(clause, german, item), english_question(clause, english, item), "?")

    def place_question(self) -> _Draft:
        """Wo schläft der Bär? Wohin ist der Dieb gelaufen?"""
        verb = self.pick(_LOCATED)
        clause = self.clause(verb, self.topic(verb), tense=self.pick(_NARRATIVE), bare=True)
        goal = verb.slots[-1].case == "goal"
        german = german_main(clause, "wohin" if goal else "wo", clause.place)
        return _Draft(german, english_question(clause, "where", clause.place), "?")

    def why_question(self) -> _Draft:
        """Warum weint das Mädchen? Wann ist die Tante angekommen?"""
        verb = self.pick(ACTIONS)
        german, english = self.pick([("warum", "why"), ("warum", "why"), ("wann", "when")])
        tense = self.pick([*_NARRATIVE, Tense.FUTURE])
        clause = self.clause(verb, self.topic(verb), tense=tense, negated=german == "warum" and self.chance(0.2))
        return _Draft(german_main(clause, german), english_question(clause, english), "?")

    def command(self) -> _Draft:
        """Mach bitte das Fenster zu!"""
        listener = PronounPhrase(self.pick([PRONOUNS[1], PRONOUNS[1], PRONOUNS[4]]))
        clause = self.clause(self.pick(WILLED), listener, negated=self.chance(0.2))
        if not clause.negated and self.chance(0.3):
            clause.time = self.pick(COMMAND_TIMES)
        please = self.chance(0.5)
        return _Draft(german_command(clause, please), english_command(clause, please), "!")


def _punctuate(text: str, end: str) -> str:
    """Capital letter, full stop; a comma that closes a relative clause gives way to the mark after it."""
    text = (text + end).replace(",.", ".").replace(",,", ",").replace(" 'm", "'m")
    return text[0].upper() + text[1:]


# How often each pattern is drawn, of 100.
_SHARES: dict[Callable[[SentenceMaker], _Draft], int] = {
    SentenceMaker.statement: 36,
    SentenceMaker.property: 3,
    SentenceMaker.comparison: 3,
    SentenceMaker.sequence: 5,
    SentenceMaker.contrast: 4,
    SentenceMaker.reason: 9,
    SentenceMaker.whenever: 5,
    SentenceMaker.before: 3,
    SentenceMaker.thought: 6,
    SentenceMaker.wondering: 4,
    SentenceMaker.purpose: 4,
    SentenceMaker.subject_with_relative: 4,
    SentenceMaker.object_with_relative: 6,
    SentenceMaker.yes_no_question: 4,
    SentenceMaker.who_question: 2,
    SentenceMaker.object_question: 3,
    SentenceMaker.place_question: 2,
    SentenceMaker.why_question: 2,
    SentenceMaker.command: 4,
}
PATTERNS = [pattern for pattern, share in _SHARES.items() for _ in range(share)]
