"""The command line that the examples share: data and preset, how to train and generate, a model of an earlier run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ...models.presets import PRESET_NAMES
from .command_line import add_training_options, parse_training_arguments
from .generation import add_generation_options, check_generation_options, each_text
from .training import add_regime_options


def example_parser(
    doc: str | None, *, data: str, texts: str, generates: Literal["texts", "continuations", "nothing"] = "texts"
) -> argparse.ArgumentParser:
    """A parser with every option that examples have in common; more can be added.

    Args:
        doc: the script's docstring, shown by --help.
        data: describes --data.
        texts: what a trained model takes, such as "German sentences".
        generates: texts from texts, by beam search; continuations, by sampling; or nothing.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(parser, data=data, presets=PRESET_NAMES, preset="laptop")
    add_regime_options(parser)
    if generates == "nothing":
        asks = "with --checkpoint: ask for one text after another"
        parser.add_argument("--interactive", action="store_true", help=asks)
    else:
        add_generation_options(parser, translates=generates == "texts")
    parser.add_argument("--checkpoint", type=Path, metavar="MODEL", help="use a model: of a run, a folder "
                        "of transformers or a name on the Hub")  # fmt: skip
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help=f"with --checkpoint: {texts} (default: the lines of standard input)",
    )
    parser.set_defaults(what=texts)
    return parser


def parse_example(parser: argparse.ArgumentParser) -> Any:
    """Parse, with --resume as `parse_training_arguments`; options that don't go together end the process."""
    arguments = parse_training_arguments(parser)
    if hasattr(arguments, "beam"):
        check_generation_options(parser, arguments, arguments.texts)
    elif arguments.interactive and (arguments.texts or not arguments.checkpoint):
        parser.error("--interactive asks for the texts of a trained model: leave them out, and add --checkpoint RUN")
    if arguments.init and (arguments.checkpoint or arguments.teacher):
        parser.error("--init is what training begins with, not with --checkpoint or --teacher")
    if arguments.texts and not arguments.checkpoint:
        parser.error("texts need a trained model: add --checkpoint RUN")
    if arguments.checkpoint and (arguments.out or arguments.steps or arguments.stop_at or arguments.device != "cpu"):
        parser.error("--out, --resume, --steps, --stop-at and --device are for training, not with --checkpoint")
    return arguments


def use(arguments: Any, show: Callable[[str], None]) -> None:
    """Call `show` for each text given, or typed, or on standard input."""
    each_text(arguments, arguments.texts, arguments.what, show)
