"""The commands translate, generate, classify, summarize and paraphrase, which apply a trained model to texts."""

import argparse
import sys
from functools import partial
from typing import Any

from ...arguments import positive, whole
from ...models.shipped import DEFAULTS, TRANSLATORS
from ..tasks.loading import TaskName, load
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
Without TEXT, each line of standard input is one text. Each line of a file or a pipe gives one line of output, and a
blank line a blank line; --nbest, --show-attention and `handloom generate` may write several lines.
"""


def main(task: TaskName) -> None:
    arguments = parse(task)
    model: Any = load(arguments.checkpoint, task)
    if task == "classify":
        generation.each_text(arguments, lambda text: print(model.best(text), flush=True))
    elif task == "generate":
        generation.each_text(arguments, lambda text: generation.show_continuations(model, text, arguments))
    else:
        generation.show_translations(model, arguments)


def parse(task: TaskName) -> argparse.Namespace:
    """Return the parsed options. The attribute `checkpoint` contains the value of --model."""
    does, what = WORDS[task]
    own = DEFAULTS.get(task)
    parser = OptionParser(prog=f"handloom {task}", description=does, epilog=_NOTE)
    add = parser.group("model and texts", "checkpoint")
    note = f"(default: {own}, which comes with handloom)" if own else "(none comes with handloom yet)"
    model = f"trained model: a run folder, a folder of a Hugging Face transformers model, or a name on the Hub {note}"
    add("--model", dest="checkpoint", metavar="MODEL", default=own, help=model)
    if task == "translate":
        to = "language to translate into, with a model that comes with handloom: en from German, de from English"
        add("--to", choices=TRANSLATORS, default="en", help=f"{to} (default: en)")
    add("texts", nargs="*", default=[], metavar="TEXT", help=f"{what} (default: the lines of standard input)")
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
    if values["checkpoint"] is None:
        parser.error(f"handloom comes with no model to {task}: add --model with a run folder or a transformers model")
    interactive = not values["texts"] and sys.stdin.isatty()
    arguments = argparse.Namespace(**values, given=frozenset(given), what=what, interactive=interactive)
    if task != "classify":
        generation.check_generation_options(parser, arguments)
    return arguments


translate, generate = partial(main, "translate"), partial(main, "generate")
classify, summarize, paraphrase = partial(main, "classify"), partial(main, "summarize"), partial(main, "paraphrase")
