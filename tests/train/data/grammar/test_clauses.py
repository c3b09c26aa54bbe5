"""Word order and agreement in both languages: hand-written pairs, each built from its parts."""

from __future__ import annotations

import pytest

from handloom.train.data.grammar.clauses import (
    SUBJECT,
    Clause,
    english_command,
    english_purpose,
    english_question,
    english_statement,
    german_command,
    german_continued,
    german_final,
    german_main,
    german_purpose,
    german_question,
)
from handloom.train.data.grammar.inflection import ACCUSATIVE, DATIVE, NOMINATIVE
from handloom.train.data.grammar.phrases import (
    Adverbial,
    Complement,
    NounPhrase,
    PronounPhrase,
    Relative,
    two_way_phrase,
)
from handloom.train.data.grammar.storyteller import reversible
from handloom.train.data.grammar.words import (
    ACTIONS,
    ADJECTIVES,
    ALL,
    ALL_NOUNS,
    BARE,
    BE,
    DEFINITE,
    EVERY,
    INDEFINITE,
    INSTRUMENT,
    MANNERS,
    MODALS,
    NO,
    NOT_A,
    NOT_YET,
    NUMBERS,
    PRONOUNS,
    STATES,
    THIS,
    TIMES,
    TURNED,
    WHICH,
    WHO,
    Tense,
)

NOUNS = {noun.german: noun for noun in ALL_NOUNS}
ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
VERBS = {verb.name: verb for verb in [*ACTIONS, *STATES, *TURNED, BE]}
MODAL = {modal.german: modal for modal in MODALS}
ICH, DU, ER, WIR, IHR, SIE_PLURAL, SIE, ES = (PronounPhrase(word) for word in PRONOUNS)


def np(noun, determiner=DEFINITE, adjective=None, *, plural=False, owner=None):
    return NounPhrase(NOUNS[noun], determiner, ADJECTIVE.get(adjective), plural, owner)


def obj(phrase, case=ACCUSATIVE, preposition="", companion=False):
    return Complement(case, phrase, preposition, companion)


def to(phrase):
    return obj(phrase, DATIVE)


def say(subject, verb, *objects, **parts):
    if "manner" in parts:
        parts["manner"] = Adverbial(parts["manner"], MANNERS[parts["manner"]])
    if "modal" in parts:
        parts["modal"] = MODAL[parts["modal"]]
    tense = parts.get("tense", Tense.HABIT)
    if "time" in parts:
        parts["time"] = next(time for time in [*TIMES[tense], NOT_YET] if time.german == parts["time"])
    return Clause(VERBS[verb], subject, objects=list(objects), **parts)


# Statements with the subject first.
STATEMENTS = [
    (say(np("Drache", adjective="müde"), "essen", obj(np("Kuchen"))),
     "der müde Drache isst den Kuchen", "the tired dragon eats the cake"),
    (say(np("Mädchen"), "suchen", obj(np("Katze", np("Mädchen").pronoun().possessive)), tense=Tense.NOW, time="gerade"),
     "das Mädchen sucht gerade seine Katze", "the girl is looking for her cat right now"),
    (say(np("Pirat"), "verstecken", obj(np("Schatz")), tense=Tense.PAST, time="gestern"),
     "der Pirat hat gestern den Schatz versteckt", "the pirate hid the treasure yesterday"),
    (say(np("Hund", plural=True), "weglaufen", tense=Tense.PAST),
     "die Hunde sind weggelaufen", "the dogs ran away"),
    (say(ICH, "aufmachen", obj(np("Fenster")), manner="leise"),
     "ich mache das Fenster leise auf", "I open the window quietly"),
    (say(ICH, "lesen", obj(np("Brief", INDEFINITE)), manner="leise"),
     "ich lese leise einen Brief", "I read a letter quietly"),
    (say(np("Ritter"), "helfen", to(np("Hexe", adjective="alt")), tense=Tense.PAST),
     "der Ritter hat der alten Hexe geholfen", "the knight helped the old witch"),
    (say(np("Tante", PRONOUNS[0].possessive), "erzählen", to(np("Kind", plural=True)), obj(np("Märchen")),
         tense=Tense.FUTURE, time="morgen"),
     "meine Tante wird morgen den Kindern das Märchen erzählen",
     "my aunt will tell the children the fairy tale tomorrow"),
    (say(DU, "geben", to(ICH), obj(np("Schlüssel")), tense=Tense.PAST),
     "du hast mir den Schlüssel gegeben", "you gave me the key"),
    (say(np("König"), "aufwecken", obj(ER), tense=Tense.PAST),
     "der König hat ihn aufgeweckt", "the king woke him up"),
    (say(np("König"), "aufwecken", obj(np("Koch")), tense=Tense.PLAN, time="bald"),
     "der König weckt bald den Koch auf", "the king will wake up the cook soon"),
    (say(np("Fuchs"), "schleichen", place=two_way_phrase("in", np("Scheune"), goal=True)),
     "der Fuchs schleicht in die Scheune", "the fox sneaks into the barn"),
    (say(np("Fuchs"), "schlafen", place=two_way_phrase("in", np("Garten"), goal=False)),
     "der Fuchs schläft im Garten", "the fox sleeps in the garden"),
    (say(np("Gärtner"), "stellen", obj(np("Lampe")), place=two_way_phrase("neben", np("Bett"), goal=True)),
     "der Gärtner stellt die Lampe neben das Bett", "the gardener puts the lamp next to the bed"),
    (say(np("Lampe"), "stehen", place=two_way_phrase("neben", np("Bett", adjective="neu"), goal=False)),
     "die Lampe steht neben dem neuen Bett", "the lamp stands next to the new bed"),
    (say(np("Kind"), "warten", obj(np("Hund"), preposition="auf"), tense=Tense.PAST),
     "das Kind hat auf den Hund gewartet", "the child waited for the dog"),
    (say(np("Prinzessin"), "sprechen", obj(np("Drache"), DATIVE, "mit")),
     "die Prinzessin spricht mit dem Drachen", "the princess talks to the dragon"),
    (say(np("Hexe"), "tanzen", obj(np("Bär"), DATIVE, "mit", companion=True), tense=Tense.PAST),
     "die Hexe hat mit dem Bären getanzt", "the witch danced with the bear"),
    (say(np("Onkel"), "spielen", obj(np("Geige", INSTRUMENT)), place=two_way_phrase("auf", np("Dach"), goal=False)),
     "der Onkel spielt auf dem Dach Geige", "the uncle plays the violin on the roof"),
    (say(WIR, "lesen", obj(np("Zeitung", THIS)), negated=True),
     "wir lesen diese Zeitung nicht", "we don't read this newspaper"),
    (say(np("Dieb"), "stehlen", obj(np("Apfel", NOT_A, plural=True)), negated=True, no_not=True, tense=Tense.PAST),
     "der Dieb hat keine Äpfel gestohlen", "the thief didn't steal any apples"),
    (say(np("Maus"), "gehen", place=two_way_phrase("in", np("Küche"), goal=True), negated=True, tense=Tense.FUTURE),
     "die Maus wird nicht in die Küche gehen", "the mouse won't go into the kitchen"),
    (say(np("Pirat", NO), "schlafen", tense=Tense.PAST), "kein Pirat hat geschlafen", "no pirate slept"),
    (say(np("Kind", EVERY), "kennen", obj(np("Märchen"))), "jedes Kind kennt das Märchen",
     "every child knows the fairy tale"),
    (say(np("Eule", ALL, plural=True), "fliegen", place=two_way_phrase("in", np("Turm"), goal=True), tense=Tense.PAST),
     "alle Eulen sind in den Turm geflogen", "all the owls flew into the tower"),
    (say(np("Maus", NUMBERS[1], plural=True), "stehlen", obj(np("Nuss", BARE, plural=True)), tense=Tense.PAST),
     "drei Mäuse haben Nüsse gestohlen", "three mice stole nuts"),
    (say(np("Koch"), "kochen", obj(np("Suppe")), modal="müssen", tense=Tense.PAST),
     "der Koch musste die Suppe kochen", "the cook had to cook the soup"),
    (say(IHR, "zumachen", obj(np("Tür")), modal="dürfen", negated=True),
     "ihr dürft die Tür nicht zumachen", "you aren't allowed to close the door"),
    (say(SIE, "besuchen", obj(WIR), modal="wollen"), "sie will uns besuchen", "she wants to visit us"),
    (say(SIE_PLURAL, "besuchen", obj(WIR), modal="können"), "sie können uns besuchen", "they can visit us"),
    (say(np("Sängerin"), "einpacken", obj(np("Koffer")), tense=Tense.EXPERIENCE, time="schon"),
     "die Sängerin hat den Koffer schon eingepackt", "the singer has already packed the suitcase"),
    (say(np("Sängerin"), "lesen", obj(np("Brief")), tense=Tense.EXPERIENCE, time="noch", negated=True),
     "die Sängerin hat den Brief noch nicht gelesen", "the singer hasn't read the letter yet"),
    (say(np("Esel"), "essen", obj(np("Karotte", INDEFINITE)), time="manchmal"),
     "der Esel isst manchmal eine Karotte", "the donkey sometimes eats a carrot"),
    (say(ICH, "sein", place=Adverbial("müde", "tired"), negated=True), "ich bin nicht müde", "I'm not tired"),
    (say(np("Wald"), "sein", place=Adverbial("sehr dunkel", "very dark"), tense=Tense.PAST),
     "der Wald war sehr dunkel", "the forest was very dark"),
    (say(np("Hut", adjective="rot"), "gefallen", to(np("Hexe")), turned=True),
     "der rote Hut gefällt der Hexe", "the witch likes the red hat"),
    (say(np("Hut", plural=True), "gefallen", to(ICH), turned=True, negated=True),
     "die Hüte gefallen mir nicht", "I don't like the hats"),
    (say(np("Haustürschlüssel"), "gehören", to(np("Nachbar"))),
     "der Haustürschlüssel gehört dem Nachbarn", "the front door key belongs to the neighbour"),
    (say(WIR, "finden", obj(np("Hut", adjective="golden", owner=np("König"))), tense=Tense.PAST),
     "wir haben den goldenen Hut des Königs gefunden", "we found the king's golden hat"),
    (say(WIR, "finden", obj(np("Ball", owner=np("Kind", plural=True))), tense=Tense.PAST),
     "wir haben den Ball der Kinder gefunden", "we found the children's ball"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "german", "english"), STATEMENTS, ids=[german for _, german, _ in STATEMENTS])
def test_statements(clause, german, english):
    assert german_main(clause) == german
    assert english_statement(clause).replace(" 'm", "'m") == english


GIRL_HELPS = say(np("Mädchen"), "helfen", to(np("Bär")), tense=Tense.PAST, time="gestern")
BAKER_OPENS = say(np("Bäcker"), "aufmachen", obj(np("Tür")), manner="leise")


def test_the_verb_stays_second_whatever_comes_first():
    time, bear = GIRL_HELPS.time, GIRL_HELPS.objects[0]
    assert german_main(GIRL_HELPS, "gestern", time) == "gestern hat das Mädchen dem Bären geholfen"
    assert english_statement(GIRL_HELPS, fronted=time) == "yesterday the girl helped the bear"
    assert german_main(GIRL_HELPS, "dem Bären", bear) == "dem Bären hat das Mädchen gestern geholfen"
    assert english_statement(GIRL_HELPS) == "the girl helped the bear yesterday"


def test_the_verb_comes_last_in_a_subordinate_clause_and_takes_its_prefix_along():
    assert german_final(BAKER_OPENS, "weil") == "weil der Bäcker die Tür leise aufmacht"
    assert german_final(GIRL_HELPS, "dass") == "dass das Mädchen gestern dem Bären geholfen hat"
    modal = say(ER, "weglaufen", modal="wollen", tense=Tense.PAST)
    assert german_final(modal, "obwohl") == "obwohl er weglaufen wollte"


def test_questions_put_the_verb_first_and_english_uses_do():
    assert german_question(BAKER_OPENS) == "macht der Bäcker die Tür leise auf"
    assert english_question(BAKER_OPENS) == "does the baker open the door quietly"
    assert german_question(GIRL_HELPS) == "hat das Mädchen gestern dem Bären geholfen"
    assert english_question(GIRL_HELPS) == "did the girl help the bear yesterday"


def test_question_words():
    bear = GIRL_HELPS.objects[0]
    assert german_main(GIRL_HELPS, "wem", bear) == "wem hat das Mädchen gestern geholfen"
    assert english_question(GIRL_HELPS, "who", bear) == "who did the girl help yesterday"
    who = say(PronounPhrase(WHO), "essen", obj(np("Keks")), tense=Tense.PAST)
    assert german_main(who) == "wer hat den Keks gegessen"
    assert english_statement(who) == "who ate the biscuit"
    which = say(DU, "kaufen", obj(np("Hut", WHICH)), tense=Tense.PAST)
    item = which.objects[0]
    assert german_main(which, item.german(), item) == "welchen Hut hast du gekauft"
    assert english_question(which, item.phrase.english_object(), item) == "which hat did you buy"


def test_commands():
    clause = say(DU, "aufmachen", obj(np("Tür")))
    assert german_command(clause, please=True) == "mach bitte die Tür auf"
    assert english_command(clause, please=True) == "please open the door"
    clause = say(IHR, "helfen", to(ER), negated=True)
    assert german_command(clause, please=False) == "helft ihm nicht"
    assert english_command(clause, please=False) == "don't help him"
    assert german_command(say(DU, "helfen", to(ER)), please=True) == "hilf ihm bitte"


def test_purposes():
    assert german_purpose(BAKER_OPENS) == "um die Tür leise aufzumachen"
    assert english_purpose(BAKER_OPENS) == "to open the door quietly"


def test_a_second_verb_shares_the_subject():
    clause = say(ER, "zumachen", obj(np("Fenster")), tense=Tense.PAST)
    assert german_continued(clause) == "das Fenster zugemacht"
    assert german_main(clause, omit=SUBJECT) == "hat das Fenster zugemacht"
    assert english_statement(clause, omit=SUBJECT) == "closed the window"


@pytest.mark.parametrize(
    ("head", "case", "german"),
    [
        ("Pirat", NOMINATIVE, "der"),
        ("Pirat", ACCUSATIVE, "den"),
        ("Pirat", DATIVE, "dem"),
        ("Hexe", DATIVE, "der"),
        ("Kind", ACCUSATIVE, "das"),
    ],
)
def test_relative_pronouns_agree_with_the_head_and_stand_in_the_case_of_their_clause(head, case, german):
    assert np(head).relative_pronoun(case) == german
    assert np(head, plural=True).relative_pronoun(DATIVE) == "denen"


def test_relative_clauses_are_set_off_by_commas_only_in_german():
    head = np("Ritter")
    clause = say(np("Hexe"), "helfen", to(head), tense=Tense.PAST)
    german = german_final(clause, head.relative_pronoun(DATIVE), clause.objects[0])
    english = "whom " + english_statement(clause, omit=clause.objects[0])
    head.relative = Relative(german, english)
    assert head.german(NOMINATIVE) == "der Ritter, dem die Hexe geholfen hat,"
    assert head.english() == "the knight whom the witch helped"


def test_a_pronoun_takes_the_gender_of_the_noun_in_german_and_of_the_person_in_english():
    girl, cat, ghosts = np("Mädchen"), np("Katze"), np("Gespenst", plural=True)
    pairs = [(PronounPhrase(item.pronoun()).german(NOMINATIVE), item.pronoun().english_subject) for item in (girl, cat)]
    assert pairs == [("es", "she"), ("sie", "it")]
    assert ghosts.pronoun().english_subject == "they"
    assert (girl.pronoun().possessive.german, girl.pronoun().possessive.english) == ("sein", "her")


def test_reversible_finds_clauses_that_only_word_order_could_tell_apart():
    assert reversible(say(np("Katze"), "beobachten", obj(np("Maus"))))
    assert not reversible(say(np("Katze"), "beobachten", obj(np("Hund"))))
    assert not reversible(say(np("Katze"), "beobachten", obj(np("Maus", plural=True))))
    assert not reversible(say(np("Hexe"), "helfen", to(np("Königin"))))
    assert reversible(say(SIE, "besuchen", obj(np("Königin"))))
    assert not reversible(say(np("Hexe"), "lesen", obj(np("Zeitung"))))
