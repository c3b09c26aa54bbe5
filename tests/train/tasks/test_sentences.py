"""A text is split into its sentences, and its translation has the same layout and the same numbers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import handloom
from handloom.errors import InputError
from handloom.models.generation import Strategy
from handloom.train.tasks.sentences import join_text, missing_numbers, split_text
from handloom.train.tasks.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return handloom.load("everyday-de-en", "translate")


@pytest.mark.parametrize(
    "text",
    [
        "Ich bin müde.| |Wo ist der Bahnhof?| |Hilfe!",
        "Am 3. Mai kam Dr. Ohm.| |Er blieb bis zum 19. Jahrhundert.",
        "Herr Dr. med. Ohm ist Dipl.-Ing. und Dr. rer. nat. Er kam.| |Gut.",
        "यह वाक्य है।| |यह भी।",
        "هل هذا؟| |نعم.",
        "Ich kam z. B. mit dem Zug.| |Das war gut!",
        'Wer ist da?| |Ich.| |"Komm!" sagte er.| |„Ich gehe.“| |Sie lachte.',
        "Schreib an a.b@c.de oder siehe www.x.de/a.B?c.| |Danke.",
        "Es kostet 3.50 Euro oder 1.000,20 Mark.| |20 Leute kamen.",
        "Er ist 25.| |Sie ist 30.",
        "J. R. R. Tolkien schrieb es.| |Gut.",
        "Mr. Smith is here.| |I am.| |It was I.| |You know.",
        "The U.S. Army came at 5 p.m. and left.| |No.| |Yes.",
        "Sehr geehrte Frau Dr. Müller,|\n\n|ich wohne in Zimmer 7.| |Ist das gut?|\n",
        "|  - |Brot kaufen.| |Milch holen.|\n* |Eier|\n1) |Mehl|\n-----\n|Ende",
        "1. Platz für Tom.| |Gut.",
        "So what...| |I don't know.",
        "今日は。||明日は！",
        "😀",
    ],
)
def test_a_text_is_split_at_the_ends_of_its_sentences(text: str) -> None:
    pieces = text.removeprefix("|").split("|")
    pieces = pieces if text.startswith("|") else ["", *pieces]
    pieces = pieces if len(pieces) % 2 else [*pieces, ""]
    assert split_text("".join(pieces)) == pieces


@pytest.mark.search
@given(
    text=st.lists(
        st.one_of(
            st.sampled_from([*'.!?…\n \t"„“)(-•:0123', "3. ", "Mai", "z. B.", "Dr", "a", "Ich ", "。"]),
            st.text(max_size=3),
        )
    ).map("".join)
)
@example(text="")
@example(text=" \n\n ")
@example(text="- - 1) a)\r\n.")
def test_the_pieces_are_the_text_and_each_sentence_has_a_word_or_sign(text: str) -> None:
    pieces = split_text(text)
    assert "".join(pieces) == text
    assert len(pieces) % 2
    assert all(sentence.strip() == sentence != "" for sentence in pieces[1::2])
    assert join_text(pieces, [sentence.upper() for sentence in pieces[1::2]]).count("\n") == text.count("\n")
    assert all("\n" not in sentence for sentence in pieces[1::2])


def test_each_sentence_of_a_text_is_translated(translator: Translator) -> None:
    sentences = ["Ich bin müde.", "Wo ist der Bahnhof?", "Ich habe keine Zeit.", "Das Buch ist sehr gut."]
    alone = translator.translate(sentences)
    assert len(set(alone)) == 4
    texts = [" ".join(sentences), "\n\n  - ".join(sentences) + "\n", sentences[0], "..."]
    assert translator.translate(texts) == [" ".join(alone), "\n\n  - ".join(alone) + "\n", alone[0], "..."]
    with pytest.raises(InputError, match="Sentence 2 is empty"):
        translator.translate(["Hallo.", " \n"])


@pytest.mark.parametrize(
    ("source", "output", "missing"),
    [
        ("Das Zimmer 723 kostet 88 Euro.", "Room 723 costs euros.", ["88"]),
        ("Es kostet 1.088,50 Euro.", "It costs 1,088.50 euros.", []),
        ("Ich habe 2 Brüder und 12 Tanten.", "I have two brothers and twelve aunts.", []),
        ("Um 15 Uhr, um 15.30 Uhr", "At 3 p.m., at half past three", []),
        ("It is 15:45 o'clock or 3 p.m.", "Es ist Viertel vor vier", []),
        ("Um 14:30 Uhr und um 9.15 Uhr", "At 1:30 p.m. and at 9:15", ["14:30"]),
        ("At 2:30 p.m. and 12:05 a.m.", "Um 14:30 Uhr und um 0.05 Uhr", []),
        ("15 Uhren, 007", "watches", ["15", "007"]),
        ("Seit 1990, " + "9" * 5000, "since 1990", ["9" * 5000]),
        ("٤٤ und 44", "44", []),
        ("Es sind 3,5 % von 1.5 Liter.", "It is 3.5 per cent of 2 litres.", ["1.5"]),
        ("Es sind 1 000 Euro, 2'500 Franken und 10.000 Euro.", "1,000 euros, 2,500 francs and 10 000 euros.", []),
        ("Im Jahr 2020 100 Leute, 412 365 Mal", "In 2020 100 people, 412 times on 365 days", []),
        ("Es steht 2:1 nach 0:7.", "It is 2 to 1 after 0-1.", ["0:7"]),
    ],
)
def test_numbers_that_a_translation_lacks(source: str, output: str, missing: list[str]) -> None:
    found = missing_numbers(source, output)
    assert [number for number in found if number.isascii()] == missing


def test_a_hypothesis_with_the_numbers_comes_first(translator: Translator) -> None:
    sentences = ["Das Zimmer 723 kostet 88 Euro.", "Wo ist der Bahnhof?", "Zimmer 412 hat 65 Betten und 23 Stühle."]
    strategy = Strategy(beam=5)
    plain = translator.hypotheses(sentences, strategy=strategy)
    better = translator.with_numbers(sentences, list(plain), strategy)
    for sentence, old, new in zip(sentences, plain, better, strict=True):
        lost = [len(missing_numbers(sentence, translator.tokenizer.decode(one[0].ids))) for one in (old, new)]
        assert lost[1] <= lost[0]
        assert (old == new) or lost[1] < lost[0]
    greedy = Strategy(beam=1)
    found = translator.hypotheses(sentences, strategy=greedy)
    assert translator.with_numbers(sentences, list(found), greedy) == found
