"""Agreement and word order in both languages: hand-written pairs, each built from its parts."""

from __future__ import annotations

import pytest

from handloom.train.data.grammar.clauses import SUBJECT, Clause, command, final, main, purpose, question, shared
from handloom.train.data.grammar.phrases import Complement, NounPhrase, Text, determiner_form, two_way_phrase
from handloom.train.data.grammar.storyteller import reversible
from handloom.train.data.grammar.words import (
    ACCUSATIVE,
    ACTIONS,
    ADJECTIVES,
    ALL_NOUNS,
    BE,
    DATIVE,
    DETERMINERS,
    MANNERS,
    MODALS,
    NOMINATIVE,
    NOT_YET,
    NUMBERS,
    PRONOUNS,
    STATES,
    TIMES,
    TURNED,
    WHO,
    Tense,
)

NOUNS = {noun.german: noun for noun in ALL_NOUNS}
ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
VERBS = {verb.name: verb for verb in [*ACTIONS, *STATES, *TURNED, BE]}
ICH, DU, ER, WIR, IHR, SIE_PLURAL, SIE, ES = PRONOUNS


def np(noun, determiner="definite", adjective=None, *, plural=False, owner=None):
    determiner = DETERMINERS.get(determiner, determiner)
    return NounPhrase(NOUNS[noun], determiner, ADJECTIVE.get(adjective), plural, owner)


def obj(phrase, case=ACCUSATIVE, preposition="", companion=False):
    return Complement(case, phrase, preposition, companion)


def to(phrase):
    return obj(phrase, DATIVE)


def at(preposition, noun, *, goal=False):
    return two_way_phrase(preposition, np(noun), goal)


def say(subject, verb, *objects, **parts):
    if "manner" in parts:
        parts["manner"] = Text(parts["manner"], MANNERS[parts["manner"]])
    if "modal" in parts:
        parts["modal"] = MODALS[parts["modal"]]
    tense = parts.get("tense", Tense.HABIT)
    if "time" in parts:
        parts["time"] = next(time for time in [*TIMES[tense], NOT_YET] if time.german == parts["time"])
    return Clause(VERBS[verb], subject, objects=list(objects), **parts)


# determiner, adjective, noun, plural: nominative, accusative, dative, genitive
DECLINED = [
    ("definite", "alt", "Hund", False, "der alte Hund|den alten Hund|dem alten Hund|des alten Hundes"),
    ("definite", "alt", "Katze", False, "die alte Katze|die alte Katze|der alten Katze|der alten Katze"),
    ("definite", "alt", "Hund", True, "die alten Hunde|die alten Hunde|den alten Hunden|der alten Hunde"),
    ("indefinite", "alt", "Hund", False, "ein alter Hund|einen alten Hund|einem alten Hund|eines alten Hundes"),
    ("indefinite", "alt", "Pferd", False, "ein altes Pferd|ein altes Pferd|einem alten Pferd|eines alten Pferdes"),
    ("indefinite_plural", "alt", "Katze", True, "alte Katzen|alte Katzen|alten Katzen|alter Katzen"),
    ("many", "alt", "Maus", True, "viele alte Mäuse|viele alte Mäuse|vielen alten Mäusen|vieler alter Mäuse"),
    ("not a", "alt", "Hund", True, "keine alten Hunde|keine alten Hunde|keinen alten Hunden|keiner alten Hunde"),
    ("this", "alt", "Pferd", False, "dieses alte Pferd|dieses alte Pferd|diesem alten Pferd|dieses alten Pferdes"),
    ("definite", "müde", "Bär", False, "der müde Bär|den müden Bären|dem müden Bären|des müden Bären"),
    ("definite", "dunkel", "Turm", False, "der dunkle Turm|den dunklen Turm|dem dunklen Turm|des dunklen Turmes"),
]


@pytest.mark.parametrize(("determiner", "adjective", "noun", "plural", "expected"), DECLINED)
def test_noun_phrases_decline_as_in_a_school_grammar(determiner, adjective, noun, plural, expected):
    phrase = np(noun, determiner, adjective, plural=plural)
    assert "|".join(phrase.german(case) for case in range(4)) == expected


def test_euer_loses_its_e_before_an_ending():
    assert [determiner_form(IHR.possessive, gender, NOMINATIVE) for gender in "mfn"] == ["euer", "eure", "euer"]


# Statements with the subject first.
STATEMENTS = [
    (say(np("Mädchen"), "suchen", obj(np("Katze", np("Mädchen").pronoun().possessive)), tense=Tense.NOW, time="gerade"),
     "das Mädchen sucht gerade seine Katze", "the girl is looking for her cat right now"),
    (say(np("Hund", plural=True), "weglaufen", tense=Tense.PAST),
     "die Hunde sind weggelaufen", "the dogs ran away"),
    (say(ICH, "aufmachen", obj(np("Fenster")), manner="leise"),
     "ich mache das Fenster leise auf", "I open the window quietly"),
    (say(ICH, "lesen", obj(np("Brief", "indefinite")), manner="leise"),
     "ich lese leise einen Brief", "I read a letter quietly"),
    (say(np("Tante", ICH.possessive), "erzählen", to(np("Kind", plural=True)), obj(np("Märchen")),
         tense=Tense.FUTURE, time="morgen"),
     "meine Tante wird morgen den Kindern das Märchen erzählen",
     "my aunt will tell the children the fairy tale tomorrow"),
    (say(DU, "geben", to(ICH), obj(np("Schlüssel")), tense=Tense.PAST),
     "du hast mir den Schlüssel gegeben", "you gave me the key"),
    (say(np("König"), "aufwecken", obj(ER), tense=Tense.PAST),
     "der König hat ihn aufgeweckt", "the king woke him up"),
    (say(np("König"), "aufwecken", obj(np("Koch")), tense=Tense.PLAN, time="bald"),
     "der König weckt bald den Koch auf", "the king will wake up the cook soon"),
    (say(np("Fuchs"), "schlafen", place=at("in", "Garten")),
     "der Fuchs schläft im Garten", "the fox sleeps in the garden"),
    (say(np("Gärtner"), "stellen", obj(np("Lampe")), place=at("neben", "Bett", goal=True)),
     "der Gärtner stellt die Lampe neben das Bett", "the gardener puts the lamp next to the bed"),
    (say(np("Kind"), "warten", obj(np("Hund"), preposition="auf"), tense=Tense.PAST),
     "das Kind hat auf den Hund gewartet", "the child waited for the dog"),
    (say(np("Hexe"), "tanzen", obj(np("Bär"), DATIVE, "mit", companion=True), tense=Tense.PAST),
     "die Hexe hat mit dem Bären getanzt", "the witch danced with the bear"),
    (say(np("Onkel"), "spielen", obj(np("Geige", "instrument")), place=at("auf", "Dach")),
     "der Onkel spielt auf dem Dach Geige", "the uncle plays the violin on the roof"),
    (say(WIR, "lesen", obj(np("Zeitung", "this")), negated=True),
     "wir lesen diese Zeitung nicht", "we don't read this newspaper"),
    (say(np("Dieb"), "stehlen", obj(np("Apfel", "not a", plural=True)), negated=True, no_not=True, tense=Tense.PAST),
     "der Dieb hat keine Äpfel gestohlen", "the thief didn't steal any apples"),
    (say(np("Maus"), "gehen", place=at("in", "Küche", goal=True), negated=True, tense=Tense.FUTURE),
     "die Maus wird nicht in die Küche gehen", "the mouse won't go into the kitchen"),
    (say(np("Maus", NUMBERS[1], plural=True), "stehlen", obj(np("Nuss", "indefinite_plural", plural=True)),
         tense=Tense.PAST), "drei Mäuse haben Nüsse gestohlen", "three mice stole nuts"),
    (say(np("Koch"), "kochen", obj(np("Suppe")), modal="müssen", tense=Tense.PAST),
     "der Koch musste die Suppe kochen", "the cook had to cook the soup"),
    (say(IHR, "zumachen", obj(np("Tür")), modal="dürfen", negated=True),
     "ihr dürft die Tür nicht zumachen", "you aren't allowed to close the door"),
    (say(SIE_PLURAL, "besuchen", obj(WIR), modal="können"), "sie können uns besuchen", "they can visit us"),
    (say(np("Sängerin"), "einpacken", obj(np("Koffer")), tense=Tense.EXPERIENCE, time="schon"),
     "die Sängerin hat den Koffer schon eingepackt", "the singer has already packed the suitcase"),
    (say(np("Sängerin"), "lesen", obj(np("Brief")), tense=Tense.EXPERIENCE, time="noch", negated=True),
     "die Sängerin hat den Brief noch nicht gelesen", "the singer hasn't read the letter yet"),
    (say(np("Esel"), "essen", obj(np("Karotte", "indefinite")), time="manchmal"),
     "der Esel isst manchmal eine Karotte", "the donkey sometimes eats a carrot"),
    (say(np("Wald"), "sein", place=Text("sehr dunkel", "very dark"), tense=Tense.PAST),
     "der Wald war sehr dunkel", "the forest was very dark"),
    (say(np("Hut", plural=True), "gefallen", to(ICH), turned=True, negated=True),
     "die Hüte gefallen mir nicht", "I don't like the hats"),
    (say(WIR, "finden", obj(np("Hut", adjective="golden", owner=np("König"))), tense=Tense.PAST),
     "wir haben den goldenen Hut des Königs gefunden", "we found the king's golden hat"),
    (say(np("Eule", "indefinite", "alt"), "sehen", obj(np("Ball", owner=np("Pirat", plural=True)))),
     "eine alte Eule sieht den Ball der Piraten", "an old owl sees the pirates' ball"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "german", "english"), STATEMENTS, ids=[german for _, german, _ in STATEMENTS])
def test_statements(clause, german, english):
    assert main(clause)[:2] == (german, english)


HELP = say(np("Mädchen"), "helfen", to(np("Bär")), tense=Tense.PAST, time="gestern")
OPEN = say(np("Bäcker"), "aufmachen", obj(np("Tür")), manner="leise")
BUY = say(DU, "kaufen", obj(np("Hut", "which")), tense=Tense.PAST)
CLOSE = say(ER, "zumachen", obj(np("Fenster")), tense=Tense.PAST)
WHOM = Text("dem", "whom")

ORDERS = [
    # The verb is second, whatever comes first; a time comes first in English too.
    (main(HELP, HELP.time), "gestern hat das Mädchen dem Bären geholfen", "yesterday the girl helped the bear"),
    (main(HELP, HELP.objects[0]), "dem Bären hat das Mädchen gestern geholfen", "the girl helped the bear yesterday"),
    # It is last in a subordinate clause, and takes its prefix along.
    (final(OPEN, Text("weil", "because")), "weil der Bäcker die Tür leise aufmacht",
     "because the baker opens the door quietly"),
    (final(HELP, Text("dass", "that")), "dass das Mädchen gestern dem Bären geholfen hat",
     "that the girl helped the bear yesterday"),
    (final(say(ER, "weglaufen", modal="wollen", tense=Tense.PAST), Text("obwohl", "although")),
     "obwohl er weglaufen wollte", "although he wanted to run away"),
    (final(HELP, WHOM, HELP.objects[0]), "dem das Mädchen gestern geholfen hat", "whom the girl helped yesterday"),
    # It is first in questions, where English uses do.
    (question(OPEN), "macht der Bäcker die Tür leise auf", "does the baker open the door quietly"),
    (question(HELP, Text("wem", "who"), HELP.objects[0]), "wem hat das Mädchen gestern geholfen",
     "who did the girl help yesterday"),
    (question(BUY, BUY.objects[0], BUY.objects[0]), "welchen Hut hast du gekauft", "which hat did you buy"),
    (main(say(WHO, "essen", obj(np("Keks")), tense=Tense.PAST)), "wer hat den Keks gegessen", "who ate the biscuit"),
    (command(say(DU, "aufmachen", obj(np("Tür"))), True), "mach bitte die Tür auf", "please open the door"),
    (command(say(IHR, "helfen", to(ER), negated=True), False), "helft ihm nicht", "don't help him"),
    (command(say(DU, "helfen", to(ER)), True), "hilf ihm bitte", "please help him"),
    (purpose(OPEN), "um die Tür leise aufzumachen", "to open the door quietly"),
    # A second verb shares the subject, and perhaps the auxiliary.
    (shared(CLOSE), "das Fenster zugemacht", "closed the window"),
    (main(CLOSE, omit=SUBJECT), "hat das Fenster zugemacht", "closed the window"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "german", "english"), ORDERS, ids=[german for _, german, _ in ORDERS])
def test_the_place_of_the_verb(text, german, english):
    assert text[:2] == (german, english)


def test_relative_clauses_are_set_off_by_commas_only_in_german():
    head = np("Ritter")
    head.relative = final(say(np("Hexe"), "helfen", tense=Tense.PAST), Text(head.relative_pronoun(DATIVE), "whom"))
    assert head.german(NOMINATIVE) == "der Ritter, dem die Hexe geholfen hat,"
    assert head.english() == "the knight whom the witch helped"


def test_a_pronoun_takes_the_gender_of_the_noun_in_german_and_of_the_person_in_english():
    girl, cat, ghosts = np("Mädchen"), np("Katze"), np("Gespenst", plural=True)
    pairs = [(item.pronoun().german(NOMINATIVE), item.pronoun().english_subject) for item in (girl, cat, ghosts)]
    assert pairs == [("es", "she"), ("sie", "it"), ("sie", "they")]


def test_reversible_finds_clauses_that_only_word_order_could_tell_apart():
    assert reversible(say(np("Katze"), "beobachten", obj(np("Maus"))))
    assert not reversible(say(np("Katze"), "beobachten", obj(np("Hund"))))
    assert not reversible(say(np("Katze"), "beobachten", obj(np("Maus", plural=True))))
    assert not reversible(say(np("Hexe"), "helfen", to(np("Königin"))))
    assert reversible(say(SIE, "besuchen", obj(np("Königin"))))
    assert not reversible(say(np("Hexe"), "lesen", obj(np("Zeitung"))))
