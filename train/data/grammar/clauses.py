"""Converts the parts of a clause to words, in both languages: the position of the verb and of everything around it.

German puts the finite verb second in a main clause and last in a subordinate one. The rest of the verb (prefix,
participle, infinitive) ends the clause; the two parts are the bracket. Between them is the middle field:

    subject | pronouns | time | definite objects | often, not | manner | indefinite objects | place | bound objects

English keeps subject, verb, object, manner, place, time.
"""

from dataclasses import dataclass, field

from .phrases import Complement, Phrase, Text, join
from .words import AUXILIARIES, NOMINATIVE, Modal, Pronoun, Tense, Time, Verb

SUBJECT = "subject"  # for `omit`: the subject is understood


@dataclass(slots=True)
class Clause:
    """The content of a clause: the verb, its subject and objects, time, manner and place.

    A modal uses Tense.HABIT as its present and Tense.PAST as its past.

    `turned` means that the German subject is the English object (der Hut gefällt der Hexe, the witch likes the hat).
    `no_not` means that an object already contains the negation (keinen Hut).
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
    manner: Text | None = None
    place: Text | None = None


def main(clause: Clause, first: Time | Text | Complement | None = None, omit: object = None) -> Text:
    """Return a main clause: the finite verb is second, after the subject or after `first`, another part of the clause.

    A time that comes first in German also comes first in English. With `omit=SUBJECT` the verb comes first, as in the
    second half of "Er steht auf und macht die Tür zu".
    """
    in_english = first if isinstance(first, Time) else None
    english = _english(clause, in_english.english if in_english else "", in_english or omit)
    return Text(_german_main(clause, first.german if first else "", first or omit), english)


def after(start: Text, clause: Clause) -> Text:
    """Return a main clause after a subordinate one, which takes the first place: "wenn es regnet, schläft der Bär"."""
    return Text(_german_main(clause, start.german + ","), f"{start.english}, {_english(clause)}")


def shared(clause: Clause) -> Text:
    """Return a second bracket that shares subject and auxiliary: "Er ist aufgestanden und in den Garten gegangen"."""
    return Text(join([*middle_field(clause), bracket(clause)[1]]), _english(clause, omit=SUBJECT))


def question(clause: Clause, word: Text | Complement | None = None, omit: object = None) -> Text:
    """Return a question. The verb comes first or after a question word; the part that the word asks for is omitted."""
    german = _german_main(clause, word.german if word else "", omit, question=True)
    return Text(german, _english(clause, word.english if word else "", omit, question=True), "?")


def final(clause: Clause, first: Text, omit: object = None) -> Text:
    """Return a subordinate clause, after a conjunction or a relative pronoun: "weil er die Tür zumacht"."""
    subject = "" if omit is SUBJECT else clause.subject.german(NOMINATIVE)
    german = join([first.german, subject, *middle_field(clause, omit), bracket(clause)[2]])
    return Text(german, join([first.english, _english(clause, omit=omit)]))


def command(clause: Clause, please: bool) -> Text:
    """Return a command: "Mach bitte die Tür zu!", "Please close the door!"."""
    verb, words = clause.verb, middle_field(clause)
    if please:
        item = clause.objects[0] if clause.objects else None
        words.insert(1 if item and isinstance(item.phrase, Pronoun) and not item.preposition else 0, "bitte")
    imperative = verb.present[4] if clause.subject.person == 4 else verb.imperative
    start = ["please" if please else "", "don't" if clause.negated else ""]
    english = join([*start, *_predicate(clause, verb.english[0])])
    return Text(join([imperative, *words, verb.prefix]), english, "!")


def purpose(clause: Clause) -> Text:
    """Return an infinitive clause: "um die Tür aufzumachen", "to close the door"."""
    verb = clause.verb
    infinitive = f"{verb.prefix}zu{verb.present[3]}" if verb.prefix else f"zu {verb.name}"
    return Text(join(["um", *middle_field(clause), infinitive]), join(["to", *_predicate(clause, verb.english[0])]))


# --- German -----------------------------------------------------------------------------------------------------------


def bracket(clause: Clause) -> tuple[str, str, str]:
    """Return the finite verb, the words at the clause's end, and both for a finite verb at the end (aufmacht)."""
    verb, person, (tense, _) = clause.verb, clause.subject.person, clause.tense.value
    closing = verb.name
    if clause.modal:
        finite = (clause.modal.past if clause.tense is Tense.PAST else clause.modal.present)[person]
    elif tense == "future":
        finite = AUXILIARIES["werden"][0][person]
    elif tense == "present":
        finite = verb.present[person]
        return finite, verb.prefix, verb.prefix + finite
    elif verb.name == "sein":
        finite = AUXILIARIES["sein"][1][person]
        return finite, "", finite
    else:
        finite, closing = AUXILIARIES[verb.auxiliary][0][person], verb.participle
    return finite, closing, f"{closing} {finite}"


def middle_field(clause: Clause, omit: object = None) -> list[str]:
    """Return the words between the halves of the verb, without the subject and without `omit`, a part put elsewhere."""
    objects: dict[str, list[str]] = {"pronoun": [], "definite": [], "indefinite": [], "bound": []}
    for item in clause.objects:
        if item is not omit:
            kind = "pronoun" if isinstance(item.phrase, Pronoun) else "definite" if item.definite else "indefinite"
            objects["bound" if item.bound else kind].append(item.german)
    time = clause.time.german if clause.time and clause.time is not omit else ""
    early = clause.time and not (
        "inner" in clause.time.flags or clause.negated
    )  # with "nicht", definite objects come first
    return [
        *objects["pronoun"],
        *([time] if early else []),
        *objects["definite"],
        *([] if early else [time]),
        "nicht" if clause.negated and not clause.no_not else "",
        clause.manner.german if clause.manner else "",
        *objects["indefinite"],
        clause.place.german if clause.place and clause.place is not omit else "",
        *objects["bound"],
    ]


def _german_main(clause: Clause, first: str = "", omit: object = None, question: bool = False) -> str:
    """Join subject and verb, or verb and subject after `first` and in questions."""
    finite, closing, _ = bracket(clause)
    start = ["" if omit is SUBJECT else clause.subject.german(NOMINATIVE), finite]
    if first or question:
        start = [first, *reversed(start)]
    return join([*start, *middle_field(clause, omit), closing])


# --- English ----------------------------------------------------------------------------------------------------------


def verb_group(clause: Clause, question: bool = False) -> tuple[str, str]:
    """Return the English auxiliary, if there is one, and the rest of the verb.

    Examples are ("is", "eating"), ("", "ate") and ("doesn't", "want to eat"). Questions and negated clauses need an
    auxiliary: a simple tense uses do, except with be and can.
    """
    person = clause.objects[0].phrase.person if clause.turned else clause.subject.person
    base, _, _, participle, ing = clause.verb.english
    _, tense = clause.tense.value
    with_do = question or clause.negated
    if clause.modal:
        auxiliary, main = _simple(clause.modal.english, person, tense == "past", with_do)
        main = join([main, clause.modal.link, base])
    elif tense == "progressive":
        auxiliary, main = AUXILIARIES["be"][0][person], ing
    elif tense == "perfect":
        auxiliary, main = "has" if person == 2 else "have", participle
    elif tense == "future":
        auxiliary, main = "will", base
    else:
        auxiliary, main = _simple(clause.verb.english, person, tense == "past", with_do)
    if clause.negated:
        auxiliary = {"am": "'m not", "can": "can't", "will": "won't"}.get(auxiliary, auxiliary + "n't")
    return auxiliary, main


def _simple(forms: list[str], person: int, past: bool, with_do: bool) -> tuple[str, str]:
    base, third, past_form, *_ = forms
    if base in AUXILIARIES:
        return AUXILIARIES[base][past][person], ""
    if with_do:
        return ("did" if past else "does" if person == 2 else "do"), base
    return "", past_form if past else third if person == 2 else base


def _english(clause: Clause, first: str = "", omit: object = None, question: bool = False) -> str:
    """Join subject, verb, object, manner, place and time. In questions the auxiliary precedes the subject.

    The object may be omitted (the boy whom the witch helped), and so may the subject (the witch who helped the boy).
    """
    auxiliary, main = verb_group(clause, question)
    subject = clause.objects[0].phrase.english_subject if clause.turned else clause.subject.english_subject
    start = ["" if omit is SUBJECT else subject, auxiliary]
    inner = clause.time.english if clause.time and "inner" in clause.time.flags and clause.time is not omit else ""
    return join([first, *(reversed(start) if question else start), inner, *_predicate(clause, main, omit)])


def _predicate(clause: Clause, main: str, omit: object = None) -> list[str]:
    """Return the main verb and all that follows it."""
    verb, time = clause.verb, clause.time
    objects = [item.english for item in clause.objects if item is not omit]
    if clause.turned:
        objects = [clause.subject.english_object]
    if verb.particle:  # wake him up, wake up the king
        pronoun = bool(clause.objects) and isinstance(clause.objects[0].phrase, Pronoun)
        objects.insert(1 if pronoun and objects else 0, verb.particle)
    return [
        main,
        verb.preposition,
        *objects,
        clause.manner.english if clause.manner else "",
        clause.place.english if clause.place and clause.place is not omit else "",
        time.english if time and "inner" not in time.flags and time is not omit else "",
    ]
