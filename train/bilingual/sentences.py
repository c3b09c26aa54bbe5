"""Whole sentences: the patterns that join clauses, each with one English rendering."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from . import clauses as c
from .clauses import Clause, draw_clause, join
from .english import be
from .inflection import SEIN, imperative, pronoun_form, relative_pronoun, zu_infinitive
from .lexicon import ADJECTIVES_OF, COMPARISONS, DEFINITE, NOUNS, nouns_of
from .phrases import PEOPLE, ROOMS, Phrase, Pronoun, Subject, draw_adjective, draw_subject
from .verbs import ACTIONS, FEELINGS, HINDRANCES, REASONS, SAYING, Slot


class Sentence(NamedTuple):
    """A pair, with the combinations of words that it holds."""

    german: str
    english: str
    combinations: list[str]


LIVING = tuple(nouns_of("person animal"))
_DESCRIBED = tuple(noun for noun in NOUNS if ADJECTIVES_OF[noun])


def _finish(german: str, english: str, combinations: list[str], mark: str = ".") -> Sentence:
    german = german[0].upper() + german[1:] + mark
    return Sentence(german, english[0].upper() + english[1:] + mark, combinations)


def statement(rng: Random) -> Sentence | None:
    """Der Koch backt heute einen Kuchen."""
    clause = draw_clause(rng)
    if clause is None:
        return None
    return _finish(c.german_main(clause), c.english_main(clause), clause.combinations())


def fronted(rng: Random) -> Sentence | None:
    """Heute backt der Koch einen Kuchen. Den Kuchen isst das Kind."""
    clause = draw_clause(rng)
    if clause is None:
        return None
    fronts: list[object] = [clause.time] if clause.time else []
    if clause.place and not clause.place.goal and not clause.negated and not clause.verb.state:
        fronts.append(clause.place)
    fronts += [phrase for slot, phrase in clause.objects if _can_stand_first(slot, phrase)]
    if not fronts:
        return None
    front = rng.choice(fronts)
    return _finish(c.german_main(clause, front), c.english_fronted(clause, front), clause.combinations())


def _can_stand_first(slot: Slot, phrase: Phrase) -> bool:
    """Only a masculine singular shows by itself that it is the object; sein and ihr want their owner before them."""
    shown = slot.case == "accusative" and not slot.preposition and phrase.key == "m"
    return shown and phrase.definite and phrase.determiner.german not in ("sein", "ihr")


def yes_no_question(rng: Random) -> Sentence | None:
    """Hilft das Mädchen dem Nachbarn?"""
    clause = draw_clause(rng, negation=0.05)
    if clause is None or (clause.frequency and clause.negated):
        return None
    return _finish(c.german_question(clause), c.english_question(clause), clause.combinations(), "?")


def word_question(rng: Random) -> Sentence | None:
    """Warum weint das Kind? Was isst der Bär? Wem hilft die Hexe? Wer hat den Schatz gefunden?"""
    clause = draw_clause(rng, lean=True, negation=0.0)
    if clause is None:
        return None
    combinations = clause.combinations()
    living = bool(clause.subject_classes() & {"person", "animal"})
    kind = rng.choice(("warum", "wann", "wer", "object", "object"))
    if kind == "object":
        return _object_question(rng, clause)
    if kind == "wer":
        who = Clause(_WHO, clause.verb, clause.tense, clause.simple, False, clause.modal, clause.objects, clause.place)
        if (
            not living
            or clause.modal
            or any(p.determiner.german in ("sein", "ihr", "mein", "dein", "unser") for _, p in who.objects)
        ):
            return None
        return _finish(c.german_main(who), c.english_main(who), who.combinations(), "?")
    if kind == "wann":
        if clause.verb.state or clause.tense == "present" or clause.modal:
            return None
        word, english = "wann", "when"
    else:
        word, english = "warum", "why"
    return _finish(c.german_question(clause, word), c.english_question(clause, english), combinations, "?")


_WHO = Pronoun("wer", "who", 2, DEFINITE)


def _object_question(rng: Random, clause: Clause) -> Sentence | None:
    if clause.place is not None and not clause.objects:
        words = ("wohin", "where") if clause.place.goal else ("wo", "where")
        gone: object = clause.place
    elif clause.objects:
        slot, phrase = rng.choice(clause.objects)
        if slot.preposition or clause.verb.name == "spielen":
            return None
        if "person" in phrase.noun.classes or slot.case == "dative":
            words = ("wem" if slot.case == "dative" else "wen", "who")
            if slot.case == "dative" and len(clause.objects) > 1:
                return None  # English has "Who did he give it to?"
        else:
            words = ("was", "what")
        gone = phrase
        clause.objects = [(s, p) for s, p in clause.objects if p is not phrase] + [(slot, phrase)]
    else:
        return None
    german = c.german_question(clause, words[0], gone)
    english = c.english_question(clause, words[1], gone)
    # what the question asks for is not in the sentence, nor is its combination
    kept = Clause(clause.subject, clause.verb, place=None if gone is clause.place else clause.place)
    kept.objects = [(s, p) for s, p in clause.objects if p is not gone]
    return _finish(german, english, kept.combinations(), "?")


# --- subordinate clauses ----------------------------------------------------------------------------------------------


def german_is(person: int, tense: str) -> str:
    """ist, war."""
    return SEIN[tense][person]


def _feeling(rng: Random, clause: Clause, choices: dict[str, set[str]]) -> tuple[str, str, list[str]] | None:
    """A feeling that goes with what one does: German, English, combinations; None where the table has none."""
    fitting = [feeling for feeling, verbs in choices.items() if clause.verb.name in verbs]
    if not fitting:
        return None
    feeling = rng.choice(fitting)
    if isinstance(clause.subject, Pronoun):
        return feeling, FEELINGS[feeling], []
    if clause.subject.adjective and clause.subject.adjective.german in FEELINGS:
        return None  # the sad king is happy
    return feeling, FEELINGS[feeling], [f"{feeling}|{clause.subject.noun.german}"]


def _pronouns(subject: Subject) -> tuple[str, str]:
    """er, he: what stands for the subject in the second clause."""
    if isinstance(subject, Pronoun):
        return subject.nominative, subject.english_nominative
    return pronoun_form("nominative", subject.key), subject.english_pronoun


def reason(rng: Random) -> Sentence | None:
    """Der Hund schläft, weil er müde ist. Obwohl der Hund müde ist, schläft er nicht."""
    clause = draw_clause(rng, tense=rng.choice(("present", "perfect")), lean=rng.random() < 0.7, negation=0.3)
    if clause is None or clause.frequency or not clause.subject_classes() & {"person", "animal"}:
        return None
    # tired, so he sleeps; tired, but he works; tired, but he does not sleep
    because = not clause.negated and rng.random() < 0.65
    drawn = _feeling(rng, clause, REASONS if because or clause.negated else HINDRANCES)
    if drawn is None:
        return None
    feeling, english_feeling, found = drawn
    subject, tense = clause.subject, "past" if clause.tense == "perfect" else "present"
    word, english_word = ("weil", "because") if because else ("obwohl", "although")
    is_, english_is = german_is(subject.person, tense), be(tense, subject.person)
    he, english_he = _pronouns(subject)
    if rng.random() < 0.65:
        german = f"{c.german_main(clause)}, {word} {he} {feeling} {is_}"
        english = f"{c.english_main(clause)} {english_word} {english_he} {english_is} {english_feeling}"
    else:
        german = f"{word} {subject.german('nominative')} {feeling} {is_}, {c.german_question(clause, subject=he)}"
        english_first = f"{english_word} {subject.english()} {english_is} {english_feeling}"
        english = f"{english_first}, {c.english_main(clause, english_he)}"
    return _finish(german, english, clause.combinations() + found)


def saying(rng: Random) -> Sentence | None:
    """Die Königin glaubt, dass der Pirat den Schatz gefunden hat. Ich weiß nicht, ob ..."""
    verb = rng.choice(SAYING)
    speaker = draw_subject(rng, PEOPLE)
    clause = draw_clause(rng, lean=rng.random() < 0.7)
    if clause is None or (isinstance(clause.subject, Phrase) and clause.subject is speaker):
        return None
    if isinstance(clause.subject, Phrase) and isinstance(speaker, Phrase) and clause.subject.noun is speaker.noun:
        return None
    whether = verb.name == "wissen" and rng.random() < 0.5
    outer = Clause(speaker, verb, "present", True, whether)
    word, english_word = ("ob", "whether") if whether else ("dass", "that")
    german = f"{c.german_main(outer)}, {word} {c.german_final(clause)}"
    english = f"{c.english_main(outer)} {english_word} {c.english_main(clause)}"
    return _finish(german, english, outer.combinations() + clause.combinations())


def relative(rng: Random) -> Sentence | None:
    """Der Hund, der die Katze jagt, ist müde. Der Kuchen, den der Koch gebacken hat, ist süß. Dem ... hilft."""
    clause = draw_clause(rng, lean=True, negation=0.08, tense=rng.choice(("present", "perfect", "perfect")))
    if clause is None or (isinstance(clause.subject, Pronoun) and not clause.objects):
        return None
    free = [(s, p) for s, p in clause.objects if not s.preposition and p.key and clause.verb.name != "spielen"]
    tense = "past" if clause.tense == "past" else "present"
    if free and (isinstance(clause.subject, Pronoun) or rng.random() < 0.5):
        slot, phrase = rng.choice(free)
        if (len(clause.objects) > 1 and slot.case == "dative") or not phrase.noun.plural:
            return None
        if clause.negated or slot.english or not _clear(slot, phrase, clause.subject):
            return None
        head = Phrase(phrase.noun, phrase.plural, DEFINITE)
        inner = c.german_final(clause, None, phrase)
        pronoun = relative_pronoun(slot.case, head.key)
        english_inner = c.english_main(clause, None, phrase)
        combinations = [x for x in clause.combinations() if x not in phrase.combinations()]
    else:
        if isinstance(clause.subject, Pronoun):
            return None
        head = Phrase(clause.subject.noun, clause.subject.plural, DEFINITE)
        pronoun = relative_pronoun("nominative", head.key)
        inner = c.german_final(clause, "")
        english_inner = c.english_main(clause, "")
        combinations = [x for x in clause.combinations() if x not in clause.subject.combinations()]
    adjective = draw_adjective(rng, head.noun, 1.0)
    if adjective is None:
        return None
    who = "who" if "person" in head.noun.classes else "that"
    german = f"{head.german('nominative')}, {pronoun} {inner}, {german_is(head.person, tense)} {adjective.german}"
    english = f"{head.english()} {who} {english_inner} {be(tense, head.person)} {adjective.english}"
    return _finish(german, english, [*combinations, f"{adjective.german}|{head.noun.german}"])


def _clear(slot: Slot, head: Phrase, subject: Subject) -> bool:
    """Whether a relative pronoun or the subject shows its case: "die Katze, die die Maus jagt" could be either."""
    shown = slot.case == "dative" or head.key == "m" or isinstance(subject, Pronoun) or subject.key == "m"
    return shown or head.person != subject.person


def whenever(rng: Random) -> Sentence | None:
    """Wenn der Koch müde ist, schläft er auf dem Sofa."""
    clause = draw_clause(rng, tense="present", lean=True, negation=0.0)
    drawn = clause and _feeling(rng, clause, REASONS)
    if clause is None or not drawn or not clause.subject_classes() & {"person", "animal"}:
        return None
    feeling, english_feeling, found = drawn
    clause.simple = True
    subject = clause.subject
    he, english_he = _pronouns(subject)
    is_, english_is = german_is(subject.person, "present"), be("present", subject.person)
    german = f"wenn {subject.german('nominative')} {feeling} {is_}, {c.german_question(clause, subject=he)}"
    english = f"when {subject.english()} {english_is} {english_feeling}, {c.english_main(clause, english_he)}"
    return _finish(german, english, clause.combinations() + found)


def _two_clauses(rng: Random, tense: str) -> tuple[Clause, Clause] | None:
    """Two clauses without a noun in common."""
    first = draw_clause(rng, tense=tense, lean=True, negation=0.0, verbs=ACTIONS)
    second = draw_clause(rng, tense=tense, lean=True, negation=0.0, verbs=ACTIONS)
    if first is None or second is None or (first.tense, second.tense) != (tense, tense):
        return None
    if set(first.nouns()) & set(second.nouns()) or first.verb is second.verb:
        return None
    if isinstance(first.subject, Pronoun) and isinstance(second.subject, Pronoun):
        return None
    return first, second


def when(rng: Random) -> Sentence | None:
    """Als die Hexe schlief, stahl der Dieb den Besen."""
    drawn = _two_clauses(rng, "past")
    if drawn is None:
        return None
    first, second = drawn
    german = f"als {c.german_final(first)}, {c.german_question(second)}"
    english = f"when {c.english_main(first)}, {c.english_main(second)}"
    return _finish(german, english, first.combinations() + second.combinations())


def coordination(rng: Random) -> Sentence | None:
    """Der Koch backt einen Kuchen, und die Katze schläft auf dem Sofa."""
    drawn = _two_clauses(rng, rng.choice(("present", "perfect")))
    if drawn is None:
        return None
    first, second = drawn
    word, english_word = rng.choice((("und", "and"), ("aber", "but")))
    german = f"{c.german_main(first)}, {word} {c.german_main(second)}"
    english = f"{c.english_main(first)}, {english_word} {c.english_main(second)}"
    return _finish(german, english, first.combinations() + second.combinations())


def purpose(rng: Random) -> Sentence | None:
    """Der Dieb schleicht in den Keller, um den Schatz zu stehlen."""
    clause = draw_clause(rng, verbs=_GOING, tense=rng.choice(("present", "perfect")), lean=True, negation=0.0)
    if clause is None or clause.place is None or clause.place.phrase.noun not in ROOMS:
        return None
    aim = draw_clause(rng, tense="present", subject=clause.subject, lean=True, negation=0.0, verbs=ACTIONS)
    if (
        aim is None
        or not aim.objects
        or aim.place is not None
        or aim.verb.name in _NO_AIMS
        or set(clause.nouns()[-1:]) & set(aim.nouns())
    ):
        return None
    german = f"{c.german_main(clause)}, um {join(*c.german_middle(aim))} {zu_infinitive(aim.verb)}"
    english = f"{c.english_main(clause)} to {join(aim.verb.english, *c.english_rest(aim))}"
    return _finish(german, english, clause.combinations() + aim.combinations())


_GOING = [v for v in ACTIONS if v.name in ("gehen", "laufen", "schleichen")]
_NO_AIMS = ("träumen", "denken", "mitbringen", "werfen", "lachen")


def command(rng: Random) -> Sentence | None:
    """Mach bitte die Tür auf!"""
    clause = draw_clause(rng, tense="present", subject=_YOU, lean=True, negation=0.15, verbs=ACTIONS)
    if clause is None or clause.verb.infinitive in ("finden", "träumen", "jagen", "fressen"):
        return None
    polite = not clause.negated and rng.random() < 0.4
    german = join(imperative(clause.verb), "bitte" if polite else "", *c.german_middle(clause), clause.verb.prefix)
    english = join("do not" if clause.negated else "", "please" if polite else "", clause.verb.english)
    return _finish(german, join(english, *c.english_rest(clause)), clause.combinations(), "!")


_YOU = Pronoun("du", "you", 1, DEFINITE)


def comparison(rng: Random) -> Sentence | None:
    """Der Riese ist stärker als der Bär."""
    first, second = draw_subject(rng, LIVING, pronouns=False), draw_subject(rng, LIVING, pronouns=False)
    if isinstance(first, Pronoun) or isinstance(second, Pronoun) or first.noun is second.noun:
        return None
    base, more, english_base, english_more = rng.choice(COMPARISONS)
    if base == "groß" and "person" in first.noun.classes | second.noun.classes:
        return None  # persons are tall
    if rng.random() < 0.6:
        words, english_words = f"{more} als", f"{english_more} than"
    else:
        words, english_words = f"so {base} wie", f"as {english_base} as"
    negated = rng.random() < 0.2
    german = join(first.german("nominative"), german_is(first.person, "present"), "nicht" if negated else "", words)
    english = join(first.english(), be("present", first.person), "not" if negated else "", english_words)
    found = first.combinations() + second.combinations() + [f"{base}|{first.noun.german}"]
    return _finish(join(german, second.german("nominative")), join(english, second.english()), found)


def description(rng: Random) -> Sentence | None:
    """Die Suppe ist nicht heiß. War der König traurig?"""
    noun = rng.choice(_DESCRIBED)
    subject = Phrase(noun, bool(noun.plural) and rng.random() < 0.25, DEFINITE)
    adjective = draw_adjective(rng, subject.noun, 1.0)
    if adjective is None or adjective is subject.adjective:
        return None
    tense = rng.choice(("present", "past"))
    negated = rng.random() < 0.2
    is_, english_is = german_is(subject.person, tense), be(tense, subject.person)
    rest = join("nicht" if negated else "", adjective.german)
    english_rest = join("not" if negated else "", adjective.english)
    found = [*subject.combinations(), f"{adjective.german}|{subject.noun.german}"]
    if rng.random() < 0.3:
        german, english = (
            join(is_, subject.german("nominative"), rest),
            join(english_is, subject.english(), english_rest),
        )
        return _finish(german, english, found, "?")
    german = join(subject.german("nominative"), is_, rest)
    return _finish(german, join(subject.english(), english_is, english_rest), found)


# How often each pattern is tried.
PATTERNS: dict[Callable[[Random], Sentence | None], int] = {
    statement: 30,
    fronted: 30,
    yes_no_question: 8,
    word_question: 12,
    reason: 14,
    saying: 9,
    relative: 18,
    whenever: 12,
    when: 8,
    coordination: 5,
    purpose: 25,
    command: 6,
    comparison: 3,
    description: 4,
}


def sentence_drawer(rng: Random) -> Callable[[], Sentence | None]:
    """A function that draws a sentence at each call, or None when the draw made no sense."""
    deck = [pattern for pattern, count in PATTERNS.items() for _ in range(count)]
    return lambda: rng.choice(deck)(rng)
