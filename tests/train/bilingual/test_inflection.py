"""The forms of words against hand-written tables."""

from __future__ import annotations

import pytest

from handloom.train.bilingual.english import progressive, third_person, with_article
from handloom.train.bilingual.inflection import adjective_ending, imperative, noun_form, verb_forms, zu_infinitive
from handloom.train.bilingual.lexicon import DEFINITE, INDEFINITE, MY, NOUNS, OUR, THIS, Adjective
from handloom.train.bilingual.phrases import Phrase
from handloom.train.bilingual.verbs import ACTIONS, MODALS, SAYING, STATES

CASES = ("nominative", "accusative", "dative", "genitive")
# Rows: nominative, accusative, dative, genitive; columns: masculine, feminine, neuter, plural.
ENDINGS = {
    "der": "e e e en / en e e en / en en en en / en en en en",
    "dieser": "e e e en / en e e en / en en en en / en en en en",
    "ein": "er e es en / en e es en / en en en en / en en en en",
    "bare": "er e es e / en e es e / em er em en / en er en er",
    "strong": "er e es e / en e es e / em er em en / en er en er",
}
NOUN = {noun.german: noun for noun in NOUNS}
VERB = {verb.name: verb for verb in ACTIONS + STATES + SAYING}


@pytest.mark.parametrize("declension", ENDINGS)
def test_adjective_endings(declension):
    table = [row.split() for row in ENDINGS[declension].split(" / ")]
    made = [[adjective_ending(declension, case, key) for key in "mfnp"] for case in CASES]
    assert made == table


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        (("Hund", False, DEFINITE, "alt"), "der alte Hund, den alten Hund, dem alten Hund, des alten Hundes"),
        (
            ("Bär", False, INDEFINITE, "jung"),
            "ein junger Bär, einen jungen Bären, einem jungen Bären, eines jungen Bären",
        ),
        (
            ("Maus", False, THIS, "klein"),
            "diese kleine Maus, diese kleine Maus, dieser kleinen Maus, dieser kleinen Maus",
        ),
        (("Kind", False, OUR, "müde"), "unser müdes Kind, unser müdes Kind, unserem müden Kind, unseres müden Kindes"),
        (("Hund", True, MY, "alt"), "meine alten Hunde, meine alten Hunde, meinen alten Hunden, meiner alten Hunde"),
        (("Turm", True, INDEFINITE, "dunkel"), "dunkle Türme, dunkle Türme, dunklen Türmen, dunkler Türme"),
    ],
)
def test_noun_phrases(phrase, forms):
    noun, plural, determiner, adjective = phrase
    made = Phrase(NOUN[noun], plural, determiner, Adjective(adjective, "", frozenset()))
    assert ", ".join(made.german(case) for case in CASES) == forms


def test_dative_plural_takes_no_second_n():
    assert noun_form(NOUN["Schal"], True, "dative") == "Schals"
    assert noun_form(NOUN["Katze"], True, "dative") == "Katzen"
    assert noun_form(NOUN["Buch"], True, "dative") == "Büchern"


@pytest.mark.parametrize(
    ("name", "tense", "forms"),
    [
        ("essen", "present", "esse isst isst essen esst essen"),
        ("lesen", "present", "lese liest liest lesen lest lesen"),
        ("helfen", "present", "helfe hilfst hilft helfen helft helfen"),
        ("arbeiten", "present", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("zeichnen", "present", "zeichne zeichnest zeichnet zeichnen zeichnet zeichnen"),
        ("streicheln", "present", "streichle streichelst streichelt streicheln streichelt streicheln"),
        ("füttern", "present", "füttere fütterst füttert füttern füttert füttern"),
        ("einladen", "present", "lade lädst lädt laden ladet laden"),
        ("sitzen", "present", "sitze sitzt sitzt sitzen sitzt sitzen"),
        ("mögen", "present", "mag magst mag mögen mögt mögen"),
        ("wissen", "present", "weiß weißt weiß wissen wisst wissen"),
        ("lesen", "past", "las lasest las lasen last lasen"),
        ("spielen", "past", "spielte spieltest spielte spielten spieltet spielten"),
        ("gehen", "past", "ging gingst ging gingen gingt gingen"),
    ],
)
def test_verb_forms(name, tense, forms):
    assert " ".join(verb_forms(VERB[name], tense)) == forms


def test_modal_verbs():
    made = {modal.infinitive: " ".join(verb_forms(modal, "present")[:4]) for modal in MODALS}
    assert made == {
        "können": "kann kannst kann können",
        "müssen": "muss musst muss müssen",
        "wollen": "will willst will wollen",
        "dürfen": "darf darfst darf dürfen",
        "sollen": "soll sollst soll sollen",
    }


def test_participles():
    expected = "repariert besucht gearbeitet aufgemacht eingeschlafen erzählt vergessen angerufen zurückgekommen"
    names = "reparieren besuchen arbeiten aufmachen einschlafen erzählen vergessen anrufen zurückkommen"
    assert " ".join(VERB[name].participle for name in names.split()) == expected
    assert [VERB[name].auxiliary for name in ("einschlafen", "schlafen", "folgen")] == ["sein", "haben", "sein"]


def test_imperatives_and_infinitives():
    names = "lesen essen helfen schlafen warten füttern tragen geben werfen"
    made = " ".join(imperative(VERB[name]) for name in names.split())
    assert made == "lies iss hilf schlaf warte füttere trag gib wirf"
    assert [zu_infinitive(VERB[name]) for name in ("essen", "aufmachen")] == ["zu essen", "aufzumachen"]


def test_english_words():
    assert [third_person(w) for w in ("eat", "watch", "carry", "play", "have", "go")] == [
        "eats", "watches", "carries", "plays", "has", "goes"
    ]  # fmt: skip
    assert [progressive(w) for w in ("eat", "bake", "lie", "run", "put", "play", "sleep")] == [
        "eating", "baking", "lying", "running", "putting", "playing", "sleeping"
    ]  # fmt: skip
    assert [with_article(w) for w in ("old cat", "cat", "umbrella")] == ["an old cat", "a cat", "an umbrella"]
