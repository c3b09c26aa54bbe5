"""The command-line options for generation, and functions that apply a model to texts in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ..arguments import Whole, positive
from ..errors import InputError, printable, short
from ..models import Rules, Strategy
from ..models.fields import Bounds, NotNegative
from ..models.shipped import TRANSLATORS, min_log_probability
from ..train.tasks.alignment import alignment
from ..train.tasks.sentences import join_text, missing_numbers, split_text
from ..train.tasks.translator import Translator
from .command_line import check_text, sentences_from
from .options import OfKind, OptionParser, share

if TYPE_CHECKING:
    from ..train.tasks.language_modelling import Writer

#: Larger penalties would overflow the scores in float32.
Penalty = Annotated[float, Bounds(0, 100)]
_AT_MOST = Whole(0, 1_000_000_000)  # the bound of `Rules` and `Strategy`
Repetition = Annotated[float, Bounds(0.01, 100)]
#: Number of sequences that are computed at the same time.
_WIDTH = Whole(1, 1000)
SHADES = " .:-=+*#%@"
#: Frequent words of the languages of `TRANSLATORS` that the other one does not have.
FREQUENT_WORDS = {
    "en": r"\b(?:the|i|you|he|she|we|they|is|are|am|were|and|of|to|my|your|have|do|does|what|where|who|this|with)\b",
    "de": r"\b(?:der|das|ich|du|sie|wir|ihr|ist|sind|bin|und|zu|es|mein|nicht|haben|wo|wer|mit|für|dem|den|ein)\b",
}
TOGETHER = 2000  # number of lines that are translated in one call


def add_generation_options(parser: OptionParser, *, translates: bool = True, trains: bool = False) -> None:
    """Add the options for generation.

    With `translates`, the default is beam search, and --sample selects sampling. Otherwise the model continues texts:
    the default is sampling, and --beam selects beam search. With `trains`, they apply to the samples after training.
    """
    add = parser.group("generating")
    beam, temperature = (5, 1.0) if translates else (1, 0.7)
    parser.defaults |= {"beam": beam, "nbest": 1, "length_penalty": 1.0}
    parser.defaults |= {"coverage_penalty": 0.0, "consensus": 0, "min_length": 0, "max_length": None}
    if translates or not trains:
        words = "1 selects greedy search" if translates else "1 selects sampling instead of beam search"
        add("--beam", type=_WIDTH, default=beam, help=f"beam width; {words} (default: {beam})")
        words = "exponent of length normalisation in beam search; a higher value favours longer outputs, and 0 "
        words += "disables normalisation (default: 1)"
        add("--length-penalty", type=OfKind(Penalty), default=1.0, metavar="A", help=words)
    if not trains:
        words = "show the N best outputs and their scores (default: 1)"
        add("--nbest", type=_WIDTH, default=1, metavar="N", help=words)
    if translates:
        words = "weight of the beam-search penalty for source tokens that receive little attention (default: 0)"
        add("--coverage-penalty", type=OfKind(Penalty), default=0.0, metavar="B", help=words)
        words = "sample the output instead of using beam search; see --temperature, --top-k and --top-p"
        add("--sample", action="store_true", help=words)
        words = "sample N outputs and keep the output that is most similar to the others (minimum Bayes risk)"
        add("--consensus", type=_WIDTH, default=0, metavar="N", help=words)
        add("--min-length", type=_AT_MOST, default=0, metavar="N", help="minimum output length in tokens (default: 0)")
        words = "maximum output length in tokens (default: depends on the input length)"
        add("--max-length", type=positive, metavar="N", help=words)
    if translates and not trains:
        words = "print the cross-attention weights of each output as text"
        add("--show-attention", action="store_true", help=words)
    words = "sampling temperature; lower values give less random outputs, and 0 selects greedy search"
    words += f" (default: {temperature:g})"
    add("--temperature", type=OfKind(NotNegative), default=temperature, help=words)
    words = "sample from the K most likely tokens; 0 means all tokens (default: 0)"
    add("--top-k", type=_AT_MOST, default=0, metavar="K", help=words)
    words = "nucleus sampling: sample from the fewest tokens whose total probability is at least P (default: 1)"
    add("--top-p", type=share, default=1.0, metavar="P", help=words)
    words = "penalty for tokens that have already been generated; 1 means no penalty (default: 1)"
    add("--repetition-penalty", type=OfKind(Repetition), default=1.0, metavar="R", help=words)
    words = "never generate the same N consecutive tokens twice; 0 for no limit (default: 0)"
    add("--no-repeat-ngram", type=_AT_MOST, default=0, metavar="N", help=words)


def check_generation_options(parser: OptionParser, arguments: argparse.Namespace) -> None:
    """Raise OptionError if options of `add_generation_options` conflict, or an option has no effect."""
    given = arguments.given
    if arguments.max_length is not None and arguments.min_length > arguments.max_length:
        parser.error(f"--min-length {arguments.min_length} is above --max-length {arguments.max_length}")
    strategy, translates = strategy_of(arguments), hasattr(arguments, "sample")
    if 0 < arguments.consensus < 3:  # two texts are equally similar to each other
        parser.error(f"--consensus {arguments.consensus} gives too few outputs to compare: use 3 or more")
    if arguments.consensus and arguments.nbest > arguments.consensus:
        parser.error(f"--nbest {arguments.nbest} needs at least as many samples: use --consensus {arguments.nbest}")
    if arguments.nbest > arguments.beam and not strategy.sampling:
        parser.error(f"--nbest {arguments.nbest} needs a beam at least as wide: use --beam {arguments.nbest}")
    searching, drawing = ["length_penalty", "coverage_penalty"], ["temperature", "top_k", "top_p"]
    drawing += ["seed"] if "checkpoint" in arguments else []  # in training the seed has other effects
    if strategy.sampling:
        useless, why = [*searching, *(["beam"] if translates else [])], "beam search, not for sampling: leave it out"
    else:
        useless, why = drawing, f"sampling: {'add --sample' if translates else 'leave out --beam'}"
    for name in useless:
        if name in given:
            parser.error(f"{parser.spelled(name)} is for {why}")
    same = ["consensus", "nbest", *drawing]  # the likeliest token is always drawn
    for option, value, names in (("beam", 1, searching), ("temperature", 0, same), ("top_k", 1, same)):
        for name in names if getattr(arguments, option) == value else ():
            if name in given and name != option:
                no_effect = f"has no effect with {parser.spelled(option)} {value}: leave out one of the two"
                parser.error(f"{parser.spelled(name)} {no_effect}")


def check_lengths(strategy: Strategy, most: int) -> None:
    """Raise InputError if the strategy's minimum length exceeds `most`, the longest output of the model."""
    if strategy.rules.min_length > most:
        raise InputError(f"--min-length {strategy.rules.min_length}: this model generates at most {most} tokens.")


def strategy_of(arguments: argparse.Namespace) -> Strategy:
    """Return a Strategy with the values of the options of `add_generation_options`."""
    return Strategy(
        beam=arguments.beam,
        alpha=arguments.length_penalty,
        coverage=arguments.coverage_penalty,
        n_best=arguments.nbest,
        sampling=arguments.consensus > 0 or getattr(arguments, "sample", arguments.beam == 1),
        consensus=arguments.consensus,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        seed=arguments.seed,
        rules=Rules(
            min_length=arguments.min_length,
            max_length=arguments.max_length,
            repetition_penalty=arguments.repetition_penalty,
            no_repeat_ngram=arguments.no_repeat_ngram,
        ),
    )


def each_text(arguments: argparse.Namespace, show: Callable[[str], object]) -> None:
    """Call `show` for each text: `arguments.texts`, the lines of standard input, or with --interactive the lines typed.

    The prompt describes the texts as `arguments.what`, such as "sentences". For a typed text that can't be used, the
    error is printed, and the next text is requested.
    """
    if not arguments.interactive:
        for text in sentences_from(arguments.texts):
            show(text.strip()) if text.strip() else print()
        return
    print(f"Type {arguments.what}; Ctrl-D ends.")
    for text in ask("> "):
        try:
            check_text(text, "This")
            show(text)
        except InputError as error:
            print(error)


def show_translations(translator: Translator, arguments: argparse.Namespace) -> None:
    """Print the translator's output for each text; see `each_text`.

    The lines of a file or a pipe are translated in batches, which is several times faster than line by line. A line
    that the model can't read gives a blank line. After the last line, an InputError names these lines. An InputError
    also refuses a minimum length that the model can't generate.
    """
    check_lengths(strategy_of(arguments), translator.model.config.max_length)
    if arguments.interactive:
        typed = itertools.count(0, TOGETHER)
        each_text(arguments, lambda text: show_hypotheses(translator, [text], arguments, next(typed)))
        return
    lines = (line.rstrip() for text in sentences_from(arguments.texts) for line in text.rstrip().split("\n"))
    refused: dict[int, InputError] = {}

    def readable() -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            try:
                if sentences := pieces_of(line, translator, arguments)[1::2]:
                    translator.source_ids(sentences)
            except InputError as error:
                refused[number] = error
            yield "" if number in refused else line

    known, first = readable(), 0
    while batch := list(itertools.islice(known, TOGETHER)):
        first = show_hypotheses(translator, batch, arguments, first)
    if refused:
        numbers = ", ".join([*map(str, refused)][:9]) + (", ..." if len(refused) > 9 else "")
        raise InputError(f"The output is blank for line {numbers}. {next(iter(refused.values()))}")


def pieces_of(text: str, translator: Translator, arguments: argparse.Namespace) -> list[str]:
    """Return the pieces of `split_text`, or the text as one sentence if --nbest or --show-attention describe it."""
    if translator.splits and arguments.nbest == 1 and not arguments.show_attention:
        return split_text(text)
    return ["", text.strip(), ""] if text.strip() else [""]


def show_hypotheses(translator: Translator, texts: list[str], arguments: argparse.Namespace, first: int = 0) -> int:
    """Print the translator's output for each text, with scores if several outputs are requested.

    Each text has `n_best` lines; a line is blank if there are fewer different outputs. `first` is the number of the
    first sentence, for sampling. Returns the number after the last sentence.
    """
    strategy = strategy_of(arguments)
    progress, scores = len(texts) > 1 or strategy.width > 20, strategy.n_best > 1
    least = min_log_probability(arguments.checkpoint)
    pieces = [pieces_of(text, translator, arguments) for text in texts]
    given = [sentence for text in pieces for sentence in text[1::2]]
    scored = scores or least > -math.inf
    found = translator.hypotheses(given, strategy=strategy, progress=progress, scores=scored, first=first)
    if translator.splits and not scores:
        found = translator.with_numbers(given, found, strategy)
    judged, alpha = found, strategy.alpha if strategy.beam > 1 else 0.0
    if least > -math.inf and (strategy.sampling or strategy.coverage or strategy.rules != Rules()):  # other scores
        judged, alpha = translator.hypotheses(given, strategy=Strategy(beam=1), progress=progress), 0.0
    results = zip(given, found, judged, strict=True)
    for text in pieces:
        if len(text) == 1:  # a line without words stays as it is, so that source and output lines correspond
            print(*text * strategy.n_best, sep="\n")
            continue
        own = list(itertools.islice(results, len(text) // 2))
        for rank, hypothesis in enumerate(own[0][1]):
            score = f"{hypothesis.score:8.3f}  " if scores else ""
            outputs = [in_one_line(translator.tokenizer.decode(hypotheses[rank].ids)) for _, hypotheses, _ in own]
            print(f"{score}{join_text(text, outputs)}")
        print("\n" * (strategy.n_best - len(own[0][1])), end="")
        sys.stdout.flush()
        for sentence, hypotheses, likely in own:
            unlike = least > -math.inf and translator.mean_log_probability(likely[0], alpha) < least
            output = translator.tokenizer.decode(hypotheses[0].ids)
            lost = missing_numbers(sentence, output) if translator.splits else []
            for note in notes(sentence, arguments.checkpoint, lost, unlike=unlike):
                print(f"note: {note}: {printable(short(sentence))}", file=sys.stderr)
        if arguments.show_attention:
            weights, source, target = translator.attention(own[0][0], own[0][1][0].ids)
            print(attention_text(weights, source, target))
            print("  ".join(f"{word}:{found}" for word, found in alignment(weights, source, target)))
    sys.stdout.flush()
    return first + len(given)


def notes(sentence: str, model: str, lost: list[str], *, unlike: bool) -> Iterator[str]:
    """Yield what makes a translation doubtful: the sentence's language, rare words, or numbers that it has lost."""
    names = {"en": "English", "de": "German"}
    for to in [to for to, own in TRANSLATORS.items() if own == model and looks_like(sentence, to)]:
        (other,) = TRANSLATORS.keys() - {to}
        yield f"this text looks like {names[to]}; --to {other} translates it into {names[other]}"
        unlike = False
    if unlike:
        yield "this text is unlike the training data; the translation is a guess"
    if lost:
        yield f"the translation lacks {', '.join(lost[:3])}"


def looks_like(sentence: str, language: str) -> bool:
    """Return whether a text has more of the frequent words of this language than of the other one."""
    counts = {known: len(re.findall(words, sentence, re.IGNORECASE)) for known, words in FREQUENT_WORDS.items()}
    return counts.pop(language) > max(counts.values())


def in_one_line(text: str) -> str:
    """Return an output without line ends, and without control characters, which would command the terminal."""
    return without_controls(re.sub(r"[\n\v\f\r\x1c-\x1e\x85]+", " ", text))


def without_controls(text: str) -> str:
    """Return a text without control characters other than tabs and line feeds."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+", "", text)


def ask(prompt: str) -> Iterator[str]:
    """Yield the lines typed after `prompt`, until Ctrl-D; blank lines are skipped.

    Raises InputError for a line that is not UTF-8 text.
    """
    with contextlib.suppress(ImportError):  # Windows has no readline
        import readline  # noqa: F401 - gives input() a history and line editing
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


def show_continuations(writer: Writer, prompt: str, arguments: argparse.Namespace, number: int = 0) -> None:
    """Print sampled continuations of the prompt token by token, or the best continuations of a beam search.
    Prompts with other numbers have other samples.
    """
    strategy = strategy_of(arguments)
    if strategy.sampling:
        for draw in range(strategy.n_best):
            print(prompt, end="", flush=True)
            drawn = dataclasses.replace(strategy, seed=strategy.seed + number * strategy.n_best + draw)
            for piece in writer.stream(prompt, arguments.length, drawn):
                print(without_controls(piece), end="", flush=True)
            print()
        return
    for text, score in writer.best(prompt, arguments.length, strategy):
        shown = without_controls(text)
        print(f"{score:8.3f}  {shown}" if strategy.n_best > 1 else shown, flush=True)


def attention_text(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> str:
    """Return attention weights (target, source) as lines of text, where denser characters mean larger weights.
    Each line ends with the source token that has the largest weight.
    """
    width = max(map(len, target))
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    lines = []
    for row, token in enumerate(target):
        best = int(weights[row].argmax())
        shown = "".join(SHADES[shade] for shade in shades[row])
        lines.append(f"{token:>{width}} |{shown}| {source[best]} {weights[row, best]:.2f}")
    return "\n".join(lines)
