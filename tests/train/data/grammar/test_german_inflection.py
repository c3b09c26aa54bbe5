"""German endings against tables written out by hand, as a school grammar prints them."""

from __future__ import annotations

import pytest

from handloom.train.data.grammar.inflection import (
    ACCUSATIVE,
    DATIVE,
    GENITIVE,
    NOMINATIVE,
    adjective_form,
    determiner_form,
    imperative,
    modal_past,
    modal_present,
    noun_form,
    participle,
    present,
    zu_infinitive,
)
from handloom.train.data.grammar.phrases import NounPhrase
from handloom.train.data.grammar.words import (
    ACTIONS,
    ADJECTIVES,
    ALL_NOUNS,
    BARE,
    BE,
    DEFINITE,
    INDEFINITE,
    MANY,
    MODALS,
    NOT_A,
    PRONOUNS,
    STATES,
    THINKING,
    THIS,
)

CASES = (NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE)
NOUNS = {noun.german: noun for noun in ALL_NOUNS}
ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
VERBS = {verb.name: verb for verb in [*ACTIONS, *STATES, *THINKING, BE]}

# determiner, adjective, noun, plural: nominative, accusative, dative, genitive
DECLINED = [
    (DEFINITE, "alt", "Hund", False, "der alte Hund|den alten Hund|dem alten Hund|des alten Hundes"),
    (DEFINITE, "alt", "Katze", False, "die alte Katze|die alte Katze|der alten Katze|der alten Katze"),
    (DEFINITE, "alt", "Pferd", False, "das alte Pferd|das alte Pferd|dem alten Pferd|des alten Pferdes"),
    (DEFINITE, "alt", "Hund", True, "die alten Hunde|die alten Hunde|den alten Hunden|der alten Hunde"),
    (INDEFINITE, "alt", "Hund", False, "ein alter Hund|einen alten Hund|einem alten Hund|eines alten Hundes"),
    (INDEFINITE, "alt", "Katze", False, "eine alte Katze|eine alte Katze|einer alten Katze|einer alten Katze"),
    (INDEFINITE, "alt", "Pferd", False, "ein altes Pferd|ein altes Pferd|einem alten Pferd|eines alten Pferdes"),
    (BARE, "alt", "Katze", True, "alte Katzen|alte Katzen|alten Katzen|alter Katzen"),
    (MANY, "alt", "Maus", True, "viele alte Mäuse|viele alte Mäuse|vielen alten Mäusen|vieler alter Mäuse"),
    (NOT_A, "alt", "Hund", True, "keine alten Hunde|keine alten Hunde|keinen alten Hunden|keiner alten Hunde"),
    (THIS, "alt", "Pferd", False, "dieses alte Pferd|dieses alte Pferd|diesem alten Pferd|dieses alten Pferdes"),
    (DEFINITE, "müde", "Bär", False, "der müde Bär|den müden Bären|dem müden Bären|des müden Bären"),
    (DEFINITE, "dunkel", "Turm", False, "der dunkle Turm|den dunklen Turm|dem dunklen Turm|des dunklen Turmes"),
    (DEFINITE, "arm", "Pirat", True, "die armen Piraten|die armen Piraten|den armen Piraten|der armen Piraten"),
    (INDEFINITE, "neu", "Bett", False, "ein neues Bett|ein neues Bett|einem neuen Bett|eines neuen Bettes"),
]  # fmt: skip


@pytest.mark.parametrize(("determiner", "adjective", "noun", "plural", "expected"), DECLINED)
def test_noun_phrases_decline_as_in_a_school_grammar(determiner, adjective, noun, plural, expected):
    phrase = NounPhrase(NOUNS[noun], determiner, ADJECTIVE[adjective], plural)
    assert "|".join(phrase.german(case) for case in CASES) == expected


def test_weak_endings_are_en_except_in_five_places():
    places = {
        (gender, case)
        for gender in "mfnp"
        for case in CASES
        if adjective_form(ADJECTIVE["rot"], DEFINITE, gender, case) == "rote"
    }
    assert places == {
        ("m", NOMINATIVE), ("f", NOMINATIVE), ("n", NOMINATIVE), ("f", ACCUSATIVE), ("n", ACCUSATIVE),
    }  # fmt: skip
    assert {adjective_form(ADJECTIVE["rot"], DEFINITE, g, c) for g in "mfnp" for c in CASES} == {"rote", "roten"}


def test_where_ein_has_no_ending_the_adjective_shows_the_gender():
    for gender, ending in (("m", "er"), ("n", "es")):
        assert determiner_form(INDEFINITE, gender, NOMINATIVE) == "ein"
        assert adjective_form(ADJECTIVE["neu"], INDEFINITE, gender, NOMINATIVE) == "neu" + ending


def test_euer_loses_its_e_before_an_ending():
    euer = PRONOUNS[4].possessive
    assert [determiner_form(euer, gender, NOMINATIVE) for gender in "mfn"] == ["euer", "eure", "euer"]
    assert determiner_form(euer, "m", ACCUSATIVE) == "euren"


@pytest.mark.parametrize(
    ("noun", "genitive", "dative_plural"),
    [
        ("Koch", "Koches", "Köchen"),
        ("König", "Königs", "Königen"),
        ("Mädchen", "Mädchens", "Mädchen"),
        ("Gespenst", "Gespenstes", "Gespenstern"),
        ("Fuchs", "Fuchses", "Füchsen"),
        ("Pirat", "Piraten", "Piraten"),
        ("Königin", "Königin", "Königinnen"),
        ("Sofa", "Sofas", "Sofas"),
        ("Onkel", "Onkels", "Onkeln"),
    ],
)
def test_genitive_and_dative_plural(noun, genitive, dative_plural):
    assert noun_form(NOUNS[noun], False, GENITIVE) == genitive
    assert noun_form(NOUNS[noun], True, DATIVE) == dative_plural


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("essen", "esse isst isst essen esst essen"),
        ("lesen", "lese liest liest lesen lest lesen"),
        ("geben", "gebe gibst gibt geben gebt geben"),
        ("schlafen", "schlafe schläfst schläft schlafen schlaft schlafen"),
        ("einladen", "lade lädst lädt laden ladet laden"),
        ("warten", "warte wartest wartet warten wartet warten"),
        ("zeichnen", "zeichne zeichnest zeichnet zeichnen zeichnet zeichnen"),
        ("tanzen", "tanze tanzt tanzt tanzen tanzt tanzen"),
        ("füttern", "füttere fütterst füttert füttern füttert füttern"),
        ("streicheln", "streichle streichelst streichelt streicheln streichelt streicheln"),
        ("wissen", "weiß weißt weiß wissen wisst wissen"),
        ("mögen", "mag magst mag mögen mögt mögen"),
        ("hassen", "hasse hasst hasst hassen hasst hassen"),
        ("sein", "bin bist ist sind seid sind"),
        ("haben", "habe hast hat haben habt haben"),
    ],
)
def test_present_tense(verb, forms):
    assert " ".join(present(VERBS[verb], person) for person in range(6)) == forms


@pytest.mark.parametrize(
    ("verb", "form", "auxiliary"),
    [
        ("essen", "gegessen", "haben"),
        ("aufmachen", "aufgemacht", "haben"),
        ("mitbringen", "mitgebracht", "haben"),
        ("einschlafen", "eingeschlafen", "sein"),
        ("folgen", "gefolgt", "sein"),
        ("verkaufen", "verkauft", "haben"),
        ("besuchen", "besucht", "haben"),
        ("erzählen", "erzählt", "haben"),
        ("reparieren", "repariert", "haben"),
        ("gehören", "gehört", "haben"),
        ("arbeiten", "gearbeitet", "haben"),
        ("zeichnen", "gezeichnet", "haben"),
        ("verlieren", "verloren", "haben"),
        ("streicheln", "gestreichelt", "haben"),
    ],
)
def test_participles(verb, form, auxiliary):
    assert (participle(VERBS[verb]), VERBS[verb].auxiliary) == (form, auxiliary)


@pytest.mark.parametrize(
    ("verb", "to_one", "to_many"),
    [
        ("aufmachen", "mach", "macht"),
        ("lesen", "lies", "lest"),
        ("essen", "iss", "esst"),
        ("helfen", "hilf", "helft"),
        ("schlafen", "schlaf", "schlaft"),
        ("tragen", "trag", "tragt"),
        ("arbeiten", "arbeite", "arbeitet"),
        ("zeichnen", "zeichne", "zeichnet"),
        ("füttern", "füttere", "füttert"),
        ("streicheln", "streichle", "streichelt"),
        ("verstecken", "versteck", "versteckt"),
    ],
)
def test_imperatives(verb, to_one, to_many):
    assert (imperative(VERBS[verb], 1), imperative(VERBS[verb], 4)) == (to_one, to_many)


def test_zu_stands_inside_a_separable_verb():
    assert zu_infinitive(VERBS["aufmachen"]) == "aufzumachen"
    assert zu_infinitive(VERBS["verstecken"]) == "zu verstecken"


def test_modal_verbs():
    forms = {modal.german: modal for modal in MODALS}
    assert [modal_present(forms["können"], person) for person in range(6)] == [
        "kann", "kannst", "kann", "können", "könnt", "können",
    ]  # fmt: skip
    assert modal_present(forms["müssen"], 1) == "musst"
    assert modal_present(forms["sollen"], 1) == "sollst"
    assert [modal_past(forms["müssen"], person) for person in range(6)] == [
        "musste", "musstest", "musste", "mussten", "musstet", "mussten",
    ]  # fmt: skip
