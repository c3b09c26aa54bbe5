"""The commands translate, generate, classify, summarize and paraphrase, which apply a trained model to texts.

An example with --checkpoint or with texts does the same: see `apply_model`.
"""

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from ..arguments import OptionError, positive, whole
from ..errors import InputError
from ..models.shipped import DEFAULTS, TRANSLATORS
from ..train.tasks.loading import TaskName, load
from . import generation
from .options import OptionParser

#: The description of each task, and the description of its input texts.
WORDS: dict[TaskName, tuple[str, str]] = {
    "translate": ("Translate sentences.", "sentences"),
    "generate": ("Continue texts with a language model.", "prompts to continue"),
    "classify": ("Classify texts, for example news by category.", "texts to classify"),
    "summarize": ("Write a headline for each article.", "articles, each in one line"),
    "paraphrase": ("Paraphrase sentences.", "sentences"),
}
_NOTE = """\
Without TEXT, or with -, each line of standard input is one text. A TEXT with an ending or a folder that names a file,
such as letter.txt or ./letter, is read. Each line of a file or a pipe gives one line of output, and a blank line a
blank line; --nbest, --show-attention and `handloom generate` may write several lines.
"""


def main(task: TaskName) -> None:
    apply(task, parse(task, DEFAULTS.get(task)))


def apply_model(task: TaskName, *, shipped: bool = True) -> bool:
    """Apply a trained model to texts, like the command `task`, if the command line of an example asks for it.

    It does with --checkpoint or with texts, of which "-" means the lines of standard input. With `shipped`, the texts
    are by default for the model that comes with handloom. Otherwise the result is False: the example trains a model.
    """
    if any(word.partition("=")[0] == "--from" for word in sys.argv[1:]):
        return False  # an option of training, whose --to is another one than that of the command
    asked = any(word.partition("=")[0] == "--checkpoint" for word in sys.argv[1:])
    try:
        arguments = parse(task, DEFAULTS[task] if shipped else None, add_help=asked)
    except OptionError as error:
        if asked:
            error.usage = f"--checkpoint has the options of handloom {task} --help; --init MODEL trains further"
        if asked or "unrecognized arguments" not in str(error):
            raise
        return False  # the options are those of training
    if "checkpoint" not in arguments.given:
        if not (arguments.texts or "interactive" in arguments.given):
            return False
        if shipped:
            told = "which comes with handloom; --checkpoint MODEL uses another one"
            print(f"{arguments.checkpoint}, {told}", file=sys.stderr)
    apply(task, arguments)
    return True


def apply(task: TaskName, arguments: argparse.Namespace) -> None:
    """Apply the model to the texts of `parse`. Raises OptionError for options that can't be combined."""
    if task != "classify":
        generation.check_generation_options(arguments.parser, arguments)
    if arguments.checkpoint is None:
        raise InputError(
            "No model for this command comes with handloom: add --model with a run folder (see `handloom train`) or "
            "with a model of transformers."
        )
    model: Any = load(arguments.checkpoint, task)
    output = arguments.output and open(arguments.output, "x", encoding="utf-8", newline="")  # noqa: SIM115
    with _kept_if_written(output) as stream, contextlib.redirect_stdout(stream):
        if task == "classify":
            if arguments.also:
                from ..train.tasks.classification import MeanClassifier  # slow to import

                model = MeanClassifier([model, *(load(name, task) for name in arguments.also)])
            generation.each_text(arguments, lambda text: print(model.best(text), flush=True))
        elif task == "generate":
            number = itertools.count()
            show = generation.show_continuations
            generation.each_text(arguments, lambda text: show(model, text, arguments, next(number)))
        else:
            generation.show_translations(model, arguments)


@contextlib.contextmanager
def _kept_if_written(output: TextIO | None) -> Iterator[TextIO]:
    """Give the stream of the results, and remove a new file to which an error left nothing to write."""
    with output or contextlib.nullcontext(sys.stdout) as stream:
        try:
            yield stream
        except BaseException:
            if output is not None and not output.tell():
                os.unlink(output.name)
            raise


def parse(task: TaskName, own: str | None, *, add_help: bool = True) -> argparse.Namespace:
    """Return the parsed options. The attribute `checkpoint` contains the value of --model, by default `own`."""
    does, what = WORDS[task]
    parser = OptionParser(prog=f"handloom {task}", description=does, epilog=_NOTE, add_help=add_help)
    add = parser.group("model and texts")
    note = f"(default: {own}, which comes with handloom)" if own else "(none comes with handloom yet)"
    model = f"trained model: a run folder, a folder of a Hugging Face transformers model, or a name on the Hub {note}"
    add("--model", "--checkpoint", dest="checkpoint", metavar="MODEL", default=own, help=model)
    if task == "translate":
        to = "language to translate into, with a model that comes with handloom: en from German, de from English"
        add("--to", choices=TRANSLATORS, default="en", help=f"{to} (default: the one that the text is not in)")
    if task == "classify":
        also = "another model with the same classes; the probabilities of all models are averaged; can be repeated"
        add("--also", action="append", default=[], metavar="MODEL", help=also)
    add(
        "texts",
        nargs="*",
        default=[],
        metavar="TEXT",
        help=f"{what}, or the names of files (default: the lines of standard input)",
    )
    words = "write the output to this new file"
    add("--output", type=Path, metavar="FILE", help=words)
    add("--interactive", action="store_true", help="prompt for texts, as in a terminal without TEXT")
    if task == "generate":
        add("--length", type=positive, default=300, help="number of tokens to generate (default: 300)")
    if task != "classify":
        add("--seed", type=whole, default=0, help="random seed of sampling (default: 0)")
        generation.add_generation_options(parser, translates=task != "generate")
    given = vars(parser.parse_args())
    if {"checkpoint", "to"} <= given.keys():
        parser.error("--to chooses between the models that come with handloom: leave out --model, or --to")
    values = parser.defaults | given
    if "to" in given:
        values["checkpoint"] = TRANSLATORS[given["to"]]
    if values["interactive"] and values["texts"]:
        parser.error("--interactive prompts for texts: leave out the texts or --interactive")
    values["interactive"] |= not values["texts"] and sys.stdin.isatty()
    return argparse.Namespace(**values, given=frozenset(given), what=what, parser=parser)


translate, generate = partial(main, "translate"), partial(main, "generate")
classify, summarize, paraphrase = partial(main, "classify"), partial(main, "summarize"), partial(main, "paraphrase")
