"""Chooses the content of random, meaningful clauses; `clauses` puts them into words."""

import random
from collections.abc import Sequence
from typing import TypeVar

from . import words
from .clauses import Clause
from .phrases import Combination, Complement, NounPhrase, Phrase, Text, shows_accusative, two_way_phrase
from .words import Noun, Pronoun, Slot, Tense, Verb

T = TypeVar("T")

PREPOSITIONS_OF = {noun: [word for word in words.TWO_WAY if word in noun.classes] for noun in words.ALL_NOUNS}
PERSONS = words.nouns_of("person")
# Nouns without an owner: beings, and rooms in which nobody lives or tidies up.
OWNERLESS = {noun for noun in words.nouns_of("person animal room") if not noun.classes & {"home", "tidy"}}

_SPEAKERS = [words.PRONOUNS[i] for i in (0, 0, 1, 2, 2, 3, 4, 5, 6, 6)]  # who can be the subject
_MINE = [words.PRONOUNS[i].possessive for i in (0, 0, 1, 3, 4)]  # possessives that need no owner in the sentence
# The pronouns for an object, by its case and the person of the subject, since "ich sehe mich" needs a reflexive
# pronoun. The accusative "sie" could be her or them and is left out.
_OBJECT_PRONOUNS = {
    (case, person): [words.PRONOUNS[i] for i in range(count) if i % 3 != person or i % 3 == 2]
    for case, count in ((words.ACCUSATIVE, 5), (words.DATIVE, 7))
    for person in range(3)
}
_TENSES = [Tense.HABIT] * 5 + [Tense.NOW] * 3 + [Tense.PAST] * 8
_TENSES += [Tense.EXPERIENCE] * 2 + [Tense.FUTURE] * 2 + [Tense.PLAN]
_ASKED = [Tense.PAST] * 3 + [Tense.FUTURE, Tense.NOW]


def is_person(phrase: Phrase) -> bool:
    """Return whether "his" and "her" can refer to the phrase."""
    return isinstance(phrase, Pronoun) or "person" in phrase.noun.classes


def reversible(clause: Clause) -> bool:
    """Return whether subject and object can't be distinguished: "die Katze, die die Maus sieht"."""
    subject, item = clause.subject, clause.objects[0]
    if item.case != words.ACCUSATIVE or item.preposition or not isinstance(item.phrase, NounPhrase):
        return False
    if isinstance(subject, Pronoun):
        doubtful = subject.german(words.NOMINATIVE) == "sie"
    else:
        doubtful = subject.noun in clause.verb.slots[0].nouns and not shows_accusative(subject)
    swappable = item.phrase.noun in clause.verb.subjects and not shows_accusative(item.phrase)
    return doubtful and swappable and (subject.person == item.phrase.person)


def resists_negation(phrase: Phrase) -> bool:
    """Return whether "nicht" in the clause would be wrong (kein Pirat) or ambiguous (alle Piraten)."""
    unclear = [words.DETERMINERS[name] for name in ("no", "all", "every", "many")]
    return isinstance(phrase, NounPhrase) and phrase.determiner in unclear


class Storyteller:
    """A generator of random clauses. It draws from `rng` and records the combined words in `combinations`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.start()

    def start(self) -> None:
        """Begin a new sentence."""
        self.combinations: set[Combination] = set()
        self.used: set[Noun] = set()

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, all of which are equally likely."""
        return items[int(self.rng.random() * len(items))]

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    # --- noun phrases -------------------------------------------------------------------------------------------------

    def noun(self, nouns: list[Noun]) -> Noun:
        """Return a noun that does not occur in the sentence yet, if possible."""
        noun = self.pick(nouns)
        for _ in range(3):
            if noun not in self.used:
                break
            noun = self.pick(nouns)
        self.used.add(noun)
        return noun

    def noun_phrase(self, noun: Noun, manner: str, subject: Pronoun | None = None, plain: bool = False) -> NounPhrase:
        """Return a noun phrase. `manner` is a name of the table "determined", `subject` is the person to whom "own"
        refers, and `plain` means that there is no adjective.
        """
        determiner = words.DETERMINERS.get(manner, words.DETERMINERS["definite"])
        phrase = NounPhrase(noun, determiner, plural=determiner.plural)
        if manner == "number":
            phrase.determiner, phrase.plural = self.pick(words.NUMBERS), True
        elif manner == "mine" and "kin" in noun.classes:
            phrase.determiner = self.pick(_MINE)
        elif manner == "own" and subject and ("kin" in noun.classes or not noun.classes & {"person", "animal", "room"}):
            phrase.determiner = subject.possessive
        elif manner == "owner" and noun not in OWNERLESS:
            phrase.owner = self.noun_phrase(self.noun(PERSONS), "definite_plural" if self.chance(0.1) else "definite")
        if not plain and not phrase.owner and self.chance(0.3):
            self.describe(phrase)
        return phrase

    def describe(self, phrase: NounPhrase) -> None:
        """Add an adjective that suits the noun."""
        if choices := words.ADJECTIVES_OF[phrase.noun]:
            phrase.adjective = self.pick(choices)
            self.combinations.add(("adjective", phrase.adjective.german, phrase.noun.german))

    def subject(self, verb: Verb, role: str = "subject", plain: bool = False) -> Phrase:
        """Return a phrase for someone who can perform the verb's action."""
        if self.chance(0.25) and PERSONS[0] in verb.subjects:
            return self.pick(_SPEAKERS)
        return self.noun_phrase(self.noun(verb.subjects), self.pick(words.DETERMINED[role]), plain=plain)

    def topic(self, verb: Verb, plain: bool = False) -> Phrase:
        """Return a known subject, which a pronoun can refer to. `plain` if the sentence describes it."""
        return self.subject(verb, "topic", plain)

    # --- clauses ------------------------------------------------------------------------------------------------------

    def clause(
        self,
        verb: Verb,
        subject: Phrase | None = None,
        *,
        tense: Tense = Tense.HABIT,
        given: NounPhrase | None = None,
        negated: bool = False,
        bare: bool = False,
        asked: Slot | None = None,
    ) -> Clause:
        """Fill the frame of `verb`. Negated clauses have no manner.

        `given` is the phrase for its first slot, `bare` leaves out manner and optional parts, and `asked` is the slot
        that a question asks about."""
        subject = subject or self.subject(verb)
        negated = negated and not resists_negation(subject)
        clause = Clause(verb, subject, tense=tense, negated=negated, turned=verb in words.TURNED)
        if isinstance(subject, NounPhrase):
            self.combinations.add(("subject", verb.name, subject.noun.german))
        for slot in verb.slots:
            if slot is asked or (slot.optional and (bare or self.chance(0.75))):
                continue
            if slot.case in ("goal", "place"):
                clause.place = self.place(verb, slot, subject)
            else:
                clause.objects.append(self.complement(clause, slot, given))
                given = None
        if verb.manners and not bare and not negated and tense is not Tense.EXPERIENCE and self.chance(0.25):
            manner = self.pick(verb.manners)
            clause.manner = Text(manner, words.MANNERS[manner])
        return clause

    def complement(self, clause: Clause, slot: Slot, given: NounPhrase | None) -> Complement:
        """Return the object for a slot."""
        case = words.DATIVE if slot.case == "dative" else words.ACCUSATIVE
        phrase = given or self._object_phrase(clause, slot, case)
        if isinstance(phrase, NounPhrase):
            self.combinations.add(("object", clause.verb.name, phrase.noun.german))
        return Complement(case, phrase, slot.preposition, companion=slot.optional and bool(slot.preposition))

    def _object_phrase(self, clause: Clause, slot: Slot, case: int) -> Phrase:
        owns = is_person(clause.subject) and clause.verb.name not in words.TRAITS["not own"]
        personal = "person" in slot.nouns[0].classes
        if personal and self.chance(0.2):
            return self.pick(_OBJECT_PRONOUNS[case, clause.subject.person % 3])
        noun = self.noun(slot.nouns)
        if slot.case == "instrument":
            return NounPhrase(noun, words.DETERMINERS["instrument"])
        if clause.negated and case == words.ACCUSATIVE and not slot.preposition and self.chance(0.4):
            clause.no_not = True
            phrase = NounPhrase(
                noun, words.DETERMINERS["not a"], plural=clause.verb in words.STATES or self.chance(0.4)
            )
            if self.chance(0.3):
                self.describe(phrase)
            return phrase
        sure = clause.negated or clause.verb.particle
        manner = self.pick(words.DETERMINED["person" if personal else "sure object" if sure else "object"])
        if clause.negated and manner == "indefinite":
            manner = "definite"
        return self.noun_phrase(noun, manner, clause.subject.pronoun() if owns else None)

    def place(self, verb: Verb, slot: Slot, subject: Phrase) -> Text:
        """Return a goal or a place, with a preposition that suits the noun."""
        noun = self.noun(slot.nouns)
        self.combinations.add(("place", verb.name, noun.german))
        preposition = slot.preposition or self.pick(PREPOSITIONS_OF[noun])
        owner = subject.pronoun() if is_person(subject) else None
        phrase = self.noun_phrase(noun, self.pick(words.DETERMINED["place"]), owner)
        return two_way_phrase(preposition, phrase, slot.case == "goal")

    def event(self, verb: Verb, subject: Phrase | None = None) -> Clause:
        """Return a clause with a tense, the adverbial of time that fits it, and sometimes a modal."""
        willed = verb.name not in words.TRAITS["unwilled"]
        if willed and self.chance(0.22):
            return self._modal_event(verb, subject)
        tense = self.pick(_TENSES)
        if tense in (Tense.NOW, Tense.FUTURE, Tense.PLAN) and verb.name in words.TRAITS["sudden"]:
            tense = Tense.PAST
        negated = self.chance(0.12) and tense is not Tense.EXPERIENCE
        not_yet = tense is Tense.EXPERIENCE and willed and self.chance(0.3)
        clause = self.clause(verb, subject, tense=tense, negated=negated or not_yet)
        must_say = tense in (Tense.NOW, Tense.PLAN, Tense.EXPERIENCE)
        if clause.negated and not_yet:
            clause.time = words.NOT_YET
        elif must_say or self.chance(0.6):
            times = words.TIMES[tense]
            if clause.negated or resists_negation(clause.subject):
                times = [time for time in times if time.flags in ("", "fixed")] or times[:1]
            clause.time = self.pick(times)
        return clause

    def incident(
        self, verb: Verb, subject: Phrase | None = None, *, given: NounPhrase | None = None, asked: Slot | None = None
    ) -> Clause:
        """Return a simple clause to ask about: past, future, or going on right now."""
        tense = self.pick(_ASKED)
        if tense is Tense.NOW and verb.name in words.TRAITS["sudden"]:
            tense = Tense.PAST
        clause = self.clause(verb, subject or self.topic(verb), tense=tense, given=given, asked=asked, bare=True)
        if tense is Tense.NOW:
            clause.time = words.TIMES[tense][0]
        return clause

    def _modal_event(self, verb: Verb, subject: Phrase | None) -> Clause:
        tense = Tense.PAST if self.chance(0.4) else Tense.HABIT
        clause = self.clause(verb, subject, tense=tense, negated=self.chance(0.2))
        clause.modal = self.pick(list(words.MODALS.values()))
        if self.chance(0.4):
            clause.time = self.pick(words.TIMES[Tense.PAST if tense is Tense.PAST else Tense.FUTURE])
        return clause
