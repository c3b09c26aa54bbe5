"""Patterns of sentences: statements, questions, commands, and sentences with a subordinate clause."""

from collections.abc import Callable

from . import words
from .clauses import SUBJECT, Clause, after, command, final, main, purpose, question, shared
from .phrases import NounPhrase, Phrase, Text, join, shows_accusative
from .storyteller import PERSONS, Storyteller, reversible
from .words import Noun, Tense, Verb

_ACTIONS_OF = {noun: [verb for verb in words.ACTIONS if noun in verb.subjects] for noun in words.ALL_NOUNS}
_PERSONAL = _ACTIONS_OF[PERSONS[0]]
_WILLED = [verb for verb in _PERSONAL if verb.name not in words.TRAITS["unwilled"]]
_STATEMENTS = words.ACTIONS * 3 + words.STATES * 3 + words.TURNED * 3
_LOCATED = [verb for verb in words.ACTIONS if any(slot.case in ("goal", "place") for slot in verb.slots)]
# Verbs with one object and no preposition, whose object a question can ask for and a relative clause can describe.
_ONE_OBJECT = [
    verb
    for verb in _PERSONAL
    if [slot.case for slot in verb.slots if not slot.optional] in (["accusative"], ["dative"])
    and not verb.slots[0].preposition
]
_GOING = [verb for verb in words.ACTIONS if [slot.case for slot in verb.slots] == ["goal"]]
_AIMS = [
    verb for verb in _WILLED if verb.slots and verb.slots[0].case in ("accusative", "dative") and verb.name != "tragen"
]
# Verbs whose object still exists after the action; and verbs whose object existed before it.
_DONE_TO = {
    noun: [verb for verb in _ONE_OBJECT if noun in verb.slots[0].nouns and verb.name != "essen"]
    for noun in words.ALL_NOUNS
}
_FOUND = [verb for verb in _ONE_OBJECT if verb.name not in words.TRAITS["creating"]]
_KNOW = next(verb for verb in words.THINKING if verb.name == "wissen")
_DEGREES = [Text("", ""), Text("sehr", "very"), Text("ziemlich", "rather"), Text("wirklich", "really")]
_UNGRADED = {"weiß", "schwarz", "rot", "blau", "grün", "golden", "kaputt", "geheim"}
_FRONTED = {tense: [time for time in times if "fixed" not in time.flags] for tense, times in words.TIMES.items()}
_NARRATIVE = [Tense.PAST, Tense.PAST, Tense.HABIT]
_WEATHER = [Text(german, english) for german, english in words.WEATHER]


class Patterns(Storyteller):
    """Generates sentences: each public method returns a sentence of one pattern, as in the method's example."""

    def statement(self) -> Text:
        """Der Pirat hat gestern den Schatz versteckt."""
        verb = self.pick(_STATEMENTS)
        clause = self.event(verb) if verb in words.ACTIONS else self.clause(verb, negated=self.chance(0.15))
        # The subject comes first, or another part: time, place or object.
        if clause.time and "fixed" not in clause.time.flags and self.chance(0.4):
            return main(clause, clause.time)
        if clause.place and not clause.negated and self.chance(0.25):
            return main(clause, clause.place)
        item = clause.objects[0] if clause.objects and not clause.negated else None
        if item and isinstance(item.phrase, NounPhrase) and item.definite and not item.preposition:
            shows_case = item.case == words.DATIVE or shows_accusative(item.phrase)
            if shows_case and self.chance(0.3):
                return main(clause, item)
        return main(clause)

    def property(self) -> Text:
        """Die Suppe ist frisch. Der Wald war sehr dunkel."""
        noun = self.pick([noun for noun in words.ALL_NOUNS if words.ADJECTIVES_OF[noun]])
        determiner = words.DETERMINERS[self.pick(["definite", "definite", "this"])]
        subject = NounPhrase(noun, determiner, plural=self.chance(0.2))
        adjective = self.pick(words.ADJECTIVES_OF[noun])
        self.combinations.add(("adjective", adjective.german, noun.german))
        negated = self.chance(0.2)
        degree = self.pick(_DEGREES[:1] if adjective.german in _UNGRADED else _DEGREES[:2] if negated else _DEGREES)
        how = Text(join([degree.german, adjective.german]), join([degree.english, adjective.english]))
        return main(Clause(words.BE, subject, self.pick([Tense.HABIT, Tense.PAST]), place=how, negated=negated))

    def comparison(self) -> Text:
        """Der Esel ist klüger als der König."""
        subject = self.topic(words.ACTIONS[0], plain=True)
        other = self.noun_phrase(self.noun(words.ACTIONS[0].subjects), "definite", plain=True)
        positive, comparative, english, english_comparative = self.pick(words.COMPARISONS)
        if self.chance(0.6):
            how = Text(f"{comparative} als", f"{english_comparative} than")
        else:
            how = Text(f"so {positive} wie", f"as {english} as")
        how = how.followed_by(Text(other.german(words.NOMINATIVE), other.english()), " ")
        return main(Clause(words.BE, subject, negated=self.chance(0.25), place=how))

    def sequence(self) -> Text:
        """Der Bäcker steht auf und macht das Fenster auf."""
        tense = self.pick(_NARRATIVE)
        verb = self.pick(_PERSONAL)
        subject = self.topic(words.THINKING[0])
        first = self.clause(verb, subject, tense=tense)
        second = self.clause(self._other_action(subject, verb), subject, tense=tense, bare=True)
        if self.chance(0.5):
            first.time = self.pick(_FRONTED[tense])
        again = tense is Tense.PAST and verb.auxiliary == second.verb.auxiliary
        text = shared(second) if again else main(second, omit=SUBJECT)
        return main(first, first.time).followed_by(text, " und ", " and ")

    def contrast(self) -> Text:
        """Der Hund schläft, aber die Katze tanzt."""
        tense = self.pick(_NARRATIVE)
        first = self._short_clause(tense)
        second = self._short_clause(tense, other_than=first.verb)
        return main(first).followed_by(main(second), ", aber ", ", but ")

    def _other_action(self, subject: Phrase, verb: Verb) -> Verb:
        return self._pick_but(_ACTIONS_OF[subject.noun] if isinstance(subject, NounPhrase) else _PERSONAL, verb)

    def _short_clause(self, tense: Tense, other_than: Verb | None = None) -> Clause:
        verb = self._pick_but(words.ACTIONS, other_than)
        return self.clause(verb, self.topic(verb), tense=tense, bare=True)

    def _pick_but(self, verbs: list[Verb], unwanted: Verb | None) -> Verb:
        while (verb := self.pick(verbs)) is unwanted:
            pass
        return verb

    # --- questions and commands ---------------------------------------------------------------------------------------

    def yes_no_question(self) -> Text:
        """Hast du den Schlüssel gefunden?"""
        verb = self.pick(words.ACTIONS)
        clause = self.event(verb, self.topic(verb))
        if clause.negated or (clause.time and "negative" in clause.time.flags):
            self.start()
            return self.yes_no_question()
        return question(clause)

    def who_question(self) -> Text:
        """Wer hat den Kuchen gegessen?"""
        return main(self.event(self.pick(_PERSONAL), words.WHO))._replace(end="?")

    def object_question(self) -> Text:
        """Wem hat der Ritter geholfen? Was hat das Kind gefunden? Welchen Hut hat die Hexe gekauft?"""
        verb = self.pick(_ONE_OBJECT)
        slot = verb.slots[0]
        if self.chance(0.4):
            clause = self.incident(verb, given=NounPhrase(self.noun(slot.nouns), words.DETERMINERS["which"]))
            item = clause.objects[0]
            if not reversible(clause):
                return question(clause, item, item)
            self.start()
        word = Text("wem" if slot.case == "dative" else "wen", "who")
        if not slot.nouns[0].classes & {"person", "animal"}:
            word = Text("was", "what")
        return question(self.incident(verb, asked=slot), word)

    def place_question(self) -> Text:
        """Wo schläft der Bär? Wohin ist der Dieb gelaufen?"""
        verb = self.pick(_LOCATED)
        slot = verb.slots[-1]
        return question(self.incident(verb, asked=slot), Text("wohin" if slot.case == "goal" else "wo", "where"))

    def why_question(self) -> Text:
        """Warum weint das Mädchen? Wann ist die Tante angekommen?"""
        verb = self.pick(words.ACTIONS)
        why, when = Text("warum", "why"), Text("wann", "when")
        word = self.pick([why, why, when])
        clause = self.incident(verb)
        return question(clause, why if clause.time else word)

    def command(self) -> Text:
        """Mach bitte das Fenster zu!"""
        listener = words.PRONOUNS[self.pick([1, 1, 4])]
        clause = self.clause(self.pick(_WILLED), listener, negated=self.chance(0.2))
        if not clause.negated and not clause.manner and self.chance(0.4):
            clause.time = self.pick(words.COMMAND_TIMES)
        return command(clause, please=self.chance(0.5))

    # --- subordinate clauses ------------------------------------------------------------------------------------------

    def reason(self) -> Text:
        """Die Hexe ist eingeschlafen, weil sie müde war. Sie hat gelacht, obwohl sie traurig war."""
        while not (verb := self.pick(words.ACTIONS)).feelings:
            pass
        tense = self.pick(_NARRATIVE)
        clause = self.clause(verb, self.topic(verb, plain=True), tense=tense, negated=self.chance(0.2))
        if self.chance(0.25) and verb.name not in words.TRAITS["unwilled"] and not clause.negated:
            clause.modal = words.MODALS["wollen"]
        hindrances = [feeling for feeling in words.HINDRANCES if feeling not in verb.feelings]
        because = self.chance(0.6)
        feeling = self.pick(verb.feelings if because != clause.negated else hindrances)
        cause = Clause(words.BE, clause.subject.pronoun(), tense, place=Text(feeling, words.FEELINGS[feeling]))
        conjunction = Text("weil", "because") if because else Text("obwohl", "although")
        return main(clause).followed_by(final(cause, conjunction))

    def whenever(self) -> Text:
        """Wenn der König schläft, tanzen die Hexen."""
        clause = self._short_clause(Tense.HABIT)
        when = Text("wenn", "when")
        if self.chance(0.5):
            condition = when.followed_by(self.pick(_WEATHER), " ")
        else:
            condition = final(self._short_clause(Tense.HABIT, other_than=clause.verb), when)
        return after(condition, clause) if self.chance(0.6) else main(clause).followed_by(condition)

    def before(self) -> Text:
        """Bevor die Hexe einschläft, liest sie das Buch."""
        tense = self.pick(_NARRATIVE)
        verb = self.pick(_PERSONAL)
        subject = self.topic(words.THINKING[0])
        first = self.clause(verb, subject, tense=tense, bare=True)
        then = self.clause(self._other_action(subject, verb), subject.pronoun(), tense=tense, bare=True)
        return after(final(first, Text("bevor", "before")), then)

    def thought(self) -> Text:
        """Ich glaube, dass das Gespenst im Turm wohnt."""
        thinking = self.clause(self.pick(words.THINKING), self.topic(words.THINKING[0]))
        content = final(self.event(self.pick(words.ACTIONS)), Text("dass", "that"))
        asks = self.chance(0.2) and thinking.subject.person in (1, 4)
        return (question(thinking) if asks else main(thinking)).followed_by(content)

    def wondering(self) -> Text:
        """Weißt du, ob der Dieb den Ring gestohlen hat? Ich weiß nicht, warum das Kind weint."""
        whether = Text("ob", "whether")
        word = self.pick([whether, whether, Text("warum", "why"), Text("", "")])  # none for "wer"
        verb = self.pick(_PERSONAL)
        content = final(self.incident(verb, None if word.german else words.WHO), word)
        if self.chance(0.5):
            return question(Clause(_KNOW, words.PRONOUNS[self.pick([1, 4])])).followed_by(content)
        return main(self.clause(_KNOW, self.topic(_KNOW), negated=True)).followed_by(content)

    def purpose(self) -> Text:
        """Der Fuchs ist in die Scheune geschlichen, um ein Ei zu stehlen."""
        aim = self.pick(_AIMS)
        going = self.pick(_GOING)
        noun = self.noun([noun for noun in aim.subjects if noun in going.subjects])
        subject = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural", "mine"]))
        way = self.clause(going, subject, tense=self.pick(_NARRATIVE), bare=True)
        return main(way).followed_by(purpose(self.clause(aim, subject, bare=True)))

    def relative(self, head: NounPhrase, main_verb: Verb, tense: Tense) -> Text:
        """Return a relative clause about `head`, which is the subject or the object of the clause."""
        acting = [verb for verb in _ACTIONS_OF[head.noun] if verb is not main_verb]
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
        word = "that" if "person" not in head.noun.classes else "whom" if done_to else "who"
        case = clause.objects[0].case if done_to else words.NOMINATIVE
        return final(clause, Text(head.relative_pronoun(case), word), clause.objects[0] if done_to else SUBJECT)

    def subject_with_relative(self) -> Text:
        """Die Hexe, die im Wald schläft, kennt den König."""
        verb = self.pick(words.ACTIONS)
        subject = self.noun_phrase(self.noun(verb.subjects), self.pick(["definite", "definite", "definite_plural"]))
        tense = self.pick(_NARRATIVE)
        relative = self.relative(subject, verb, tense)
        clause = self.clause(verb, subject, tense=tense, bare=True)
        subject.relative = relative
        return main(clause)

    def object_with_relative(self) -> Text:
        """Der Drache hat den Kuchen gegessen, den die Großmutter gebacken hat."""
        verb = self.pick(_FOUND)
        noun: Noun = self.noun([noun for noun in verb.slots[0].nouns if set(_DONE_TO[noun]) - {verb}])
        head = self.noun_phrase(noun, self.pick(["definite", "definite", "indefinite", "definite_plural"]))
        sudden = verb.name in words.TRAITS["sudden"]
        tense = Tense.PAST if sudden else self.pick([Tense.PAST, Tense.PAST, Tense.HABIT, Tense.FUTURE])
        clause = self.clause(verb, tense=tense, given=head, bare=True)
        relative = self.relative(head, verb, Tense.PAST if tense is Tense.FUTURE else tense)
        clause.time = self.pick(_FRONTED[tense]) if self.chance(0.3) else None
        return main(clause, clause.time).followed_by(relative)


# How often each pattern is drawn, in percent.
_SHARES: dict[Callable[[Patterns], Text], int] = {
    Patterns.statement: 36, Patterns.property: 3, Patterns.comparison: 3, Patterns.sequence: 5, Patterns.contrast: 4,
    Patterns.reason: 9, Patterns.whenever: 5, Patterns.before: 3, Patterns.thought: 6, Patterns.wondering: 4,
    Patterns.purpose: 4, Patterns.subject_with_relative: 4, Patterns.object_with_relative: 6,
    Patterns.yes_no_question: 4, Patterns.who_question: 2, Patterns.object_question: 3, Patterns.place_question: 2,
    Patterns.why_question: 2, Patterns.command: 4,
}  # fmt: skip
PATTERNS = [pattern for pattern, share in _SHARES.items() for _ in range(share)]
