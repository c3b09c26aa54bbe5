"""Options have uses; given options are distinguished from defaults; a run's options are checked by the parser."""

import dataclasses
import json
import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from handloom.arguments import OptionError
from handloom.errors import InputError
from handloom.models.presets import SMOKE, translation_preset
from handloom.train.cli.examples import example_parser, parse_training_arguments
from handloom.train.cli.options import OptionParser
from handloom.train.cli.training import preset_of
from handloom.train.runs.folder import RunFolder


def make_parser(**options: Any) -> OptionParser:
    parser = example_parser("doc", translation_preset, data="data", texts="texts", **options)
    add = parser.group("this report", "train")
    add("--reverse", action="store_true")
    add("--back-translate", nargs=2)
    add("--table", choices=("heads", "none"), default="none", uses=("train", "resume"))
    return parser


def parse(*arguments: str, **options: Any) -> Any:
    return parse_training_arguments(make_parser(**options), arguments)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run that was started with some options, and a command line of the program that started it."""
    monkeypatch.setattr("sys.argv", ["program.py"])
    started = parse("--seed", "3", "--reverse", "--lr", "0.5", "--set", "d_model=8", "--set", "layers=2")
    RunFolder.create(tmp_path / "run", {"program": "program.py", "options": started.options})
    return tmp_path / "run"


def test_given_options_are_distinguished_from_defaults() -> None:
    parser = make_parser()
    assert vars(parser.parse_args([])) == {}
    assert vars(parser.parse_args(["--seed", "0", "--set", "a=1", "--set", "b=2", "x", "y"])) == {
        "seed": 0, "set": ["a=1", "b=2"], "texts": ["x", "y"],
    }  # fmt: skip
    assert (parse().seed, parse().given) == (0, frozenset()), "the defaults are still there"
    assert parse("--beam", "5").given == {"beam"}


def every_option(parser: OptionParser) -> dict[str, list[str]]:
    """Each option with a valid value, the default if there is one."""
    values = {"schedule": "linear", "ema": 0.5, "monitor": "valid_loss", "set": "d_model=8", "texts": "x"}
    found = {}
    for name, option in parser._options.items():
        value = values.get(name, parser.defaults[name] or (option.choices[0] if option.choices else 1))
        typed = [] if option.nargs == 0 else [str(value)] * (2 if option.nargs == 2 else 1)
        found[name] = [*option.option_strings, *typed]
    return found


@pytest.mark.parametrize("generates", ["texts", "continuations", "nothing"])
def test_with_a_trained_model_every_option_for_training_is_refused(generates: Any) -> None:
    """Even if it equals its default."""
    parser = make_parser(generates=generates)
    for name, typed in every_option(parser).items():
        arguments = [*typed, *([] if name == "checkpoint" else ["--checkpoint", "run"])]
        if "checkpoint" in parser.uses[name]:
            assert name in parse(*arguments, generates=generates).given
        else:
            with pytest.raises(OptionError, match="is for training, not for using a trained model"):
                parse(*arguments, generates=generates)
    assert {"data", "set", "lr", "seed", "resume"} - {n for n, u in parser.uses.items() if "checkpoint" in u} == {
        "data", "set", "lr", "resume", *(["seed"] if generates == "nothing" else []),
    }  # fmt: skip


def test_several_are_named_together() -> None:
    with pytest.raises(OptionError, match=r"^--preset, --data and --lr are for training, .* leave them out$"):
        parse("--preset", "smoke", "--data", "/nope", "--lr", "3", "--checkpoint", "run")


def test_without_a_model_what_needs_one_is_refused() -> None:
    for typed in (["--interactive"], ["--show-attention"], ["--nbest", "1"], ["a text"]):
        with pytest.raises(OptionError, match="needs a trained model: add --checkpoint RUN"):
            parse(*typed)
    with pytest.raises(OptionError, match="--reverse is for training, not for using a trained model"):
        parse("--reverse", "a text", shipped="tatoeba-de-en")
    with pytest.raises(OptionError, match="--overwrite needs the folder"):
        parse("--overwrite")


def test_a_resumed_run_has_its_own_options(run: Path) -> None:
    arguments = parse("--resume", str(run), "--steps", "7", "--table", "heads", "--stop-at", "3")
    assert (arguments.seed, arguments.reverse, arguments.lr, arguments.set) == (3, True, 0.5, ["d_model=8", "layers=2"])
    assert (arguments.steps, arguments.table, arguments.stop_at, arguments.out) == (7, "heads", 3, run)
    assert parse("--resume", str(run), "--seed", "3", "--reverse").seed == 3, "what the run has may be said again"


@pytest.mark.parametrize(
    "typed",
    ["--seed 0", "--data embedded --seed 0", "--lr 0.1", "--set d_model=8", "--back-translate a b", "--out elsewhere",
     "--out run", "--overwrite", "--preset smoke", "--beam 3", "--patience 3"],
)  # fmt: skip
def test_another_value_is_refused_even_if_it_is_the_default(run: Path, typed: str) -> None:
    with pytest.raises(OptionError, match=f"^{'--seed' if 'seed' in typed else typed.split()[0]} can't be changed"):
        parse("--resume", str(run), *typed.split())


def test_texts_and_looking_are_not_for_a_resumed_run(run: Path) -> None:
    for typed in (["a text"], ["--interactive"]):
        with pytest.raises(OptionError, match="can't be changed when a run is resumed"):
            parse("--resume", str(run), *typed)
    with pytest.raises(OptionError, match="--resume is for training, not for using a trained model"):
        parse("--resume", str(run), "--checkpoint", str(run))


DEEP: Any = json.loads("[" * 500 + "]" * 500)
VALUES = (None, True, False, -1, 3.5, "x", "a\0b", [], [1], ["a"], {"a": 1}, DEEP, 10**400, "9" * 5000)


@pytest.mark.parametrize("name", ["seed", "preset", "data", "lr", "device", "set", "reverse", "back_translate"])
def test_a_stored_option_of_another_kind(run: Path, name: str) -> None:
    """A value that a command line can give is taken unchanged; any other is refused with one line."""
    for value in VALUES:
        config = json.loads((run / "config.json").read_text())
        config["options"][name] = value
        (run / "config.json").write_text(json.dumps(config))
        try:
            found = getattr(parse("--resume", str(run)), name)
        except InputError as error:
            message = str(error)
            assert "config.json can't be used: " in message
            assert "\n" not in message
            assert len(message) < 600
        else:
            assert (found, isinstance(found, bool)) == (value, isinstance(value, bool))
            assert (name, value) == ("lr", 3.5) or isinstance(value, (str, list, bool, type(None)))
            assert "\0" not in str(value)


def test_options_that_do_not_exist_and_those_of_no_use(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["options"] |= {"checkpoint": "other", "interactive": True, "texts": ["x"], "stop_at": 3, "nbest": 7}
    (run / "config.json").write_text(json.dumps(config))
    arguments = parse("--resume", str(run))
    assert (arguments.checkpoint, arguments.interactive, arguments.texts, arguments.stop_at) == (None, False, [], None)
    config["options"]["wings"] = 2
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="has an unknown option 'wings'"):
        parse("--resume", str(run))
    config["options"] = [1]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="are not a JSON object"):
        parse("--resume", str(run))


def test_errors_come_without_twenty_lines_of_usage(capsys) -> None:
    with pytest.raises(OptionError) as caught:
        parse("--lr", "x")
    assert str(caught.value) == "argument --lr: 'x': it must be a number above 0"
    assert caught.value.usage.endswith(" --help lists the options")
    assert capsys.readouterr() == ("", "")


#: What config.json of a run held before flags were made of a preset's fields.
EARLIER = {
    "data": "tatoeba", "preset": "laptop", "seed": 0, "steps": 10000, "device": "cpu", "set": ["vocab_size=4000"],
    "optimizer": "adam", "schedule": None, "lr": None, "weight_decay": None, "accumulate": 1, "precision": "fp32",
    "name_overflows": False, "log_every": 1, "gradient_norms": True, "keep": 2, "graphs": False,
    "deterministic": False, "checkpoint_activations": False, "ema": None, "patience": None, "monitor": None,
    "curriculum": 0, "pad_to": 1, "teacher": None, "init": None, "prefetch": 0, "beam": 5,
}  # fmt: skip


def test_the_options_of_earlier_runs_are_understood() -> None:
    parsed = make_parser().stored(EARLIER, "config.json")
    assert parsed == {name: value for name, value in EARLIER.items() if name != "prefetch"}, "which is gone"
    arguments = Namespace(**parsed, given=set())
    preset = preset_of(arguments, SMOKE)
    changes = {"steps": 10000, "vocab_size": 4000, "log_every": 1, "gradient_norms": True}
    assert preset == dataclasses.replace(SMOKE, **changes)


def test_a_command_line_that_gives_the_same_options() -> None:
    first = parse("--data", "a b", "--set", "dropout=0.1", "--set", "layers=3", "--lr", "0.01", "--graphs")
    assert first.typed == "'--data=a b' --set=dropout=0.1 --set=layers=3 --lr=0.01 --graphs"
    assert parse(*shlex.split(first.typed)).options == first.options
