"""The options that say how to generate: what they become, and what is refused."""

from __future__ import annotations

import argparse
import io

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.models import Hypothesis, Strategy
from handloom.train.cli import generation
from handloom.train.cli.command_line import whole
from handloom.train.cli.generation import (
    add_generation_options,
    attention_text,
    check_generation_options,
    each_text,
    show_translations,
    strategy_of,
)


def parse(*options: str, translates: bool = True, texts: tuple[str, ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_generation_options(parser, translates=translates)
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args(options)
    check_generation_options(parser, arguments, list(texts))
    return arguments


def test_the_defaults_are_a_beam_search_or_sampling() -> None:
    assert strategy_of(parse()) == Strategy()
    assert strategy_of(parse(translates=False)) == Strategy(beam=1, sampling=True, temperature=0.7)
    assert not strategy_of(parse("--beam", "3", translates=False)).sampling


def test_every_option_arrives() -> None:
    options = "--beam 4 --nbest 2 --length-penalty 0.5 --coverage-penalty 0.1 --sample --temperature 2 --top-k 7"
    options += " --top-p 0.9 --min-length 3 --max-length 9 --repetition-penalty 1.2 --no-repeat-ngram 3 --seed 5"
    assert strategy_of(parse(*options.split())) == Strategy(4, 0.5, 0.1, 2, True, 2.0, 7, 0.9, 5, 3, 9, 1.2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--nbest 6", "--nbest 6 needs a beam at least as wide: add --beam 6"),
        ("--min-length 5 --max-length 4", "--min-length 5 is above --max-length 4"),
        ("--repetition-penalty 0", "--repetition-penalty must be above 0"),
        ("--top-p 0", "'0' does not lie above 0 and not above 1"),
        ("--temperature nan", "'nan' is not a number from zero on"),
        ("--temperature hot", "'hot' is not a number from zero on"),
        ("--interactive", "--interactive needs a trained model: add --checkpoint RUN"),
        ("--show-attention", "--show-attention needs a trained model: add --checkpoint RUN"),
        ("--attention-pictures x", "--attention-pictures needs a trained model: add --checkpoint RUN"),
    ],
)
def test_what_does_not_fit_is_refused(options: str, message: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(*options.split())
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_interactive_and_texts_exclude_each_other(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        parse("--interactive", "--checkpoint", "run", texts=("Hallo",))
    assert "--interactive asks for the texts" in capsys.readouterr().err


def test_asking_goes_on_after_a_text_that_cannot_be_used(monkeypatch, capsys) -> None:
    typed = iter(["eins", "", "  ", "zwei", "vi\udce4r", "drei"])

    def type_in(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    shown: list[str] = []

    def show(text: str) -> None:
        if text == "zwei":
            raise InputError("zwei is too long")
        shown.append(text)

    monkeypatch.setattr("builtins.input", type_in)
    each_text(parse("--interactive", "--checkpoint", "run"), [], "words", show)
    assert shown == ["eins", "drei"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Type words; Ctrl-D ends.", "zwei is too long"]
    assert lines[2].startswith("This is not UTF-8 text.")


class Echo:
    """Stands for a Translator: two hypotheses of each text, which are the text; remembers what it was given at once."""

    class Tokenizer:
        def decode(self, ids: list[str]) -> str:
            return "".join(ids)

    def __init__(self) -> None:
        self.tokenizer, self.batches = self.Tokenizer(), []

    def hypotheses(self, texts: list[str], *, strategy: Strategy, progress: bool) -> list[list[Hypothesis]]:
        self.batches.append(list(texts))
        return [[Hypothesis(list(text), -1.5 - rank) for rank in range(strategy.n_best)] for text in texts]


def test_the_lines_of_a_file_are_translated_many_at_a_time(monkeypatch, capsys) -> None:
    monkeypatch.setattr(generation, "TOGETHER", 3)
    stdin = io.TextIOWrapper(io.BytesIO(b"eins\n\nzwei\r\n drei \nvier"))
    monkeypatch.setattr("sys.stdin", stdin)
    translator = Echo()
    show_translations(translator, parse("--checkpoint", "run"), [], "words")  # type: ignore[arg-type]
    assert translator.batches == [["eins", "zwei", "drei"], ["vier"]]
    assert capsys.readouterr().out.splitlines() == ["eins", "zwei", "drei", "vier"]
    show_translations(translator, parse("--checkpoint", "run", "--nbest", "2"), ["a"], "words")  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines() == ["  -1.500  a", "  -2.500  a"]


def test_attention_as_text() -> None:
    text = attention_text(np.array([[0.05, 0.95], [1.0, 0.0]]), ["ein", "Hund"], ["a", "dog"])
    assert text.splitlines() == ["  a | @| Hund 0.95", "dog |@ | ein 1.00"]
