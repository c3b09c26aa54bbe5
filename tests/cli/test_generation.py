"""The generation options: the resulting strategies, and the combinations that are refused."""

import argparse
import dataclasses
import io
import re
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.arguments import OptionError, whole
from handloom.cli import generation, texts
from handloom.cli.generation import each_text, strategy_of
from handloom.cli.options import OptionParser
from handloom.errors import InputError
from handloom.models import Hypothesis, Rules, Strategy
from handloom.models.shipped import TRANSLATORS
from handloom.train.tasks.sentences import split_text


def parse(*options: str, translates: bool = True) -> argparse.Namespace:
    parser = OptionParser()
    generation.add_generation_options(parser, translates=translates)
    add = parser.group("further")
    add("--seed", type=whole, default=0)
    add("--checkpoint")
    add("--interactive", action="store_true")
    given = vars(parser.parse_args(options))
    if "--checkpoint" not in options:
        del parser.defaults["checkpoint"]  # as in training
    arguments = argparse.Namespace(**parser.defaults | given, given=given, texts=[], what="words")
    generation.check_generation_options(parser, arguments)
    return arguments


def test_the_defaults_are_a_beam_search_or_sampling() -> None:
    assert strategy_of(parse()) == Strategy()
    assert strategy_of(parse(translates=False)) == Strategy(beam=1, sampling=True, temperature=0.7)
    assert not strategy_of(parse("--beam", "3", translates=False)).sampling


def test_every_option_arrives() -> None:
    every = "--nbest 2 --min-length 3 --max-length 9 --repetition-penalty 1.2 --no-repeat-ngram 3 --seed 5"
    search = f"{every} --beam 4 --length-penalty 0.5 --coverage-penalty 0.1"
    draw = f"{every} --sample --temperature 2 --top-k 7 --top-p 0.9"
    rules = Rules(min_length=3, max_length=9, repetition_penalty=1.2, no_repeat_ngram=3)
    assert strategy_of(parse(*search.split())) == Strategy(4, 0.5, 0.1, 2, False, 1.0, 0, 1.0, 5, rules=rules)
    drawn = Strategy(5, 1.0, 0.0, 2, True, 2.0, 7, 0.9, 5, rules=rules)
    assert strategy_of(parse(*draw.split())) == drawn
    chosen = strategy_of(parse(*draw.replace("--sample", "--consensus 30").split()))
    assert chosen == dataclasses.replace(drawn, consensus=30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--nbest 6", "--nbest 6 needs a beam at least as wide: use --beam 6"),
        ("--min-length 5 --max-length 4", "--min-length 5 is above --max-length 4"),
        ("--temperature 1", "--temperature is for sampling: add --sample"),
        ("--top-k 5", "--top-k is for sampling: add --sample"),
        ("--checkpoint run --seed 0", "--seed is for sampling: add --sample"),
        ("--consensus 2", "--consensus 2 gives too few outputs to compare: use 3 or more"),
        ("--consensus 5 --temperature 0", "--consensus has no effect with --temperature 0"),
        ("--consensus 5 --top-k 1", "--consensus has no effect with --top-k 1"),
        ("--sample --top-k 1 --temperature 2", "--temperature has no effect with --top-k 1"),
        ("--sample --temperature 0 --top-p 0.5", "--top-p has no effect with --temperature 0"),
        ("--consensus 5 --nbest 6", "--nbest 6 needs at least as many samples: use --consensus 6"),
        ("--consensus 5 --beam 5", "--beam is for beam search, not for sampling"),
        ("--sample --beam 5", "--beam is for beam search, not for sampling"),
        ("--sample --length-penalty 1", "--length-penalty is for beam search"),
        ("--sample --coverage-penalty 0", "--coverage-penalty is for beam search"),
        ("--beam 1 --length-penalty 2", "--length-penalty has no effect with --beam 1"),
        ("--beam 1 --coverage-penalty 2", "--coverage-penalty has no effect with --beam 1"),
    ],
)
def test_what_does_not_fit_or_has_no_effect_is_refused(options: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(*options.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--beam 2 --temperature 0.7", "--temperature is for sampling: leave out --beam"),
        ("--beam 2 --top-k 3", "--top-k is for sampling"),
        ("--checkpoint run --beam 2 --seed 1", "--seed is for sampling"),
        ("--length-penalty 2", "--length-penalty is for beam search, not for sampling"),
        ("--temperature 0 --nbest 2", "--nbest has no effect with --temperature 0"),
        ("--checkpoint run --temperature 0 --seed 1", "--seed has no effect with --temperature 0"),
    ],
)
def test_a_writer_draws_unless_it_searches(options: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(*options.split(), translates=False)
    parse("--beam", "1", "--temperature", "0.7", "--checkpoint", "run", "--seed", "0", translates=False)
    parse("--temperature", "0", "--seed", "1", translates=False)  # in training the seed has other effects


def test_more_tokens_than_the_model_can_write() -> None:
    generation.check_lengths(Strategy(rules=Rules(min_length=20)), 20)
    with pytest.raises(InputError, match="--min-length 100000: this model generates at most 20 tokens"):
        generation.check_lengths(Strategy(rules=Rules(min_length=100_000)), 20)


def test_asking_goes_on_after_a_text_that_cannot_be_used(monkeypatch, capsys) -> None:
    typed = Mock(side_effect=["eins", "", "  ", "zwei", "vi\udce4r", "drei", EOFError])
    show = Mock(side_effect=[None, InputError("zwei is too long"), None])
    monkeypatch.setattr("builtins.input", typed)
    each_text(parse("--interactive", "--checkpoint", "run"), show)
    assert [call.args for call in show.call_args_list] == [("eins",), ("zwei",), ("drei",)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Type words; Ctrl-D ends.", "zwei is too long"]
    assert lines[2].startswith("This is not UTF-8 text.")


class Echo:
    """Replaces a Translator: the hypotheses for a text equal the text. Records the batches that it receives."""

    splits = False
    mean_log_probability = staticmethod(lambda found, alpha: 0.0)

    class Tokenizer:
        def decode(self, ids: list[str]) -> str:
            return "".join(ids)

    def __init__(self) -> None:
        self.tokenizer, self.batches, self.first = self.Tokenizer(), [], []
        self.model = Mock(config=Mock(max_length=100))

    def source_ids(self, texts: list[str]) -> None:
        if texts and len(texts[0]) > 50 and "/" not in texts[0]:
            raise InputError("Too long.")

    def hypotheses(
        self, texts: list[str], *, strategy: Strategy, progress: bool, scores: bool, first: int = 0
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(texts))
        self.first.append(first)
        best = -1.5 if scores else np.nan
        return [[Hypothesis(list(text), best - rank) for rank in range(strategy.n_best)] for text in texts]


def test_the_lines_of_a_file_are_translated_many_at_a_time(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(generation, "TOGETHER", 3)
    stdin = io.TextIOWrapper(io.BytesIO(b"eins\n\nzwei\r\n drei \nvier\n" + b"x" * 60))
    monkeypatch.setattr("sys.stdin", stdin)
    translator = Echo()
    with pytest.raises(InputError, match=r"The output is blank for line 6\. Too long\."):
        generation.show_translations(translator, parse("--checkpoint", "run"))  # type: ignore[arg-type]
    assert translator.batches == [["eins", "zwei"], ["drei", "vier"]]  # a blank line counts as a line
    assert translator.first == [0, 2], "samples of other lines would be equal"
    assert capsys.readouterr().out.splitlines() == ["eins", "", "zwei", "drei", "vier", ""]
    arguments = parse("--checkpoint", "run", "--nbest", "2")
    arguments.texts = ["a\n\n b\r\n", "c\u2028d"]
    generation.show_translations(translator, arguments)  # type: ignore[arg-type]
    shown = [f"  {score}  {text}" if text else "" for text in ("a", "", "b", "c\u2028d") for score in (-1.5, -2.5)]
    assert capsys.readouterr().out.replace("00 ", " ").split("\n") == [*shown, ""]
    monkeypatch.chdir(tmp_path)
    for name in ("letter.txt", "letter"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfeins\r\n\r\nzwei\r\n")
    arguments = parse("--checkpoint", "run")
    arguments.texts = ["letter.txt", "./letter", "letter", "drei"]
    generation.show_translations(translator, arguments)  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert shown.out == "eins\n\nzwei\n" * 2 + "letter\ndrei\n"
    assert shown.err == "note: letter is also a file; ./letter would be read\n"
    arguments.texts = ["drei", "leter.txt"]
    with pytest.raises(InputError, match=r"There is no file leter\.txt\. Give the path of a file or a text"):
        generation.show_translations(translator, arguments)  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_each_sentence_of_a_line_is_translated_and_the_layout_stays(monkeypatch, capsys, tmp_path) -> None:
    translator = Echo()
    translator.splits = True
    translator.pieces = split_text  # type: ignore[attr-defined]
    translator.with_literals = lambda _, found, strategy: [(own[0].ids[0], own[0]) for own in found]  # type: ignore
    translator.hypotheses = lambda texts, **_: (
        translator.batches.append(texts) or [[Hypothesis([text], 0.0)] for text in texts]
    )
    lines = "  - Eins. Zwei!\n\n-----\nDrei am 3. Mai.  \n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    generation.show_translations(translator, parse("--checkpoint", "run"))  # type: ignore[arg-type]
    assert translator.batches == [["Eins.", "Zwei!", "Drei am 3. Mai."]]
    assert capsys.readouterr().out == lines.replace("  \n", "\n")
    arguments = parse("--checkpoint", "run", "--nbest", "2")
    arguments.texts = ["Eins. Zwei!"]
    generation.show_translations(translator, arguments)  # type: ignore[arg-type]
    assert translator.batches[1:] == [["Eins. Zwei!"]]
    for text in ("\r\n  - Eins. Zwei\r\ndrei vier\r\n \r\n", "Eins\r\nZwei", "Eins"):
        (tmp_path / "a.md").write_text(text, newline="")
        arguments = parse("--checkpoint", "run")
        arguments.texts = [str(tmp_path / "a.md")]
        capsys.readouterr()
        generation.show_translations(translator, arguments)  # type: ignore[arg-type]
        assert capsys.readouterr().out == text


def test_the_output_is_written_to_a_new_file(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(texts, "load", lambda name, task: Echo())
    monkeypatch.setattr("sys.argv", ["handloom", "--model", "run", "--output", str(tmp_path / "a"), "a b", "ü\nd"])
    texts.translate()
    assert (tmp_path / "a").read_bytes() == "a b\nü\nd\n".encode()
    assert capsys.readouterr().out == ""
    with pytest.raises(FileExistsError):
        texts.translate()
    for wrong in ("nowhere.txt", f"{tmp_path}", "-"):
        monkeypatch.setattr("sys.argv", ["handloom", "--model", "run", "--output", str(tmp_path / "b"), "a", wrong])
        with pytest.raises(InputError, match=r"Give the path of a file|leave out one"):
            texts.translate()
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I am tired.", "en"),
        ("Dear Mr. Brown, we are looking forward to your visit.", "en"),
        ("Tom has no time.", "en"),
        ("Ich bin müde.", "de"),
        ("Sehr geehrter Herr Braun, wir freuen uns auf Ihren Besuch.", "de"),
        ("Tom 7.", ""),
        ("Hand", ""),
        ("", ""),
        ("Где вокзал?", ""),
    ],
)
def test_the_language_of_a_text_is_noticed(text: str, language: str) -> None:
    assert [known for known in ("de", "en") if generation.looks_like(text, known)] == [language] * bool(language)


def test_the_text_determines_the_direction_unless_an_option_does(monkeypatch, capsys) -> None:
    made = {name: Echo() for name in TRANSLATORS.values()}
    monkeypatch.setattr(generation, "load_once", made.get)
    arguments = parse("--checkpoint", TRANSLATORS["en"])
    arguments.to, arguments.given = "en", frozenset()
    arguments.texts = ["Hallo", "I am tired.", "Tom", "Ich bin müde.", "Wo ist er?"]
    generation.show_translations(made[TRANSLATORS["en"]], arguments)  # type: ignore[arg-type]
    assert made[TRANSLATORS["de"]].batches == [["I am tired."], ["Tom"]]
    assert made[TRANSLATORS["en"]].batches == [["Hallo"], ["Ich bin müde."], ["Wo ist er?"]]
    assert [line for line in capsys.readouterr().err.splitlines() if "rules" in line] == [
        "note: this text looks like English: it is translated into German; --to en rules this out",
        "note: this text looks like German: it is translated into English; --to de rules this out",
    ]
    arguments.given = frozenset({"to"})
    arguments.texts = ["I am tired."]
    generation.show_translations(made[TRANSLATORS["en"]], arguments)  # type: ignore[arg-type]
    assert made[TRANSLATORS["en"]].batches[-1] == ["I am tired."]


def test_an_output_is_one_line_and_cannot_command_the_terminal(capsys) -> None:
    assert generation.in_one_line("a\r\nb\nc\0\x1b[31md\te\x85f 中 é") == "a b c[31md\te f 中 é"
    writer = Mock()
    writer.stream.return_value = ["a\n", "\x1b[2J", "\tb\0"]
    arguments = parse("--checkpoint", "run", translates=False)
    arguments.length = 3
    generation.show_continuations(writer, "x", arguments)
    assert capsys.readouterr().out == "xa\n[2J\tb\n"
    writer.best.return_value = [("x\x07\ny", -1.0)]
    arguments = parse("--checkpoint", "run", "--beam", "2", translates=False)
    arguments.length = 3
    generation.show_continuations(writer, "x", arguments)
    assert capsys.readouterr().out == "x\ny\n"


GUESS = "this text is unlike the training data; the translation is a guess"


@pytest.mark.parametrize(
    ("sentence", "model", "said"),
    [
        ("I am tired.", "everyday-de-en", ["this text looks like English; --to de translates it into German"]),
        ("Ich bin müde.", "everyday-en-de", ["this text looks like German; --to en translates it into English"]),
        ("Ich mag The Who nicht sehr und du?", "everyday-de-en", [GUESS]),
        ("I am tired.", "run", [GUESS]),
    ],
)
def test_what_makes_a_translation_doubtful_is_said(sentence: str, model: str, said: list[str]) -> None:
    assert list(generation.notes(sentence, model, [], unlike=True)) == said
    lost = list(generation.notes(sentence, model, ["88", "99"], unlike=False))
    assert lost[-1] == "the translation lacks 88, 99"
    assert lost[:-1] == [note for note in said if "looks like" in note]


def test_n_best_lines_also_if_there_are_fewer_outputs(capsys) -> None:
    class Few(Echo):
        def hypotheses(self, texts: list[str], **options: Any) -> list[list[Hypothesis]]:
            return [rows[: number + 1] for number, rows in enumerate(super().hypotheses(texts, **options))]

    arguments = parse("--checkpoint", "run", "--consensus", "5", "--nbest", "3")
    arguments.texts = ["a\nb"]
    generation.show_translations(Few(), arguments)  # type: ignore[arg-type]
    assert [line[-1:] for line in capsys.readouterr().out.splitlines()] == ["a", "", "", "b", "b", ""]


def test_equal_prompts_have_other_samples(capsys) -> None:
    arguments = parse("--checkpoint", "run", "--nbest", "2", translates=False)
    arguments.length, seeds = 5, []
    writer = Mock(stream=lambda prompt, length, strategy: seeds.append(strategy.seed) or ["x"])
    for number in range(3):
        generation.show_continuations(writer, "p", arguments, number)
    assert seeds == [0, 1, 2, 3, 4, 5]
    assert capsys.readouterr().out == "px\n" * 6


def test_attention_as_text() -> None:
    text = generation.attention_text(np.array([[0.05, 0.95], [1.0, 0.0]]), ["ein", "Hund"], ["a", "dog"])
    assert text.splitlines() == ["  a | @| Hund 0.95", "dog |@ | ein 1.00"]
