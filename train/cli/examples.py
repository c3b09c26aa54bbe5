"""The command line that the examples share: data and preset, how to train and generate, a model of an earlier run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ...models.presets import PRESET_NAMES
from .command_line import add_training_options, check_text, parse_training_arguments, watch
from .generation import add_generation_options, check_generation_options, each_text
from .options import OptionParser
from .training import add_regime_options, regime_of


def example_parser(
    doc: str | None, *, data: str, texts: str, generates: Literal["texts", "continuations", "nothing"] = "texts"
) -> OptionParser:
    """A parser with every option that examples have in common; more can be added.

    Args:
        doc: the script's docstring, shown by --help.
        data: describes --data.
        texts: what a trained model takes, such as "German sentences".
        generates: texts from texts, by beam search; continuations, by sampling; or nothing.
    """
    parser = OptionParser(description=doc)
    parser.texts = texts
    add_training_options(parser, data=data, presets=PRESET_NAMES, preset="laptop", draws=generates != "nothing")
    add_regime_options(parser)
    if generates != "nothing":
        add_generation_options(parser, translates=generates == "texts")
    add = parser.group("using a trained model", "checkpoint")
    add("--checkpoint", type=Path, metavar="MODEL", help="use a model: of a run, a folder of "
        "transformers or a name on the Hub")  # fmt: skip
    add("--interactive", action="store_true", help="with --checkpoint: ask for one text after another")
    add(
        "--explore",
        action="store_true",
        uses=("train", "resume", "checkpoint"),
        help="show the run in the browser, while it is trained or with --checkpoint; needs the extra `explorer`",
    )
    add(
        "texts",
        nargs="*",
        default=[],
        metavar="TEXT",
        help=f"with --checkpoint: {texts} (default: the lines of standard input)",
    )
    return parser


def parse_example(parser: OptionParser) -> Any:
    """Parse, with --resume as `parse_training_arguments`.

    Raises OptionError for options that don't go together, InputError for a value that can't be used.
    """
    arguments = parse_training_arguments(parser)
    if hasattr(arguments, "beam"):
        check_generation_options(parser, arguments)
    if arguments.interactive and arguments.texts:
        parser.error("--interactive asks for the texts: leave them out, or leave out --interactive")
    if arguments.init and arguments.teacher:
        parser.error("--init and --teacher can't go together: leave out one of them")
    for number, text in enumerate(arguments.texts, 1):
        check_text(text, f"Text {number}")
    regime_of(arguments)
    arguments.what = parser.texts
    if arguments.checkpoint and arguments.explore:
        watch(arguments, arguments.checkpoint)
        sys.exit()
    return arguments


def use(arguments: Any, show: Callable[[str], None]) -> None:
    """Call `show` for each text given, or typed, or on standard input."""
    each_text(arguments, arguments.texts, arguments.what, show)
