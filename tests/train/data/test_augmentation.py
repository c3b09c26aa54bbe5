"""Changed copies of German-English pairs are parallel and seeded, and contain no held-out sentence."""

import functools
import os
import re
from pathlib import Path
from random import Random

import pytest

from handloom.train.data import augmentation, glossary, translation
from handloom.train.data.pairs import detokenized, sentence_key

ROOT = Path(augmentation.__file__).parents[2]
EVERYDAY = [row.split("\t") for row in (ROOT / "benchmarks/everyday.tsv").read_text("utf-8").splitlines()]
PAIRS = [
    ("Tom und Maria wohnen in Boston.", "Tom and Mary live in Boston."),
    ("Ich habe drei Kinder.", "I have three children."),
    ("Das kostet 1.000 Euro.", "That costs 1,000 euros."),
    ("Er kommt um 8 Uhr.", "He is coming at 8 o'clock."),
    ("Toms Hund bellt.", "Tom's dog is barking."),
] * 20


def test_copies_are_seeded_and_keep_the_pairs() -> None:
    found = augmentation.augmented(PAIRS, 1)
    assert found[: len(PAIRS)] == PAIRS
    assert found == augmentation.augmented(PAIRS, 1) != augmentation.augmented(PAIRS, 2)
    assert len(found) > 2 * len(PAIRS)


@pytest.mark.parametrize(
    ("pair", "german", "english"),
    [
        (PAIRS[0], r"(\w+) und (\w+) wohnen in \w+\.", r"(\w+) and (\w+) live in \w+\."),
        (PAIRS[4], r"(\w+?)s?'? Hund bellt\.", r"(\w+?)s?'s dog is barking\."),
    ],
)
def test_names_are_the_same_on_both_sides(pair, german: str, english: str) -> None:
    copies = [augmentation.exchange_names(pair, Random(seed)) for seed in range(50)]
    assert len(set(copies)) > 30
    for one, other in copies:
        assert re.fullmatch(german, one).groups() == re.fullmatch(english, other).groups()


@pytest.mark.parametrize("pair", PAIRS[1:4])
def test_numbers_are_the_same_on_both_sides(pair) -> None:
    copies = [augmentation.exchange_number(pair, Random(seed)) for seed in range(50)]
    assert len(set(copies)) > 30
    for one, other in copies:
        (in_german,), (in_english,) = (re.findall(r"\d[\d.,:]*\b", side) for side in (one, other))
        assert in_german in augmentation._in_german(in_english)
        assert "o'clock" not in other


def test_a_number_on_one_side_only_and_an_ordinal_stay() -> None:
    for pair in [("Am 8. Mai.", "On May 8th."), ("Um 8 Uhr.", "At 9."), ("Um acht.", "At 8."), ("2 oder 3", "2 or 3")]:
        assert augmentation.exchange_number(pair, Random(0)) == pair


def test_two_sentences_are_joined() -> None:
    found = {augmentation.join(("Ja.", "Yes."), PAIRS[1], Random(seed)) for seed in range(20)}
    assert ("Ja, und ich habe drei Kinder.", "Yes, and I have three children.") in found
    assert augmentation.join(PAIRS[0], ("Ja!", "Yes!"), Random(0))[1] == "Tom and Mary live in Boston. Yes!"


def test_blanks_of_the_tokeniser_go() -> None:
    assert detokenized("He &apos;s ( ever ) so &quot; big &quot; .") == 'He\'s (ever) so "big".'


def test_words_of_the_glossary_fit_their_patterns() -> None:
    pairs = glossary.glossary_pairs(40)
    assert pairs[: 40 * len(glossary._TABLES["sentences"])].count(pairs[0]) == 40
    assert pairs == glossary.glossary_pairs(40) != glossary.glossary_pairs(40, 1)
    assert not any("{" in side or side[0].islower() for pair in pairs for side in pair)
    german = glossary._noun(["der Kunde|Kunden", "customer", "Kunden"])
    assert "{der}, {den}, {dem}, {mein}, {meinen}, {einem}, {a}, {plurals}".format_map(german) == (
        "der Kunde, den Kunden, dem Kunden, mein Kunde, meinen Kunden, einem Kunden, a customer, customers"
    )
    assert glossary._noun(["die Uhr", "watch", "Uhren"]).items() >= {"einen": "eine Uhr", "dem": "der Uhr"}.items()
    verb = glossary._verb(["umziehen", "move", "ist umgezogen", "moved"])
    assert glossary._filled("{hast} du {participle}?", verb) == "Bist du umgezogen?"


def test_no_sentence_of_the_glossary_resembles_a_test_sentence() -> None:
    tests = [set(re.findall(r"\w+", german.lower())) for german, *_ in EVERYDAY]
    for german, _ in glossary._TABLES["sentences"]:
        words = set(re.findall(r"\w+", german.lower()))
        closest = max(len(test & words) / max(len(test), len(words)) for test in tests)
        assert len(words) < 4 or closest < 0.6, german


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("HANDLOOM_DATA"), reason="HANDLOOM_DATA names no folder with real data")
def test_the_mixture_holds_no_sentence_that_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for load in ("load_tatoeba", "load_multi30k"):
        monkeypatch.setattr(translation, load, functools.cache(getattr(translation, load)))
    data = translation.load_everyday("de", "en", glossary=True)
    tatoeba, pictures = translation.load_tatoeba("de", "en"), translation.load_multi30k("de", "en")
    assert data.test == tatoeba.test
    assert data.valid == tatoeba.valid + pictures.valid
    assert [len(row) for row in EVERYDAY] == [3] * 200
    held_out = {sentence_key(side) for row in (*data.valid, *data.test, *pictures.test, *EVERYDAY) for side in row}
    assert not any(sentence_key(side) in held_out for pair in data.train for side in pair)
    assert len(data.train) > 300_000
    monkeypatch.setattr(augmentation, "augmented", lambda pairs: pairs[::999])
    back, forth = (translation.load_everyday(*languages) for languages in (("en", "de"), ("de", "en")))
    assert back.train == [pair[::-1] for pair in forth.train] != []
