"""A text is split into its sentences, and its translation has the same layout and the same numbers."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import handloom
from handloom.errors import InputError
from handloom.train.tasks.sentences import as_one_line, clauses, join_text, split_text
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
        "|😀 12.05. 1:20 https://x.de/a\nHauptstr. 7\n10115 Berlin",
        "Ort: Hauptstr. 7, Raum 3",
        "|# |Titel|\n\n1. |Die **Butter** schmelzen.|\n2. |Essen|\n- [x] |Mehl|\n> |Gut.|\n[|Mehr|](http://x.de)\n",
        "|1\n00:00:01,000 --> 00:00:03,500\n<i>|Er hat lange\nauf sie gewartet.|</i>\n\n2\n- |Ja.|\n- |Nein.|\n",
        "|P.S. |Komm!",
        "|❤️ |Gut.| 😀\n👍🏽 |Komm!",
        "Art. 5 Abs. 2 gilt.| |Gut.",
        "It was No. 10 on Jan. 5th, see p. 3.| |No.| |That is all.",
        "Er sah an diesem Tag den langen Weg, den er vor\nMonaten ging.| |Dann lief er ohne ein Wort zu-\nrück.|\n",
        "Hund|\n|laufen|\n|rot|\n",
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
@example(text="......0\x1fA")
@example(text="- - 1) a)\r\n.")
def test_the_pieces_are_the_text_and_each_sentence_has_a_word_or_sign(text: str) -> None:
    pieces = split_text(text)
    assert "".join(pieces) == text
    assert len(pieces) % 2
    assert all(sentence.strip() == sentence != "" for sentence in pieces[1::2])
    outputs = [as_one_line(sentence).upper() for sentence in pieces[1::2]]
    assert join_text(pieces, outputs).count("\n") == text.count("\n")
    for sentence in pieces[1::2]:
        parts = clauses(sentence, lambda part: len(part) < 9)
        assert "".join(parts) == sentence
        assert all(len(part) < 9 or not re.search(r"[ \t\n]", part) for part in parts[1::2])
    assert not any("\n" in as_one_line(sentence) for sentence in pieces[1::2])


def test_each_sentence_of_a_text_is_translated(translator: Translator) -> None:
    sentences = ["Ich bin müde.", "Wo ist der Bahnhof?", "Ich habe keine Zeit.", "Das Buch ist sehr gut."]
    alone = translator.translate(sentences)
    assert len(set(alone)) == 4
    texts = [" ".join(sentences), "\n\n  - ".join(sentences) + "\n", sentences[0], "..."]
    assert translator.translate(texts) == [" ".join(alone), "\n\n  - ".join(alone) + "\n", alone[0], "..."]
    assert translator.translate(text for text in sentences) == alone
    lower = ["ich habe keine Zeit.", "müde", "x@y.de ist da."]
    assert translator.pieces("\n".join(lower))[1::2] == ["Ich habe keine Zeit.", "müde", "x@y.de ist da."]
    with pytest.raises(InputError, match="Sentence 2 is empty"):
        translator.translate(["Hallo.", " \n"])


def test_a_translation_has_the_line_ends_of_its_sentence() -> None:
    wrapped = "Er ging am Abend den langen Weg zu-\n  rück und kam\r\nspät an."
    assert as_one_line(wrapped) == "Er ging am Abend den langen Weg zurück und kam spät an."
    assert as_one_line("Die <b>gute</b> E-\nMail und **mehr**") == "Die gute E-Mail und mehr"
    output = "In the evening he went the long way back, and arrived late."
    assert join_text(["", wrapped, ""], [output]) == (
        "In the evening he went the long way\n  back, and arrived\r\nlate."
    )
    assert join_text(["", "a\nb\nc", ""], ["x"]) == "x\n\n"


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    text = "Er kam, weil es regnete, und ging; dann war alles gut"
    assert clauses(text, lambda part: len(part) < 30)[1::2] == [
        "Er kam, weil es regnete,",
        "und ging; dann war alles gut",
    ]
    assert clauses(text, lambda part: len(part) < 12)[1::2] == [
        "Er kam,", "weil es", "regnete,", "und ging;", "dann war", "alles gut",
    ]  # fmt: skip


def test_a_sentence_beyond_the_maximum_length_is_translated_in_parts(translator: Translator) -> None:
    clause = "ich bin sehr müde, und das Buch ist gut"
    with pytest.warns(UserWarning, match="translated in parts, because it is long: 'Ich bin"):
        found = translator.translate([", aber ".join([clause] * 12) + "."])[0]
    assert found.count("tired") >= 12
    assert found.count("book") >= 12
