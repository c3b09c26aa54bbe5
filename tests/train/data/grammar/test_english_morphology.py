"""English endings and do-support against hand-written truth, for every irregular and every rule."""

from __future__ import annotations

import pytest

from handloom.train.data.grammar.english import (
    add_s,
    indefinite_article,
    modal_group,
    noun_form,
    possessive,
    tense_group,
)
from handloom.train.data.grammar.english import verb_forms as forms
from handloom.train.data.grammar.words import ACTIONS, ALL_NOUNS, BE, MODALS

VERBS = {verb.name: verb for verb in ACTIONS}
MODAL = {modal.german: modal for modal in MODALS}


@pytest.mark.parametrize(
    ("principal_parts", "expected"),
    [
        ("eat/ate/eaten", "eat eats ate eaten eating"),
        ("bake", "bake bakes baked baked baking"),
        ("cry", "cry cries cried cried crying"),
        ("play", "play plays played played playing"),
        ("watch", "watch watches watched watched watching"),
        ("go/went/gone", "go goes went gone going"),
        ("run/ran/run", "run runs ran run running"),
        ("put/put/put", "put puts put put putting"),
        ("lie/lay/lain", "lie lies lay lain lying"),
        ("see/saw/seen", "see sees saw seen seeing"),
        ("have/had/had", "have has had had having"),
        ("open", "open opens opened opened opening"),
        ("help", "help helps helped helped helping"),
        ("draw/drew/drawn", "draw draws drew drawn drawing"),
    ],
)
def test_verb_forms(principal_parts, expected):
    assert " ".join(forms(principal_parts)) == expected


def test_plurals():
    plurals = {noun.english: noun_form(noun, True) for noun in ALL_NOUNS}
    irregular = {
        "thief": "thieves", "child": "children", "mouse": "mice", "goose": "geese", "knife": "knives",
        "bookshelf": "bookshelves", "story": "stories", "library": "libraries", "diary": "diaries", "fox": "foxes",
        "witch": "witches", "princess": "princesses", "box": "boxes", "potato soup": "potato soups",
        "toothbrush": "toothbrushes", "donkey": "donkeys", "key": "keys", "boy": "boys", "piano": "pianos",
    }  # fmt: skip
    for singular, plural in irregular.items():
        assert plurals.get(singular) == plural


def test_articles_and_possessives():
    assert [indefinite_article(word) for word in ("owl", "old", "umbrella", "hat", "young")] == [
        "an", "an", "an", "a", "a",
    ]  # fmt: skip
    assert [possessive(owner) for owner in ("the witch", "the pirates", "the children", "the princess")] == [
        "the witch's", "the pirates'", "the children's", "the princess's",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tense", "person", "with_do", "expected"),
    [
        ("present", 2, False, ("", "eats")),
        ("present", 5, False, ("", "eat")),
        ("present", 2, True, ("does", "eat")),
        ("present", 0, True, ("do", "eat")),
        ("past", 2, False, ("", "ate")),
        ("past", 2, True, ("did", "eat")),
        ("progressive", 0, False, ("am", "eating")),
        ("perfect", 2, True, ("has", "eaten")),
        ("perfect", 3, False, ("have", "eaten")),
        ("future", 4, True, ("will", "eat")),
    ],
)
def test_tenses_and_do_support(tense, person, with_do, expected):
    assert tense_group(VERBS["essen"], person, tense, with_do) == expected


def test_be_never_takes_do():
    assert tense_group(BE, 2, "past", True) == ("was", "")
    assert tense_group(BE, 5, "present", True) == ("are", "")


@pytest.mark.parametrize(
    ("modal", "past", "with_do", "expected"),
    [
        ("können", False, True, ("can", "eat")),
        ("können", True, False, ("could", "eat")),
        ("müssen", False, False, ("", "has to eat")),
        ("müssen", False, True, ("does", "have to eat")),
        ("müssen", True, False, ("", "had to eat")),
        ("wollen", True, True, ("did", "want to eat")),
        ("dürfen", False, True, ("is", "allowed to eat")),
        ("sollen", True, False, ("was", "supposed to eat")),
    ],
)
def test_modals(modal, past, with_do, expected):
    assert modal_group(MODAL[modal], VERBS["essen"], 2, past, with_do) == expected


def test_negation_contracts():
    negated = [tense_group(VERBS["essen"], 0, tense, True).negated().auxiliary for tense in ("progressive", "future")]
    assert negated == ["'m not", "won't"]
    assert modal_group(MODAL["können"], VERBS["essen"], 2, False, True).negated().auxiliary == "can't"
    assert tense_group(VERBS["essen"], 2, "past", True).negated() == ("didn't", "eat")


def test_add_s():
    assert [add_s(word) for word in ("cat", "fox", "wish", "fly", "buy", "go")] == [
        "cats", "foxes", "wishes", "flies", "buys", "goes",
    ]  # fmt: skip
