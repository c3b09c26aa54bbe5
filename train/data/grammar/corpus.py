"""A parallel corpus from the grammar, split so that the test measures composition instead of memory.

Some combinations of words are held out: a verb with one of its subjects, objects or places, an adjective with one of
its nouns. They never occur in training; every sentence of the validation and test sets contains at least one. Each word
form of those sets also occurs in training. A model has seen "Drache" and "reparieren", for example, but must translate
a sentence in which a dragon repairs something.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from ....errors import InputError
from ....kinds import checked
from ..files import Pair
from .patterns import PATTERNS, Patterns
from .phrases import Combination
from .words import ACTIONS, ADJECTIVES, ALL_NOUNS, STATES, TURNED

SHORTEST, LONGEST = 4, 16  # German words of a sentence
MAX_PAIRS = 500_000  # maximum size of a corpus; beyond it, new sentences hardly differ from old ones
_GROUP = 24  # one noun in so many is held out from each verb slot and each adjective
_PATIENCE = 20_000  # draws without a usable sentence before the grammar counts as exhausted


@dataclass(frozen=True, slots=True)
class Sentence:
    """A pair and the combinations of words in it, as (kind, word, noun) with German dictionary forms."""

    german: str
    english: str
    combinations: frozenset[Combination]


@dataclass(frozen=True)
class Corpus:
    """Pairs (German, English), no German sentence twice within or across the splits.

    `held_out` are the combinations (kind, word, noun) that training lacks, with kind "subject", "object", "place" or
    "adjective".
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    held_out: frozenset[Combination]


def possible_combinations() -> list[list[Combination]]:
    """Return all combinations that the lexicon admits, grouped by slot of a verb and by adjective, in a fixed order."""
    groups: dict[tuple[str, str], dict[Combination, None]] = {}
    for verb in [*ACTIONS, *STATES, *TURNED]:
        filled = [("subject", verb.subjects)]
        filled += [("place" if slot.case in ("goal", "place") else "object", slot.nouns) for slot in verb.slots]
        for kind, nouns in filled:
            group = groups.setdefault((kind, verb.name), {})
            group.update({(kind, verb.name, noun.german): None for noun in nouns})
    for adjective in ADJECTIVES:
        fitting = [noun for noun in ALL_NOUNS if adjective.classes & noun.classes]
        groups["adjective", adjective.german] = {("adjective", adjective.german, noun.german): None for noun in fitting}
    return [list(group) for group in groups.values()]


def choose_held_out(rng: random.Random) -> frozenset[Combination]:
    """Return one of 24 combinations of each group, and none of small groups: each of their words occurs with others."""
    held_out: set[Combination] = set()
    for group in possible_combinations():
        if len(group) >= _GROUP // 3:
            held_out.update(rng.sample(group, -(-len(group) // _GROUP)))
    return frozenset(held_out)


def generate(seed: int = 0) -> Iterator[Sentence]:
    """Yield endless random sentences with their combinations; the same seed gives the same sentences."""
    maker = Patterns(random.Random(seed))
    while True:
        maker.start()
        german, english, end = maker.pick(PATTERNS)(maker)
        if SHORTEST <= german.count(" ") + 1 <= LONGEST:
            yield Sentence(_punctuate(german, end), _punctuate(english, end), frozenset(maker.combinations))


def _punctuate(text: str, end: str) -> str:
    """Add capital letter and full stop; the comma that closes a relative clause is dropped before another mark."""
    text = (text + end).replace(",.", ".").replace(",,", ",").replace(" 'm", "'m")
    return text[0].upper() + text[1:]


def words(text: str) -> list[str]:
    """Return the word forms of a sentence as they are written, without punctuation."""
    return re.findall(r"[\w']+", text)


@checked
def build_corpus(seed: int = 0, *, train_size: int = 40_000, valid_size: int = 1_000, test_size: int = 1_000) -> Corpus:
    """Draw a corpus with the given numbers of pairs.

    The same arguments give the same corpus on every machine. Raises InputError (a ValueError) for a negative size and
    for more pairs than the grammar can give; a very small training set has too few words to test on.
    """
    if min(train_size, valid_size, test_size) < 0:
        raise InputError(f"Corpus sizes can't be negative: {train_size}, {valid_size}, {test_size}.")
    if (total := train_size + valid_size + test_size) > MAX_PAIRS:
        raise InputError(f"The grammar gives up to {MAX_PAIRS:,} pairs, but {total:,} were requested; use fewer.")
    held_out = choose_held_out(random.Random(seed))
    train: dict[str, str] = {}
    tests: dict[str, str] = {}
    waiting: list[Sentence] = []  # with a held-out combination, until the words of the training set are known
    sentences = generate(seed)
    while len(train) < train_size:
        sentence = next(sentences)
        if held_out.isdisjoint(sentence.combinations):
            train.setdefault(sentence.german, sentence.english)
        else:
            waiting.append(sentence)
    known = {word for pair in train.items() for text in pair for word in words(text)}
    fruitless = 0
    for sentence in chain(waiting, sentences):
        if len(tests) == valid_size + test_size:
            break
        novel = not held_out.isdisjoint(sentence.combinations) and sentence.german not in tests
        if novel and known.issuperset(words(sentence.german) + words(sentence.english)):
            tests[sentence.german] = sentence.english
            fruitless = 0
        elif (fruitless := fruitless + 1) > _PATIENCE:
            raise InputError(
                f"{train_size:,} training pairs have too few words for {valid_size + test_size:,} validation and test "
                "pairs, whose words must all occur in training; request more training pairs or fewer others."
            )
    pairs = list(tests.items())
    return Corpus(list(train.items()), pairs[:valid_size], pairs[valid_size:], held_out)
