"""Given options are distinguished from defaults; a run's options are checked by the parser."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from handloom.arguments import OptionError
from handloom.cli import texts
from handloom.cli.examples import example_parser, parse_example, parse_training_arguments
from handloom.cli.options import OptionParser
from handloom.cli.texts import apply_model
from handloom.errors import InputError
from handloom.models.presets import translation_preset
from handloom.train.runs.folder import RunFolder


def make_parser() -> OptionParser:
    parser = example_parser("doc", translation_preset, data="data")
    add = parser.group("this report")
    add("--reverse", action="store_true")
    add("--back-translate", nargs=2)
    add("--table", choices=("heads", "none"), default="none", resumes=True)
    return parser


def parse(*arguments: str) -> Any:
    return parse_training_arguments(make_parser(), arguments)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """Create a run with some options, set `sys.argv` to its program, and return the run folder."""
    monkeypatch.setattr("sys.argv", ["program.py"])
    started = parse("--seed", "3", "--reverse", "--lr", "0.5", "--set", "d_model=8", "--set", "layers=2")
    RunFolder.create(tmp_path / "run", {"program": "program.py", "options": started.options})
    return tmp_path / "run"


def test_given_options_are_distinguished_from_defaults() -> None:
    parser = make_parser()
    assert vars(parser.parse_args([])) == {}
    typed = ["--seed", "0", "--set", "a=1", "--set", "b=2"]
    assert vars(parser.parse_args(typed)) == {"seed": 0, "set": ["a=1", "b=2"]}
    assert (parse().seed, parse().given, parse("--beam", "5").given) == (0, frozenset(), {"beam"})


def test_an_option_for_training_and_for_a_model(monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.argv", ["translate_de_en.py", "--seed", "3"])
    assert not apply_model("translate"), "the options start training"


@pytest.mark.parametrize("program", ["translate", "generate", "classify", "summarize", "paraphrase"])
@pytest.mark.parametrize("word", ["--resume=my run", "--resme=my run", "-x y", "--ou t=1", "- a text"])
def test_a_word_that_begins_with_a_dash_is_no_text(monkeypatch, program, word: str) -> None:
    """A script that resumed a run in a folder with a blank got the translation of its option."""
    monkeypatch.setattr("sys.argv", [program, word])
    assert not apply_model(program, shipped=program == "translate"), "the options start training"
    with pytest.raises(OptionError, match=r"unrecognized arguments: .*(did you mean|put -- before texts)"):
        texts.parse(program, "everyday-de-en")
    monkeypatch.setattr("sys.argv", [program, "--", word, "- b c"])
    assert texts.parse(program, "everyday-de-en").texts == [word, "- b c"]


def test_an_option_of_training_with_a_blank_in_its_value() -> None:
    assert parse("--out=my run").out == Path("my run")
    assert parse("--out", "my run").out == Path("my run")
    for word in ("--nothing=my run", "- a text"):
        with pytest.raises(OptionError, match="unrecognized arguments"):
            parse(word)


@pytest.mark.parametrize("number", ["-1e-3", "-1", "-.5", "-2.5E3"])
def test_a_negative_number_is_a_value(number: str) -> None:
    with pytest.raises(OptionError, match=f"length-penalty: '{number}'"):
        parse("--length-penalty", number)


def test_processes_with_other_options_are_refused(monkeypatch) -> None:
    """They would wait for each other for ever, or train with two values."""

    class Group:
        def gather(self, own: dict) -> list[dict]:
            return [own, {**own, "device": None}, {**own, "steps": 9, "stop_at": 3}]

    parser = make_parser()
    monkeypatch.setattr("sys.argv", ["program.py", "--steps", "5", "--device", "cuda:1"])
    assert parse_example(parser).steps == 5
    monkeypatch.setattr("handloom.cli.examples.find_process_group", Group)
    with pytest.raises(InputError, match="Rank 2 was started with another --steps, --stop-at than rank 0"):
        parse_example(parser)


def test_the_old_run_needs_a_name() -> None:
    with pytest.raises(OptionError, match="--overwrite needs the folder"):
        parse("--overwrite")


def test_a_resumed_run_has_its_own_options(run: Path) -> None:
    arguments = parse("--resume", str(run), "--steps", "7", "--table", "heads", "--stop-at", "3")
    assert (arguments.seed, arguments.reverse, arguments.lr, arguments.set) == (3, True, 0.5, ["d_model=8", "layers=2"])
    assert (arguments.steps, arguments.table, arguments.stop_at, arguments.out) == (7, "heads", 3, run)
    assert parse("--resume", str(run), "--seed", "3", "--reverse").seed == 3, "the run's own values may be given again"


@pytest.mark.parametrize(
    "typed",
    ["--seed 0", "--data embedded --seed 0", "--lr 0.1", "--set d_model=8", "--back-translate a b", "--out elsewhere",
     "--out run", "--overwrite", "--preset smoke", "--beam 3", "--patience 3"],
)  # fmt: skip
def test_another_value_is_refused_even_if_it_is_the_default(run: Path, typed: str) -> None:
    with pytest.raises(OptionError, match=f"^{'--seed' if 'seed' in typed else typed.split()[0]} can't be changed"):
        parse("--resume", str(run), *typed.split())


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", -1), ("seed", "x"), ("preset", 3.5), ("lr", 10**400), ("lr", "9" * 5000), ("reverse", 1)],
)
def test_a_stored_option_of_another_kind(run: Path, name: str, value: Any) -> None:
    """Stored options are parsed like a command line. Unknown options are left out."""
    config = json.loads((run / "config.json").read_text())
    config["options"] |= {"stop_at": 3, "wings": 2}
    (run / "config.json").write_text(json.dumps(config))
    assert parse("--resume", str(run)).stop_at is None
    config["options"][name] = value
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"^[^\n]{,200}config\.json can't be used: [^\n]{,400}$"):
        parse("--resume", str(run))


def test_errors_come_without_twenty_lines_of_usage(capsys) -> None:
    with pytest.raises(OptionError) as caught:
        parse("--lr", "x")
    assert str(caught.value) == "argument --lr: 'x': it must be a number above 0"
    assert caught.value.usage.endswith(" --help lists the options")
    assert capsys.readouterr() == ("", "")


def test_a_command_line_that_gives_the_same_options() -> None:
    first = parse("--data", "a b", "--set", "dropout=0.1", "--set", "layers=3", "--lr", "0.01", "--graphs")
    assert first.typed == "'--data=a b' --set=dropout=0.1 --set=layers=3 --graphs --lr=0.01"
    assert parse(*shlex.split(first.typed)).options == first.options
