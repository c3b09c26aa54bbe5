"""The command-line options for generation, and functions that apply a model to texts in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
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
from ..train.data.downloads import PUBLISHED
from ..train.tasks.alignment import alignment
from ..train.tasks.literals import missing
from ..train.tasks.sentences import as_one_line, join_text
from ..train.tasks.translator import Translator
from .command_line import check_text, file_of, sentences_from
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
#: Frequent words of the languages of `TRANSLATORS`. `PUBLISHED` has frequent sequences of three letters: those of the
#: 74,000 Tatoeba sentences that tell the two languages apart best.
FREQUENT_WORDS = {
    "en": r"\b(?:the|i|you|he|she|we|they|is|are|am|were|and|of|to|my|your|have|do|does|what|where|who|this|with|has|"
    r"it|that|for|a|be)\b",
    "de": r"\b(?:der|das|ich|du|sie|wir|ihr|ist|sind|bin|und|zu|es|mein|nicht|haben|wo|wer|mit|für|dem|den|ein)\b",
}
LANGUAGES = {"de": "German", "en": "English", "fr": "French"}
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

    The lines of standard input are translated in batches, which is several times faster than line by line. A line that
    the model can't read gives a blank line. After the last line, an InputError names these lines. An InputError also
    refuses a minimum length that the model can't generate.
    """
    check_lengths(strategy_of(arguments), translator.model.config.max_length)
    if arguments.interactive:
        typed = itertools.count(0, TOGETHER)

        def show(text: str) -> None:
            nonlocal translator
            translator = directed(translator, text, arguments)
            show_hypotheses(translator, [pieces_of(f"{text}\n", translator, arguments)], arguments, next(typed))

        each_text(arguments, show)
        return
    numbers, first, refused = itertools.count(1), 0, dict[int, InputError]()
    for batch in batches_from(arguments.texts, whole=splits(translator, arguments)):
        translator, pieces = directed(translator, "".join(batch), arguments), []
        for text, number in zip(batch, numbers, strict=False):
            pieces.append(pieces_of(text, translator, arguments))
            try:
                translator.source_ids(pieces[-1][1::2])
            except InputError as error:
                refused[number], pieces[-1] = error, ["\n"]
        first = show_hypotheses(translator, pieces, arguments, first)
    if refused:
        lines = ", ".join([*map(str, refused)][:9]) + (", ..." if len(refused) > 9 else "")
        raise InputError(f"The output is blank for line {lines}. {next(iter(refused.values()))}")


def batches_from(arguments: list[str], *, whole: bool) -> Iterator[list[str]]:
    """Yield the texts that are translated in one call: `TOGETHER` lines of standard input, or an argument or the file
    that it names, as a `whole` or in lines. A text ends with a line feed, unless its file does not.
    """
    if arguments in ([], ["-"]):
        lines = (line.rstrip() + "\n" for line in sentences_from(arguments))
        while batch := list(itertools.islice(lines, TOGETHER)):
            yield batch
        return
    contents = [file_of(text, number) for number, text in enumerate(arguments, 1)]
    for argument, content in zip(arguments, contents, strict=True):
        text = f"{argument.rstrip()}\n" if content is None else content
        yield [text] if whole else [f"{line.rstrip()}\n" for line in text.rstrip().split("\n")]


load_once = functools.cache(Translator.load)


def directed(translator: Translator, text: str, arguments: argparse.Namespace) -> Translator:
    """Return the translator, or that of the other direction if the text is in the language into which the first one
    translates; a message on standard error says so. The options --to and --model rule this out.
    """
    to = target_of(text, arguments.checkpoint)
    if not to or "to" not in arguments or arguments.given & {"to", "checkpoint"}:
        return translator
    (other,) = TRANSLATORS.keys() - {to}
    into = f"it is translated into {LANGUAGES[other]}; --to {to} rules this out"
    print(f"note: this text looks like {LANGUAGES[to]}: {into}", file=sys.stderr)
    arguments.checkpoint = TRANSLATORS[other]
    return load_once(arguments.checkpoint)


def splits(translator: Translator, arguments: argparse.Namespace) -> bool:
    """Return whether texts are split into sentences: not if --nbest or --show-attention describe a whole line."""
    return translator.splits and arguments.nbest == 1 and not arguments.show_attention


def pieces_of(text: str, translator: Translator, arguments: argparse.Namespace) -> list[str]:
    """Return the pieces of a text that is split (`Translator.pieces`), or the text as one sentence."""
    if splits(translator, arguments):
        return translator.pieces(text)
    return ["", text.strip(), "\n"] if text.strip() else ["\n"]


def show_hypotheses(
    translator: Translator, texts: list[list[str]], arguments: argparse.Namespace, first: int = 0
) -> int:
    """Print the translator's output for each text, given as `pieces_of`; with scores if several outputs are requested.

    Each text then has `n_best` lines; a line is blank if there are fewer different outputs. `first` is the number of
    the first sentence, for sampling. Returns the number after the last sentence.
    """
    strategy = strategy_of(arguments)
    scores = strategy.n_best > 1
    least = min_log_probability(arguments.checkpoint)
    given = [as_one_line(sentence) for text in texts for sentence in text[1::2]]
    scored, progress = scores or least > -math.inf, len(given) > 9 or strategy.width > 20
    found = translator.hypotheses(given, strategy=strategy, progress=progress, scores=scored, first=first)
    ranked = [[(translator.tokenizer.decode(own.ids), own) for own in hypotheses] for hypotheses in found]
    if translator.splits and not scores:
        ranked = [[best] for best in translator.with_literals(given, found, strategy)]
    judged, alpha = [own[0][1] for own in ranked], strategy.alpha if strategy.beam > 1 else 0.0
    if least > -math.inf and (strategy.sampling or strategy.coverage or strategy.rules != Rules()):  # other scores
        judged, alpha = [own[0] for own in translator.hypotheses(given, strategy=Strategy(beam=1))], 0.0
    results = zip(given, ranked, judged, strict=True)
    for text in texts:
        own = list(itertools.islice(results, len(text) // 2))
        for rank in range(strategy.n_best):  # a line without words stays as it is, so that the lines correspond
            known = [ranks[rank] for _, ranks, _ in own if rank < len(ranks)]
            score = f"{known[0][1].score:8.3f}  " if known and scores else ""
            shown = join_text(text, [in_one_line(output) for output, _ in known]) if len(known) == len(own) else "\n"
            print(score + without_controls(shown), end="")
        sys.stdout.flush()
        for sentence, ranks, likely in own:
            unlike = least > -math.inf and translator.mean_log_probability(likely, alpha) < least
            lost = missing(sentence, ranks[0][0]) if translator.splits else []
            for note in notes(sentence, arguments.checkpoint, lost, unlike=unlike):
                print(f"note: {note}: {printable(short(sentence))}", file=sys.stderr)
        if arguments.show_attention and own:
            weights, source, target = translator.attention(own[0][0], own[0][1][0][1].ids)
            print(attention_text(weights, source, target))
            print("  ".join(f"{word}:{found}" for word, found in alignment(weights, source, target)))
    sys.stdout.flush()
    return first + len(given)


def notes(sentence: str, model: str, lost: list[str], *, unlike: bool) -> Iterator[str]:
    """Yield what makes a translation doubtful: the sentence's language, rare words, or literals that it has lost."""
    if to := target_of(sentence, model):
        (other,) = TRANSLATORS.keys() - {to}
        yield f"this text looks like {LANGUAGES[to]}; --to {other} translates it into {LANGUAGES[other]}"
    elif unlike:
        yield "this text is unlike the training data; the translation is a guess"
    if lost:
        yield f"the translation lacks {', '.join(lost[:3])}"


def target_of(text: str, model: str) -> str:
    """Return the language into which a shipped translator translates if the text looks like it, otherwise ""."""
    return next((to for to, own in TRANSLATORS.items() if own == model and looks_like(text, to)), "")


def looks_like(text: str, language: str) -> bool:
    """Return whether a text has clearly more of the frequent words and letters of this language than of the other."""
    letters = re.sub(r"[\W\d_]+", " ", f" {text.casefold()} ")

    def count(known: str) -> int:
        triples = set(PUBLISHED["triples"][known].split("|"))
        words = len(re.findall(FREQUENT_WORDS[known], text, re.IGNORECASE))
        return 2 * words + sum(letters[i : i + 3] in triples for i in range(len(letters) - 2))

    counts = {known: count(known) for known in FREQUENT_WORDS}
    return counts.pop(language) > max(counts.values()) + 2


def in_one_line(text: str) -> str:
    """Return an output without line ends, and without control characters, which would command the terminal."""
    return without_controls(re.sub(r"[\n\v\f\r\x1c-\x1e\x85]+", " ", text))


def without_controls(text: str) -> str:
    """Return a text without control characters other than tabs and line ends."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+|\r(?!\n)", "", text)


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
