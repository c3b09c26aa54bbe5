"""Options of the examples that translate: the direction, and other training pairs."""

from collections.abc import Callable
from typing import Any

from ..models.hyperparameters import Preset
from ..train.data.files import Pair, read_lines
from ..train.data.pairs import TranslationData, clean_pairs, sentence_key
from ..train.data.translation import data_names
from ..train.distributed import find_process_group
from ..train.tasks.translation import Translator, back_translate
from .examples import example_parser
from .generation import LANGUAGES
from .options import OptionParser


def translation_parser(
    doc: str | None, choose: Callable[[str, str], Preset], source: str, target: str
) -> tuple[OptionParser, Callable[..., None]]:
    """Return the parser of an example that translates between languages, "de" and "en" for example; see
    `example_parser`. Also return the function that adds further options to its own group.
    """
    codes, (source, target) = (source, target), (LANGUAGES[source], LANGUAGES[target])
    data = (
        f"one of {', '.join(data_names(*codes))}, or your own: a file of tab-separated {source} and {target}, or PATH "
        f"for the two files PATH.{codes[0]} and PATH.{codes[1]}; several can be joined by + (default: embedded, which "
        "needs no network)"
    )
    parser = example_parser(doc, choose, data=data)
    add = parser.group("this report")
    add("--reverse", action="store_true", help=f"translate {target} into {source} instead")
    words = "code of the source language of your own data, such as es (with --to, instead of --reverse)"
    add("--from", dest="source_language", metavar="CODE", help=words)
    add("--to", dest="target_language", metavar="CODE", help="code of the target language of your own data")
    words = "remove unusable training pairs, and print how many were removed for each reason"
    add("--clean", action="store_true", help=words)
    words = "augment the training pairs by back-translation: RUN is the folder of a run of the other direction, which "
    words += f"translates the lines of FILE from the target language ({target}, with --reverse {source})"
    add("--back-translate", nargs=2, metavar=("RUN", "FILE"), help=words)
    return parser, add


def languages(parser: OptionParser, arguments: Any, source: str, target: str) -> tuple[str, str]:
    """Return the source and the target language: `source` and `target`, unless options change them."""
    own = arguments.source_language, arguments.target_language
    if own == (None, None):
        return (target, source) if arguments.reverse else (source, target)
    if None in own or arguments.reverse:
        parser.error("--from and --to are given together, and without --reverse: add or leave out one of them")
    return own


def translation_task(source: str, target: str) -> str:
    """Return the name of the task that is saved with a run."""
    return f"translation from {source} to {target}"


def training_pairs(data: TranslationData, arguments: Any) -> list[Pair]:
    """Return the data with the additional pairs of --back-translate and without the pairs that --clean removes."""
    return find_process_group().from_first(lambda: _training_pairs(data, arguments))


def _training_pairs(data: TranslationData, arguments: Any) -> list[Pair]:
    pairs = data.train
    if arguments.back_translate:
        run, text = arguments.back_translate
        back = Translator.load(run, [translation_task(data.target, data.source)])
        held_out = {sentence_key(sentence) for _, sentence in [*data.valid, *data.test]}
        lines = read_lines(text)
        sentences = [line for line in lines if sentence_key(line) not in held_out]
        pairs = pairs + back_translate(back, sentences)
        print(
            f"{len(pairs) - len(data.train):,} additional training pairs by back-translation; left out "
            f"{len(lines) - len(sentences):,} sentences that are in the validation or test data"
        )
    if arguments.clean:
        pairs, note = clean_pairs(pairs)
        print(note)
    return pairs
