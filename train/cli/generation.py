"""The options of the examples' command lines that say how to generate, and a terminal to try a model in."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...errors import InputError
from ...models import Strategy
from ..tables.attention_pictures import alignment, draw_attention
from ..tasks.translation import Translator
from .command_line import number, positive, sentences_from, share, whole

SHADES = " .:-=+*#%@"
TOGETHER = 2000  # lines of a file that are translated at a time


def add_generation_options(parser: argparse.ArgumentParser, *, translates: bool = True) -> None:
    """The options that every example that generates has: for one that turns one text into another, by beam search
    unless --sample is given; or else for one that writes, by sampling unless --beam is given.
    """
    group = parser.add_argument_group("generating")
    add = group.add_argument
    beam, temperature = (5, 1.0) if translates else (1, 0.7)
    add("--interactive", action="store_true", help="with --checkpoint: ask for one text after another")
    unless = "1 is greedy" if translates else "1 samples"
    add("--beam", type=positive, default=beam, help=f"width of the beam search, {unless} (default: {beam})")
    add("--nbest", type=positive, default=1, metavar="N", help="show the N best, with their scores (default: 1)")
    add("--length-penalty", type=number, default=1.0, metavar="A", help="favours long outputs, 0 is none (default: 1)")
    if translates:
        add("--coverage-penalty", type=number, default=0.0, metavar="B", help="against leaving parts out (default: 0)")
        add("--sample", action="store_true", help="draw tokens at random, with --temperature, --top-k and --top-p")
        add("--min-length", type=whole, default=0, metavar="N", help="at least N tokens (default: 0)")
        add("--max-length", type=positive, metavar="N", help="at most N tokens (default: what the input suggests)")
        add("--show-attention", action="store_true", help="with --checkpoint: show where the model looked as it wrote")
        add("--attention-pictures", metavar="FOLDER", help="the same in pictures, of every layer and head")
    add(
        "--temperature",
        type=number,
        default=temperature,
        help=f"below 1 sharpens, above 1 flattens, 0 is greedy (default: {temperature:g})",
    )
    add("--top-k", type=whole, default=0, metavar="K", help="draw from the K likeliest tokens (default: 0, all)")
    add("--top-p", type=share, default=1.0, metavar="P", help="draw from the nucleus of this mass (default: 1, all)")
    add("--repetition-penalty", type=number, default=1.0, metavar="R", help="above 1 avoids repetition (default: 1)")
    add("--no-repeat-ngram", type=whole, default=0, metavar="N", help="no N tokens in a row come twice (default: 0)")


def check_generation_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace, texts: list[str]) -> None:
    """End the process, as argparse does, if options of `add_generation_options` don't fit together, or with `texts`."""
    if arguments.nbest > arguments.beam and not strategy_of(arguments).sampling:
        parser.error(f"--nbest {arguments.nbest} needs a beam at least as wide: add --beam {arguments.nbest}")
    if getattr(arguments, "max_length", None) is not None and arguments.min_length > arguments.max_length:
        parser.error(f"--min-length {arguments.min_length} is above --max-length {arguments.max_length}")
    if arguments.repetition_penalty == 0:
        parser.error("--repetition-penalty must be above 0; 1 is none")
    for name in ("interactive", "show_attention", "attention_pictures"):
        if getattr(arguments, name, None) and not arguments.checkpoint:
            parser.error(f"--{name.replace('_', '-')} needs a trained model: add --checkpoint RUN")
    if arguments.interactive and texts:
        parser.error("--interactive asks for the texts: leave them out, or leave out --interactive")


def strategy_of(arguments: argparse.Namespace) -> Strategy:
    """The Strategy that the options of `add_generation_options` describe."""
    translates = hasattr(arguments, "sample")
    return Strategy(
        beam=arguments.beam,
        alpha=arguments.length_penalty,
        coverage=arguments.coverage_penalty if translates else 0.0,
        n_best=arguments.nbest,
        sampling=arguments.sample if translates else arguments.beam == 1,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        seed=arguments.seed,
        min_length=arguments.min_length if translates else 0,
        max_length=arguments.max_length if translates else None,
        repetition_penalty=arguments.repetition_penalty,
        no_repeat_ngram=arguments.no_repeat_ngram,
    )


def each_text(arguments: argparse.Namespace, texts: list[str], what: str, show: Callable[[str], None]) -> None:
    """Call `show` for each of `texts`, or else for the lines of standard input, or with --interactive for what is typed
    after a prompt. `what` they are is said in the terminal. While asking, a text that can't be used is told and passed.
    """
    if not arguments.interactive:
        for text in sentences_from(texts, f"Type {what}, one a line; Ctrl-D ends."):
            show(text)
        return
    print(f"Type {what}; Ctrl-D ends.")
    for text in ask("> "):
        try:
            if any("\ud800" <= letter <= "\udfff" for letter in text):  # what Python makes of other encodings
                raise InputError("This is not UTF-8 text. Set the terminal to UTF-8, or convert the text first.")
            show(text)
        except InputError as error:
            print(error)


def show_translations(translator: Translator, arguments: argparse.Namespace, texts: list[str], what: str) -> None:
    """Print what the translator makes of `texts`, or of what `each_text` takes in their place.

    The lines of a file or a pipe are translated many at a time, which is several times as fast as one by one.
    """
    if arguments.interactive or (not texts and sys.stdin.isatty()):
        each_text(arguments, texts, what, lambda text: show_hypotheses(translator, [text], arguments))
        return
    lines = sentences_from(texts, "")
    while batch := list(itertools.islice(lines, TOGETHER)):
        show_hypotheses(translator, batch, arguments)


def show_hypotheses(translator: Translator, texts: list[str], arguments: argparse.Namespace) -> None:
    """Print what the translator makes of each text, with scores where more than one is asked for."""
    strategy = strategy_of(arguments)
    found = translator.hypotheses(texts, strategy=strategy, progress=len(texts) > 1)
    for text, hypotheses in zip(texts, found, strict=True):
        for hypothesis in hypotheses:
            score = f"{hypothesis.score:8.3f}  " if strategy.n_best > 1 else ""
            print(f"{score}{translator.tokenizer.decode(hypothesis.ids)}")
        best = hypotheses[0].ids
        if arguments.show_attention:
            weights, source, target = translator.attention(text, best)
            print(attention_text(weights, source, target))
            print("  ".join(f"{word}:{found}" for word, found in alignment(weights, source, target)))
        if arguments.attention_pictures:
            pictures = draw_attention(translator, text, arguments.attention_pictures, best)
            print(f"{pictures[0].parent} holds pictures of where each layer and head looked")
    sys.stdout.flush()


def ask(prompt: str) -> Iterator[str]:
    """The lines that someone types after `prompt`, until Ctrl-D; blank ones are passed over.

    Raises InputError for a line that is not UTF-8 text.
    """
    with contextlib.suppress(ImportError):  # there is none on Windows
        import readline  # noqa: F401 - input() then has a history and can be edited
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            print()
            return
        except UnicodeDecodeError as error:
            raise InputError(f"The line is not UTF-8 text ({error.reason}). Set the terminal to UTF-8.") from None
        if text:
            yield text


def attention_text(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> str:
    """Attention weights (target, source) as lines of shades for a terminal, each with what it looked at most."""
    width = max(map(len, target))
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    lines = []
    for row, token in enumerate(target):
        best = int(weights[row].argmax())
        shown = "".join(SHADES[shade] for shade in shades[row])
        lines.append(f"{token:>{width}} |{shown}| {source[best]} {weights[row, best]:.2f}")
    return "\n".join(lines)
