"""Patterns with a subordinate clause, whose verb comes last: reasons, conditions, thoughts, purposes, relatives."""

from __future__ import annotations

from .clauses import (
    SUBJECT,
    Clause,
    english_purpose,
    english_question,
    english_statement,
    german_final,
    german_main,
    german_purpose,
    german_question,
)
from .inflection import NOMINATIVE
from .main_clauses import NARRATIVE, ONE_OBJECT, Draft, MainClauses
from .phrases import Adverbial, NounPhrase, PronounPhrase, Relative
from .storyteller import ACTIONS_OF, PERSONAL_ACTIONS, WILLED, reversible
from .words import (
    ACTIONS,
    ALL_NOUNS,
    BE,
    CREATING,
    FEELINGS,
    HINDRANCES,
    MODALS,
    PRONOUNS,
    SUDDEN,
    THINKING,
    TIMES,
    UNWILLED,
    WHO,
    Tense,
    Verb,
)

_GOING = [verb for verb in ACTIONS if [slot.case for slot in verb.slots] == ["goal"]]
_AIMS = [
    verb for verb in WILLED if verb.slots and verb.slots[0].case in ("accusative", "dative") and verb.name != "tragen"
]
# What can have been done to a noun that is still there; and what can be done to a noun that was there before.
_DONE_TO = {
    noun: [verb for verb in ONE_OBJECT if noun in verb.slots[0].nouns and verb.name != "essen"] for noun in ALL_NOUNS
}
_FOUND = [verb for verb in ONE_OBJECT if verb.name not in CREATING]
_WANT = next(modal for modal in MODALS if modal.german == "wollen")
_KNOW = next(verb for verb in THINKING if verb.german == "wissen")
_WEATHER = [
    ("es regnet", "it rains"),
    ("es schneit", "it snows"),
    ("es dunkel wird", "it gets dark"),
    ("die Sonne scheint", "the sun shines"),
    ("der Mond scheint", "the moon shines"),
]


class SubordinateClauses(MainClauses):
    """Each public method is one pattern."""

    def reason(self) -> Draft:
        """Die Hexe ist eingeschlafen, weil sie müde war. Sie hat gelacht, obwohl sie traurig war."""
        verb = self.pick(ACTIONS)
        while not verb.feelings:
            verb = self.pick(ACTIONS)
        tense = self.pick(NARRATIVE)
        clause = self.clause(verb, self.topic(verb, plain=True), tense=tense, negated=self.chance(0.2))
        if self.chance(0.25) and verb.name not in UNWILLED and not clause.negated:
            clause.modal = _WANT
        hindrances = [feeling for feeling in HINDRANCES if feeling not in verb.feelings]
        because = self.chance(0.6)
        feeling = self.pick(verb.feelings if because != clause.negated else hindrances)
        again = PronounPhrase(clause.subject.pronoun())
        cause = Clause(BE, again, tense, place=Adverbial(feeling, FEELINGS[feeling]))
        conjunction, english = ("weil", "because") if because else ("obwohl", "although")
        return Draft(
            f"{german_main(clause)}, {german_final(cause, conjunction)}",
            f"{english_statement(clause)} {english} {english_statement(cause)}",
        )

    def whenever(self) -> Draft:
        """Wenn der König schläft, tanzen die Hexen."""
        main = self._short_clause(Tense.HABIT)
        if self.chance(0.5):
            german, english = self.pick(_WEATHER)
            german, english = f"wenn {german}", f"when {english}"
        else:
            condition = self._short_clause(Tense.HABIT, other_than=main.verb)
            german, english = german_final(condition, "wenn"), f"when {english_statement(condition)}"
        if self.chance(0.6):
            return Draft(german_main(main, german + ","), f"{english}, {english_statement(main)}")
        return Draft(f"{german_main(main)}, {german}", f"{english_statement(main)} {english}")

    def before(self) -> Draft:
        """Bevor die Hexe einschläft, liest sie das Buch."""
        tense = self.pick(NARRATIVE)
        verb = self.pick(PERSONAL_ACTIONS)
        subject = self.topic(THINKING[0])
        first = self.clause(verb, subject, tense=tense, bare=True)
        again = PronounPhrase(subject.pronoun())
        main = self.clause(self._other_action(subject, verb), again, tense=tense, bare=True)
        return Draft(
            german_main(main, german_final(first, "bevor") + ","),
            f"before {english_statement(first)}, {english_statement(main)}",
        )

    def thought(self) -> Draft:
        """Ich glaube, dass das Gespenst im Turm wohnt."""
        thinking = self.clause(self.pick(THINKING), self.topic(THINKING[0]))
        content = self.event(self.pick(ACTIONS))
        german, english = german_final(content, "dass"), f"that {english_statement(content)}"
        if self.chance(0.2) and thinking.subject.person in (1, 4):
            return Draft(f"{german_question(thinking)}, {german}", f"{english_question(thinking)} {english}", "?")
        return Draft(f"{german_main(thinking)}, {german}", f"{english_statement(thinking)} {english}")

    def wondering(self) -> Draft:
        """Weißt du, ob der Dieb den Ring gestohlen hat? Ich weiß nicht, warum das Kind weint."""
        word = self.pick(["ob", "ob", "warum", "wer"])
        verb = self.pick(PERSONAL_ACTIONS)
        content = self.incident(verb, PronounPhrase(WHO) if word == "wer" else None)
        if word == "wer":
            german, english = german_final(content, ""), english_statement(content)
        else:
            english = "whether" if word == "ob" else "why"
            german, english = german_final(content, word), f"{english} {english_statement(content)}"
        if self.chance(0.5):
            asked = Clause(_KNOW, PronounPhrase(self.pick([PRONOUNS[1], PRONOUNS[4]])))
            return Draft(f"{german_question(asked)}, {german}", f"{english_question(asked)} {english}", "?")
        unsure = self.clause(_KNOW, self.topic(_KNOW), negated=True)
        return Draft(f"{german_main(unsure)}, {german}", f"{english_statement(unsure)} {english}")

    def purpose(self) -> Draft:
        """Der Fuchs ist in die Scheune geschlichen, um ein Ei zu stehlen."""
        aim = self.pick(_AIMS)
        going = self.pick(_GOING)
        noun = self.noun([noun for noun in aim.subjects if noun in going.subjects])
        subject = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural", "mine"]))
        main = self.clause(going, subject, tense=self.pick(NARRATIVE), bare=True)
        goal = self.clause(aim, subject, bare=True)
        return Draft(
            f"{german_main(main)}, {german_purpose(goal)}", f"{english_statement(main)} {english_purpose(goal)}"
        )

    def relative(self, head: NounPhrase, main_verb: Verb, tense: Tense) -> Relative:
        """A relative clause about `head`, in which it acts or has had something done to it."""
        acting = [verb for verb in ACTIONS_OF[head.noun] if verb is not main_verb]
        suffering = [verb for verb in _DONE_TO[head.noun] if verb is not main_verb]
        done_to = not acting or (bool(suffering) and self.chance(0.5))
        noted = set(self.combinations)
        while True:
            self.combinations = set(noted)
            if done_to:
                clause = self.clause(self.pick(suffering), tense=Tense.PAST, given=head, bare=True)
            else:
                clause = self.clause(self.pick(acting), head, tense=tense, bare=True)
            if not (clause.objects and reversible(clause)):
                break
        omit = clause.objects[0] if done_to else SUBJECT
        case = clause.objects[0].case if done_to else NOMINATIVE
        if "person" not in head.noun.classes:
            word = "that"
        else:
            word = "who" if omit is SUBJECT else "whom"
        return Relative(
            german_final(clause, head.relative_pronoun(case), omit), f"{word} {english_statement(clause, omit=omit)}"
        )

    def subject_with_relative(self) -> Draft:
        """Die Hexe, die im Wald schläft, kennt den König."""
        verb = self.pick(ACTIONS)
        subject = self.noun_phrase(self.noun(verb.subjects), self.pick(["definite", "definite", "definite_plural"]))
        tense = self.pick(NARRATIVE)
        relative = self.relative(subject, verb, tense)
        clause = self.clause(verb, subject, tense=tense, bare=True)
        subject.relative = relative
        return Draft(german_main(clause), english_statement(clause))

    def object_with_relative(self) -> Draft:
        """Der Drache hat den Kuchen gegessen, den die Großmutter gebacken hat."""
        verb = self.pick(_FOUND)
        noun = self.noun([noun for noun in verb.slots[0].nouns if set(_DONE_TO[noun]) - {verb}])
        head = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural"]))
        tense = Tense.PAST if verb.name in SUDDEN else self.pick([Tense.PAST, Tense.PAST, Tense.HABIT, Tense.FUTURE])
        clause = self.clause(verb, tense=tense, given=head, bare=True)
        relative = self.relative(head, verb, Tense.PAST if tense is Tense.FUTURE else tense)
        fronted = self.pick([time for time in TIMES[tense] if time.may_front]) if self.chance(0.3) else None
        clause.time = fronted
        german = german_main(clause, fronted.german, fronted) if fronted else german_main(clause)
        return Draft(f"{german}, {relative.german}", f"{english_statement(clause, fronted)} {relative.english}")
