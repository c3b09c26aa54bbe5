"""The options that all examples of the reports share."""

import math
import re
import runpy
from typing import Any

import pytest

from handloom.arguments import OptionError, Whole, path
from handloom.cli.examples import parse_training_arguments
from handloom.cli.options import OfKind, OptionParser
from handloom.models.fields import plain_kind

from ..support.examples import EXAMPLES as FOLDER
from ..support.examples import Example, small_data

EXAMPLES = (
    "translate_de_en", "translate_en_fr", "summarize_news", "paraphrase_coco", "classify_news", "generate_text",
)  # fmt: skip
COMMON = """
--data --preset --out --overwrite --seed --steps --device --resume --stop-at --set --optimizer --schedule --lr
--weight-decay --accumulate --precision --graphs --pad-to --checkpoint-activations --ema --patience --monitor
--curriculum --teacher
"""
SAMPLING = "--temperature --top-k --top-p --repetition-penalty --no-repeat-ngram"
#: Every model option at once; --teacher is an earlier run of the same script.
EVERYTHING = """
--set norm_first=true --set activation=swiglu --set positions=relative --set pattern=local:4 --set label_smoothing=0.1
--set weight_decay=0.01 --optimizer adamw --schedule cosine --lr 1e-3 --accumulate 2 --checkpoint-activations
--curriculum 1 --ema 0.9 --patience 3
"""


def parser_of(program: str) -> OptionParser:
    """Return the parser of an example, captured when the example parses its options."""

    def capture(parser: OptionParser) -> None:
        raise LookupError(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handloom.cli.examples.parse_example", capture)
        parse = runpy.run_path(str(FOLDER / f"{program}.py"))["parse_arguments"]
        with pytest.raises(LookupError) as found:
            parse()
    return found.value.args[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_flags(name: str) -> None:
    known = set(re.findall(r"--[a-z-]+", parser_of(name).format_help()))
    assert known >= set(COMMON.split())
    if name != "classify_news":  # the classifier generates no text
        assert known >= set(SAMPLING.split())
    if name not in ("classify_news", "generate_text"):  # the model reads a source text
        assert known >= {"--beam", "--length-penalty", "--coverage-penalty"}


def wrong_for(kind: Any) -> tuple[str, ...]:
    """Return values that an option's type refuses."""
    if isinstance(kind, Whole):
        return ("x", "", "1.5", "nan", "9" * 30, f"{kind.low - 1}", f"{kind.high + 1}")
    if not isinstance(kind, OfKind):
        return ("",) if kind is path else ()
    _, bounds, _ = plain_kind(kind.kind)
    beyond = (f"{bounds.low - 1:g}", *([] if bounds.high == math.inf else [f"{bounds.high + 1:g}"]))
    return ("x", "", "nan", "1e400", "none", *beyond)


@pytest.mark.parametrize("name", EXAMPLES)
def test_values_of_other_kinds_and_out_of_range_are_refused(name: str) -> None:
    parser, tried = parser_of(name), 0
    for option in parser._options:
        kind, choices = parser._options[option].type, parser._options[option].choices
        for value in wrong_for(kind) + (("nonsense", "") if choices else ()):
            with pytest.raises(OptionError, match=parser.spelled(option)):
                parse_training_arguments(parser, [f"{parser.spelled(option)}={value}"])
            tried += 1
    assert tried > 80


@pytest.mark.parametrize("name", ["translate_en_fr", "generate_text", "classify_news"])
def test_everything_at_once(name: str, tmp_path) -> None:
    """One example for each of the three tasks is enough; the other examples call the same functions."""
    example = Example(f"{name}.py", tmp_path, pictures=False)
    options = ["--data", small_data(name, tmp_path), "--preset", "smoke", "--steps", 4, "--table", "none"]
    options += ["--beam", 1] if name not in ("classify_news", "generate_text") else []
    example.succeeds(*options, *EVERYTHING.split(), "--out", "teacher")
    strided = EVERYTHING.replace("local:4", "strided:3").split()
    example.succeeds(*options, *strided, "--teacher", "teacher", "--out", "run")
    odd = ["head_dim=15", "positions=rotary"] if name == "generate_text" else ["d_model=7"]
    told = example.fails(*options, *(part for one in odd for part in ("--set", one)), "--out", "wrong")
    assert "This model can't be built: " in told
    assert not (tmp_path / "wrong").exists()
