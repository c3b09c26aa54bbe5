"""The options of the examples' command lines that say how to generate, and a terminal to try a model in."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import InputError
from ..models import Strategy
from .command_line import positive, whole

SHADES = " .:-=+*#%@"


def add_generation_options(parser: argparse.ArgumentParser, *, beam: int = 5, temperature: float = 1.0) -> None:
    """The options that every example that generates has; the arguments are defaults."""
    group = parser.add_argument_group("generating")
    add = group.add_argument
    add("--interactive", action="store_true", help="with --checkpoint: ask for one text after another")
    add("--beam", type=positive, default=beam, help=f"width of the beam search, 1 is greedy (default: {beam})")
    add("--nbest", type=positive, default=1, metavar="N", help="show the N best, with their scores (default: 1)")
    add("--length-penalty", type=number, default=1.0, metavar="A", help="favours long outputs, 0 is none (default: 1)")
    add("--coverage-penalty", type=number, default=0.0, metavar="B", help="against leaving parts out (default: 0)")
    add("--sample", action="store_true", help="draw tokens at random, with --temperature, --top-k and --top-p")
    add(
        "--temperature",
        type=number,
        default=temperature,
        help=f"below 1 sharpens, above 1 flattens, 0 is greedy (default: {temperature:g})",
    )
    add("--top-k", type=whole, default=0, metavar="K", help="draw from the K likeliest tokens (default: 0, all)")
    add("--top-p", type=share, default=1.0, metavar="P", help="draw from the nucleus of this mass (default: 1, all)")
    add("--min-length", type=whole, default=0, metavar="N", help="at least N tokens (default: 0)")
    add("--max-length", type=positive, metavar="N", help="at most N tokens (default: what the input suggests)")
    add("--repetition-penalty", type=number, default=1.0, metavar="R", help="above 1 avoids repetition (default: 1)")
    add("--no-repeat-ngram", type=whole, default=0, metavar="N", help="no N tokens in a row come twice (default: 0)")


def check_generation_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the process, as argparse does, if options of `add_generation_options` don't fit together."""
    if arguments.nbest > arguments.beam and not arguments.sample:
        parser.error(f"--nbest {arguments.nbest} needs a beam at least as wide: add --beam {arguments.nbest}")
    if arguments.max_length is not None and arguments.min_length > arguments.max_length:
        parser.error(f"--min-length {arguments.min_length} is above --max-length {arguments.max_length}")
    if arguments.repetition_penalty == 0:
        parser.error("--repetition-penalty must be above 0; 1 is none")


def strategy_of(arguments: argparse.Namespace) -> Strategy:
    """The Strategy that the options of `add_generation_options` describe."""
    return Strategy(
        beam=arguments.beam,
        alpha=arguments.length_penalty,
        coverage=arguments.coverage_penalty,
        n_best=arguments.nbest,
        sampling=arguments.sample,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        seed=arguments.seed,
        min_length=arguments.min_length,
        max_length=arguments.max_length,
        repetition_penalty=arguments.repetition_penalty,
        no_repeat_ngram=arguments.no_repeat_ngram,
    )


def number(text: str) -> float:
    """A type for argparse: a finite number from zero on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from zero on")
    return value


def share(text: str) -> float:
    """A type for argparse: a number above 0 and not above 1."""
    value = number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie above 0 and not above 1")
    return value


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
