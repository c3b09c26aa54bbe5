"""A translation has the numbers, addresses and names of its source."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import handloom
from handloom.models.generation import Strategy
from handloom.train.tasks import literals
from handloom.train.tasks.literals import STAND_INS, disagreement, missing


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("Siehe https://www.x.de/a?b=1&c=2. Oder a.b-c@d.org!", ["https://www.x.de/a?b=1&c=2", "a.b-c@d.org"]),
        ("Open report.pdf, `x = 1` and example.com/a.", ["report.pdf", "`x = 1`", "example.com/a"]),
        ("Tel. 030/1234567, +49 30 123456 oder 0176 554321", ["030/1234567", "+49 30 123456", "0176 554321"]),
        ("Am 2.4.2024, am 24.11. und am 24.13.", ["2.4.2024", "24.11."]),
        (
            "Vertrag 4711-08, Gate B27, Flug LH 452, Klasse 10b, COVID-19",
            ["4711-08", "B27", "LH 452", "10b", "COVID-19"],
        ),
        ("Ich wohne Hauptstr. 12, Gartenstraße 5a.", ["Hauptstr. 12", "Gartenstraße 5a"]),
        ("I live at 221 Baker Street.", ["221 Baker Street"]),
        ("10115 Berlin", ["10115 Berlin"]),
        ("250 g Mehl, 49 EUR und 149,50 € pro Nacht", ["250 g", "49 EUR", "149,50 €"]),
        ("EUR 12,50 oder 12.50 CHF", ["EUR 12,50", "12.50 CHF"]),
        ("½ Liter, 1½ Tassen, 75 m²", ["½", "1½", "75 m²"]),
        ("DE89 3704 0044 0532 0130 00 ist gut 👍🏽.", ["DE89 3704 0044 0532 0130 00", "👍🏽"]),
        ("Herr Müller, Frau Dr. Ohm und Mr. O-Brien", ["Müller", "Ohm", "O-Brien"]),
        ("Herr Präsident, Frau Lehrerin, z.B. und i.e. um 9.30 Uhr, 12000 Euro, 3,5 km.", []),
        ("FLUG LH 452 UM 12 UHR", []),
    ],
)
def test_what_is_copied_letter_by_letter(text: str, copied: list[str]) -> None:
    assert literals.literals(text) == copied
    assert missing(text, " ".join(copied) + " 9:30 12 000 3.5 452 24 13") == []
    assert set(copied) <= {*missing(text, "")}
    assert set(copied) <= {*missing(text, "".join(f"{literal}x " for literal in copied))}


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("Das Zimmer 723 kostet 88 Euro.", "Room 723 costs euros.", ["88"]),
        ("Es kostet 1.088,50 Euro.", "It costs 1,088.50 euros.", []),
        ("Ich habe 2 Brüder und 12 Tanten.", "I have two brothers and twelve aunts.", []),
        ("Um 15 Uhr, um 15.30 Uhr", "At 3 p.m., at half past three", []),
        ("It is 15:45 o'clock or 3 p.m.", "Es ist Viertel vor vier", []),
        ("Um 14:30 Uhr und um 9.15 Uhr", "At 1:30 p.m. and at 9:15", ["14:30"]),
        ("At 2:30 p.m. and 12:05 a.m.", "Um 14:30 Uhr und um 0.05 Uhr", []),
        ("15 Uhren, 007", "watches", ["007", "15"]),
        ("Seit 1990, " + "9" * 5000, "since 1990", ["9" * 5000]),
        ("٤٤ und 44", "44", []),
        ("Es sind 3,5 % von 1.5 Liter.", "It is 3.5 per cent of 2 litres.", ["1.5"]),
        ("Es sind 1 000 Euro, 2'500 Franken und 10.000 Euro.", "1,000 euros, 2,500 francs and 10 000 euros.", []),
        ("Im Jahr 2020 100 Leute, 412 365 Mal", "In 2020 100 people, 412 times on 365 days", []),
        ("Gleis 17 um 14:35 Uhr", "platform 17 p.m.", ["14:35"]),
        ("It costs $50 or 20%.", "Es kostet 50 und 20 Prozent.", ["$"]),
        ("Es steht 2:1 nach 0:7.", "It is 2 to 1 after 0-1.", ["0:7"]),
    ],
)
def test_numbers_that_a_translation_lacks(source: str, output: str, lost: list[str]) -> None:
    found = missing(source, output)
    assert [number for number in found if number.isascii()] == lost


def test_signs_of_money_are_neither_lost_nor_invented() -> None:
    assert missing("Es sind 3 Mio. €.", "It is 3 million.") == ["€"]
    assert missing("Es sind 3 Mio. €.", "It is 3 million euros.") == []
    assert disagreement("Der Preis ist 2,5.", "The price is $2.5.") == 1


@pytest.mark.parametrize("names", STAND_INS)
def test_stand_ins_are_replaced_by_what_they_stand_for(names: dict[int, str]) -> None:
    text = "Zimmer 723 kostet 88 Euro im Jahr 1998, siehe www.x.de, im 14. Stock um 9:30 oder 20 Leute."
    changed, chosen = literals.with_stand_ins(text, names)
    assert sorted(chosen.values()) == sorted(["723", "88", "1998", "www.x.de", "20"])
    assert not any(literal in changed.replace("20", "") for literal in ("723", "88", "1998", "www"))
    assert literals.without_stand_ins(changed, chosen) == text
    assert literals.without_stand_ins(changed + " " + next(iter(chosen)), chosen) == ""
    assert literals.without_stand_ins("Nichts", chosen) == ""
    assert literals.with_stand_ins(text.upper(), names) == (text.upper(), {})


@pytest.mark.search
@given(
    text=st.lists(st.sampled_from(["7", "12", "20", "350", "1999", "a@b.de", "X1", "Zimmer", "um", ".", ",", " "])).map(
        "".join
    ),
    names=st.sampled_from(STAND_INS),
)
@example(text="77,7a@b.de", names=STAND_INS[0])
def test_a_text_agrees_with_itself_with_and_without_stand_ins(text: str, names: dict[int, str]) -> None:
    assert missing(text, text) == []
    changed, chosen = literals.with_stand_ins(text, names)
    assert literals.without_stand_ins(changed, chosen) in (text, "")


def test_the_hypothesis_that_agrees_is_chosen() -> None:
    translator = handloom.load("everyday-de-en", "translate")
    sentences = [
        "Wo ist der Bahnhof?",
        "Nimm den Bus 142 um 7:55 Uhr.",
        "Weitere Informationen finden Sie unter https://www.example.com/vertrag?id=12.",
        "Von den 28 Schülern waren 19 krank.",
    ]
    strategy = Strategy(beam=5)
    plain = translator.hypotheses(sentences, strategy=strategy)
    first = [translator.tokenizer.decode(own[0].ids) for own in plain]
    chosen = translator.with_literals(sentences, plain, strategy)
    assert chosen[0] == (first[0], plain[0][0])
    for sentence, old, (new, _) in zip(sentences[1:], first[1:], chosen[1:], strict=True):
        assert disagreement(sentence, new) == 0 < disagreement(sentence, old)
    assert translator.translate(sentences) == [text for text, _ in chosen]
    drawing = Strategy(sampling=True)
    assert translator.with_literals(sentences, plain, drawing) == [
        (text, own[0]) for text, own in zip(first, plain, strict=True)
    ]
