"""The generation options of the examples' command lines, and trying a model in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ...arguments import Whole, positive
from ...errors import InputError, printable
from ...models import Rules, Strategy
from ...models.fields import Bounds, NotNegative, short
from ...models.shipped import min_log_probability
from ..tables.attention_pictures import alignment, draw_attention
from ..tasks.translator import Translator
from .command_line import check_text, sentences_from
from .options import OfKind, OptionParser, Use, share

if TYPE_CHECKING:
    from ..tasks.language_modelling import Writer

#: Larger penalties would overflow the scores in float32.
Penalty = Annotated[float, Bounds(0, 100)]
_AT_MOST = Whole(0, 1_000_000_000)  # the bound of `Rules` and `Strategy`
Repetition = Annotated[float, Bounds(0.01, 100)]
#: How many sequences are computed at the same time.
_WIDTH = Whole(1, 1000)
SHADES = " .:-=+*#%@"
TOGETHER = 2000  # lines of a file that are translated at a time


def add_generation_options(parser: OptionParser, *, translates: bool = True) -> None:
    """Add the options of every example that generates.

    If the model turns one text into another, beam search is the default and --sample selects sampling. If it continues
    texts, sampling is the default and --beam selects a search. The options also apply to the samples at the end of
    training, except the number of texts and, for continuations, the search.
    """
    add = parser.group("generating", "train", "checkpoint")
    beam, temperature = (5, 1.0) if translates else (1, 0.7)
    alone: tuple[Use, ...] = ("checkpoint",)
    search: tuple[Use, ...] = ("train", "checkpoint") if translates else alone
    unless = "1 for greedy search" if translates else "1 for sampling"
    add("--beam", type=_WIDTH, default=beam, help=f"beam width; {unless} (default: {beam})", uses=search)
    add(
        "--nbest",
        type=_WIDTH,
        default=1,
        metavar="N",
        help="show the N best outputs and their scores (default: 1)",
        uses=alone,
    )
    add(
        "--length-penalty", type=OfKind(Penalty), default=1.0, metavar="A", uses=search,
        help="exponent of the length normalisation of beam search: a higher value favours longer outputs, 0 turns it "
        "off (default: 1)",
    )  # fmt: skip
    if translates:
        coverage = (
            "in beam search: weight of the penalty on outputs that do not attend to the whole source (default: 0)"
        )
        add("--coverage-penalty", type=OfKind(Penalty), default=0.0, metavar="B", help=coverage)
        add(
            "--sample",
            action="store_true",
            help="sample outputs instead of using beam search; see --temperature, --top-k and --top-p",
        )
        alike = "sample N outputs and choose the one that is most similar to the others (minimum Bayes risk)"
        add("--consensus", type=_WIDTH, default=0, metavar="N", help=alike)
        add("--min-length", type=_AT_MOST, default=0, metavar="N", help="minimum output length in tokens (default: 0)")
        add(
            "--max-length",
            type=positive,
            metavar="N",
            help="maximum output length in tokens (default: depends on the input)",
        )
        look = "show the cross-attention of each output as text"
        add("--show-attention", action="store_true", help=look, uses=alone)
        add("--attention-pictures", metavar="FOLDER", help="save the attention maps of all heads in FOLDER", uses=alone)
    add(
        "--temperature",
        type=OfKind(NotNegative),
        default=temperature,
        help=f"sampling temperature: a lower value is less random, 0 is greedy search (default: {temperature:g})",
    )
    add("--top-k", type=_AT_MOST, default=0, metavar="K", help="sample from the K most likely tokens (default: 0, all)")
    add(
        "--top-p",
        type=share,
        default=1.0,
        metavar="P",
        help="nucleus sampling: sample from the most likely tokens of total probability P (default: 1)",
    )
    repetition = "penalty on tokens that have already been generated; 1 turns it off (default: 1)"
    add("--repetition-penalty", type=OfKind(Repetition), default=1.0, metavar="R", help=repetition)
    add(
        "--no-repeat-ngram",
        type=_AT_MOST,
        default=0,
        metavar="N",
        help="never generate the same N consecutive tokens twice (default: 0, off)",
    )


def check_generation_options(parser: OptionParser, arguments: argparse.Namespace) -> None:
    """Raise OptionError if options of `add_generation_options` conflict, or one has no effect."""
    given = arguments.given
    if getattr(arguments, "max_length", None) is not None and arguments.min_length > arguments.max_length:
        parser.error(f"--min-length {arguments.min_length} is above --max-length {arguments.max_length}")
    strategy, translates = strategy_of(arguments), hasattr(arguments, "sample")
    if translates and 0 < arguments.consensus < 3:  # each of two texts is as similar to the other
        parser.error(f"--consensus {arguments.consensus} is too few to compare texts: use 3 or more")
    if translates and arguments.consensus and (arguments.temperature == 0 or arguments.top_k == 1):
        alike = "--temperature 0" if arguments.temperature == 0 else "--top-k 1"
        parser.error(f"--consensus needs different texts, but with {alike} all are equal: leave out one of the two")
    if translates and arguments.consensus and arguments.nbest > arguments.consensus:
        parser.error(f"--nbest {arguments.nbest} needs at least as many samples: use --consensus {arguments.nbest}")
    if arguments.nbest > arguments.beam and not strategy.sampling:
        parser.error(f"--nbest {arguments.nbest} needs a beam at least as wide: use --beam {arguments.nbest}")
    searching, drawing = ["length_penalty", "coverage_penalty"], ["temperature", "top_k", "top_p"]
    if strategy.sampling:
        useless, why = [*searching, *(["beam"] if translates else [])], "beam search, not for sampling: leave it out"
    else:
        useless, why = drawing, f"sampling: {'add --sample' if translates else 'leave out --beam'}"
        if arguments.checkpoint:
            useless = [*drawing, "seed"]
    for name in useless:
        if name in given:
            parser.error(f"{parser.spelled(name)} is for {why}")
    if arguments.beam == 1 and "length_penalty" in given:
        parser.error("--length-penalty has no effect with --beam 1: use a wider beam or leave it out")


def check_lengths(strategy: Strategy, most: int) -> None:
    """Raise InputError if the strategy requests more tokens than the model can generate."""
    if strategy.rules.min_length > most:
        raise InputError(f"--min-length {strategy.rules.min_length}: this model generates at most {most} tokens.")


def strategy_of(arguments: argparse.Namespace) -> Strategy:
    """Return the Strategy that the options of `add_generation_options` describe."""
    translates = hasattr(arguments, "sample")
    return Strategy(
        beam=arguments.beam,
        alpha=arguments.length_penalty,
        coverage=arguments.coverage_penalty if translates else 0.0,
        n_best=arguments.nbest,
        sampling=arguments.sample or arguments.consensus > 0 if translates else arguments.beam == 1,
        consensus=arguments.consensus if translates else 0,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        seed=arguments.seed,
        rules=Rules(
            min_length=arguments.min_length if translates else 0,
            max_length=arguments.max_length if translates else None,
            repetition_penalty=arguments.repetition_penalty,
            no_repeat_ngram=arguments.no_repeat_ngram,
        ),
    )


def each_text(arguments: argparse.Namespace, texts: list[str], what: str, show: Callable[[str], None]) -> None:
    """Call `show` for each of `texts`, for the lines of standard input, or with --interactive for each typed text.

    `what` names the texts in the terminal. If an interactive text can't be used, it is refused and another one is
    requested.
    """
    if not arguments.interactive:
        for text in sentences_from(texts, f"Type {what}, one a line; Ctrl-D ends."):
            show(text) if text else print()
        return
    print(f"Type {what}; Ctrl-D ends.")
    for text in ask("> "):
        try:
            check_text(text, "This")
            show(text)
        except InputError as error:
            print(error)


def show_translations(translator: Translator, arguments: argparse.Namespace, texts: list[str], what: str) -> None:
    """Print the translator's output for each of `texts`. If there are none, `each_text` reads the texts.

    The lines of a file or a pipe are translated in batches, which is several times as fast as one line at a time.
    """
    if arguments.interactive or (not texts and sys.stdin.isatty()):
        each_text(arguments, texts, what, lambda text: show_hypotheses(translator, [text], arguments))
        return
    lines = sentences_from([line for text in texts for line in text.splitlines() if line.strip()] or texts, "")
    while batch := list(itertools.islice(lines, TOGETHER)):
        show_hypotheses(translator, batch, arguments)


def show_hypotheses(translator: Translator, texts: list[str], arguments: argparse.Namespace) -> None:
    """Print the translator's output for each text, with scores if several outputs are requested."""
    strategy = strategy_of(arguments)
    progress, scores = len(texts) > 1 or strategy.width > 20, strategy.n_best > 1
    least = min_log_probability(arguments.checkpoint)
    given = [text for text in texts if text]
    found = translator.hypotheses(given, strategy=strategy, progress=progress, scores=scores or least > -math.inf)
    judged, alpha = found, strategy.alpha if strategy.beam > 1 else 0.0
    if least > -math.inf and (strategy.sampling or strategy.coverage):  # whose scores have another meaning
        judged, alpha = translator.hypotheses(given, strategy=Strategy(beam=1), progress=progress), 0.0
    results = zip(found, judged, strict=True)
    for text in texts:
        if not text:  # a blank line stays one, so that the lines of a file and of its translation correspond
            print("\n" * strategy.n_best, end="")
            continue
        hypotheses, likely = next(results)
        for hypothesis in hypotheses:
            score = f"{hypothesis.score:8.3f}  " if scores else ""
            print(f"{score}{translator.tokenizer.decode(hypothesis.ids)}")
        if least > -math.inf and translator.mean_log_probability(likely[0], alpha) < least:
            sys.stdout.flush()
            note = "note: this text is unlike the training data; the translation is a guess"
            print(f"{note}: {printable(short(text))}", file=sys.stderr)
        best = hypotheses[0].ids
        if arguments.show_attention:
            weights, source, target = translator.attention(text, best)
            print(attention_text(weights, source, target))
            print("  ".join(f"{word}:{found}" for word, found in alignment(weights, source, target)))
        if arguments.attention_pictures:
            pictures = draw_attention(translator, text, arguments.attention_pictures, best)
            print(f"{pictures[0].parent} holds pictures of the attention of each layer and head")
    sys.stdout.flush()


def ask(prompt: str) -> Iterator[str]:
    """Yield the lines typed after `prompt`, until Ctrl-D; blank lines are skipped.

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


def show_continuations(writer: Writer, prompt: str, arguments: argparse.Namespace) -> None:
    """Print the continuation of a prompt while the model generates it, or the best continuations of a search.
    """
    strategy = strategy_of(arguments)
    if strategy.sampling:
        for draw in range(strategy.n_best):
            print(prompt, end="", flush=True)
            drawn = dataclasses.replace(strategy, seed=strategy.seed + draw)
            for piece in writer.stream(prompt, arguments.length, drawn):
                print(piece, end="", flush=True)
            print()
        return
    for text, score in writer.best(prompt, arguments.length, strategy):
        print(f"{score:8.3f}  {text}" if strategy.n_best > 1 else text, flush=True)


def attention_text(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> str:
    """Draw attention weights (target, source) as shaded lines for a terminal.
    Each line ends with the token of the largest weight.
    """
    width = max(map(len, target))
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    lines = []
    for row, token in enumerate(target):
        best = int(weights[row].argmax())
        shown = "".join(SHADES[shade] for shade in shades[row])
        lines.append(f"{token:>{width}} |{shown}| {source[best]} {weights[row, best]:.2f}")
    return "\n".join(lines)
