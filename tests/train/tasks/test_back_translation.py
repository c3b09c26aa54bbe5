"""Back-translation and round trips through another language."""

from __future__ import annotations

import pytest

from handloom.errors import InputError
from handloom.train.tasks.back_translation import back_translate, round_trips, split_sentences

TEXT = "The dog sleeps. The cat\nsleeps, too!\n\nA bird sings? A fish swims.\n"


class Stub:
    """A rule-based translator."""

    def __init__(self, rule):
        self.rule = rule

    def translate(self, sentences, **_):
        return [self.rule(sentence) for sentence in sentences]


FORTH = Stub(lambda text: f"<{text}>")


def back_by(rule) -> Stub:
    return Stub(lambda text: rule(text[1:-1]))


def test_sentences_of_hard_wrapped_paragraphs() -> None:
    sentences = ["The dog sleeps.", "The cat sleeps, too!", "A bird sings?", "A fish swims."]
    assert split_sentences(TEXT) == sentences


def test_a_round_trip_through_both_translators() -> None:
    more, note = round_trips(TEXT, FORTH, back_by(lambda text: text.replace("sleeps", "sings")))
    assert more == "The dog sings. The cat sings, too!\n"
    assert note.startswith("2 of 4 sentences")
    assert f"{len('The dog sings.') + len('The cat sings, too!')} characters" in note


def test_what_is_left_out() -> None:
    more, _ = round_trips(TEXT, FORTH, back_by(lambda text: {"A": "A Žebra.", "T": text[:-1]}[text[0]]))
    assert more == "The dog sleeps The cat sleeps, too\n", "no character that the text does not have"
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips(TEXT, FORTH, back_by(lambda text: text))
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips(TEXT, Stub(lambda text: " "), back_by(str.upper))
    with pytest.raises(InputError, match="changed no sentence"):
        round_trips("word " * 41 + ".", FORTH, back_by(lambda text: text[:-1]))


def test_a_share_of_the_sentences_by_seed() -> None:
    text = " ".join(f"Sentence {n} ends." for n in range(10, 90))
    back = back_by(lambda sentence: sentence[:-1])
    first, again, other = (round_trips(text, FORTH, back, share=0.3, seed=seed)[0] for seed in (0, 0, 1))
    assert first == again != other
    assert 10 < first.count("Sentence") < 40


def test_back_translation_keeps_the_real_side() -> None:
    pairs = back_translate(Stub(lambda text: "" if "cat" in text else text.upper()), ["a dog", " ", "a cat"])
    assert pairs == [("A DOG", "a dog")]
