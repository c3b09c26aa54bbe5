"""Sentence pairs: a data set, its split into training, validation and test, and the removal of unsuitable pairs.

Also undoes Moses tokenisation and changes the case of texts.
"""

import hashlib
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import regex

from ...errors import InputError, short
from ...tokenizer import Tokenizer
from .downloads import PUBLISHED
from .files import Pair
from .sets import DataSet

T = TypeVar("T")
HELD_OUT_FRACTION = 0.05
HELD_OUT_MOST = 2_000

_NO_LETTERS = re.compile(r"\W+")


@dataclass(frozen=True)
class TranslationData(DataSet[list[Pair]]):
    """Sentence pairs (source, target)."""

    test_name: str  # such as "test_2016_flickr"
    source: str  # codes of the languages, such as "de" and "en"
    target: str

    def summary(self) -> str:
        title, _, sizes = super().summary().rpartition(": ")
        return f"{title}, {self.source}-{self.target}: {sizes} pairs ({self.test_name})"

    def reversed(self) -> Self:
        """Return the same pairs in the other direction."""
        turned = self.with_parts(lambda part: [pair[::-1] for pair in part])
        return replace(turned, source=self.target, target=self.source)


def pairs_of(data: Any, what: str, load: Callable[[str], DataSet[list[Pair]]]) -> DataSet[list[Pair]]:
    """Return the data set that `load` reads from a name or a path; it has no validation and test part if these would
    be set aside from one file. A list of pairs becomes a training part.
    """
    if isinstance(data, str | Path):
        found = load(str(data))
        train = [*found.train, *found.valid, *found.test]
        return DataSet(train, [], [], "", notes=found.notes) if found.whole else found
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise InputError(f"Give a list of pairs {what}, or the path of a file, not {short(data)}.")
    pairs = list(data)
    for number, pair in enumerate(pairs, 1):
        if (
            not isinstance(pair, list | tuple | np.ndarray)
            or len(pair) != 2
            or not all(isinstance(text, str) for text in pair)
        ):
            raise InputError(f"Item {number} is {short(pair)}. Give a list of pairs {what}, each of two texts.")
    return DataSet([(first, second) for first, second in pairs], [], [], "")


def train_and_valid(
    found: DataSet[list[Pair]], valid: DataSet[list[Pair]] | None, side: int
) -> tuple[list[Pair], list[Pair], list[str]]:
    """Return the pairs for training and validation, and notes. Without validation pairs, some are set aside, all pairs
    with the same text on this side together.
    """
    notes = list(found.notes)
    if valid is None and not found.valid:
        train, held, more = split_by_sentence(found.train, itemgetter(side))
        return train + more, held, notes
    held = found.valid if valid is None else valid.scored
    if not held:
        raise InputError(
            "The validation data are empty. Give some, or leave them out: a part of the data is set aside."
        )
    known = {sentence_key(pair[side]) for pair in found.train}
    if same := sum(sentence_key(pair[side]) in known for pair in held):
        notes.append(f"note: {same:,} of the {len(held):,} validation pairs have a text that is in training, too")
    return found.train, held, notes


def sentence_key(text: str) -> str:
    """Return a key that ignores case, blanks, punctuation and the composition of accented letters."""
    text = unicodedata.normalize("NFC", text)
    return _NO_LETTERS.sub("", text.casefold()) or text


def split_by_sentence(
    items: list[T], sentence: Callable[[T], str], own: Mapping[str, list[T]] = {}
) -> tuple[list[T], list[T], list[T]]:
    """Split items into (train, valid, test) so that all items with the same sentence are in the same list.

    The validation and test sets get 5 % of the items each, but at most about 2,000. A hash of each sentence determines
    the assignment, so that it hardly changes if the file grows, and not if the file is reordered. Case and punctuation
    are ignored. If "valid" or "test" items are given as `own`, the training set gets those split off.
    """
    if len(own) == 2:
        return items, own["valid"], own["test"]
    keys = [sentence_key(sentence(item)) for item in items]
    counts = Counter(keys)
    if len(counts) < 3:
        raise InputError(
            f"The data hold only {len(counts)} different sentence{'' if len(counts) == 1 else 's'}, too few to set "
            "some aside for validation and test. Give more of them."
        )
    wanted = max(1, min(HELD_OUT_MOST, round(HELD_OUT_FRACTION * len(items))))
    sizes = {"test": 0, "valid": 0}
    part_of: dict[str, str] = {}
    for key in sorted(counts, key=lambda key: hashlib.blake2b(key.encode(), digest_size=8).digest()):
        part = next((name for name, size in sizes.items() if size < wanted), None)
        if part is None:
            break
        part_of[key] = part
        sizes[part] += counts[key]
    parts: dict[str, list[T]] = {"train": [], "valid": [], "test": []}
    for key, item in zip(keys, items, strict=True):
        parts[part_of.get(key, "train")].append(item)
    if not all(parts.values()):
        ((often, count),) = counts.most_common(1)
        text = sentence(items[keys.index(often)])
        raise InputError(
            f"{count:,} of the {len(items):,} sentence pairs have the same sentence, {text[:40]!r}, on one "
            "side: the other pairs are too few for training, validation and test. Give pairs of more varied sentences."
        )
    train = parts["train"] + [item for part in ("valid", "test") if part in own for item in parts[part]]
    return train, own.get("valid", parts["valid"]), own.get("test", parts["test"])


_FIRST_LETTER = regex.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]")
_WORD = regex.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = regex.compile(r"(?:^|[.!?]\s)\W*\w")
_ACRONYMS = set(PUBLISHED["acronyms"].split())


def clean_pairs(pairs: Sequence[Pair], *, max_words: int = 200, max_ratio: float = 3.0) -> tuple[list[Pair], str]:
    """Return the pairs without those that are useless or harmful for training, and a sentence about the dropped pairs,
    or "" if there are none. One reason is counted per dropped pair. `max_ratio` is the largest ratio of the lengths in
    characters; a difference of up to 20 characters is always allowed, as between "Ja." and "Yes, I do.".
    """
    kept: dict[Pair, None] = {}
    dropped = Counter[str]()
    for pair in pairs:
        if reason := _reason(pair, max_words, max_ratio) or ("repeated" if pair in kept else ""):
            dropped[reason] += 1
        else:
            kept[pair] = None
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    note = f"Clean-up dropped {dropped.total():,} of {len(pairs):,} pairs: {reasons}." if dropped else ""
    return list(kept), note


def _reason(pair: Pair, max_words: int, max_ratio: float) -> str:
    source, target = (side.strip() for side in pair)
    if not source or not target:
        return "with an empty side"
    if source.casefold() == target.casefold() and len(source.split()) > 2:  # the same name can be a translation
        return "not translated"
    both = source + target
    if "\N{REPLACEMENT CHARACTER}" in both or any(unicodedata.category(c) == "Cc" and c != "\t" for c in both):
        return "with broken characters"
    if max(len(source.split()), len(target.split())) > max_words:
        return f"longer than {max_words} words"
    short, long = sorted((len(source), len(target)))
    if long > max_ratio * short and long - short > 20:
        return f"with lengths {max_ratio:g} times apart"
    if min(map(_letters, (source, target))) < 0.5:  # as in tables and mark-up
        return "with few letters"
    return ""


def _letters(text: str) -> float:
    """Return the fraction of letters, combining marks and blanks in a text."""
    return sum(unicodedata.category(c)[0] in "LMZ" for c in text) / len(text)


def detokenized(text: str) -> str:
    """Return a text without the blanks and escapes that the Moses tokeniser has added.

    >>> detokenized('He said : &quot; Don &apos;t ( ever ) ! &quot;')
    'He said: "Don\\'t (ever)!"'
    """
    text = " ".join(html.unescape(text).split())
    text = re.sub(r'" ([^"]*?) ?"', r'"\1"', text)
    return re.sub(r" (?=[,;:.!?)\]%]|'(?:s|t|re|ve|m|ll|d)\b)|(?<=[(\[]) ", "", text)


def title_case(text: str) -> str:
    """Return the text with the first letter of every word in upper case, as in many headlines.

    >>> title_case("they don't say what the GOP's e-mails cost")
    "They Don't Say What The GOP's E-Mails Cost"
    """
    return _FIRST_LETTER.sub(lambda found: found[0].title(), text)


def truecased(text: str, tokenizer: Tokenizer) -> str:
    """Return a text in capitals with the probable case of each word (truecasing); other texts are unchanged.

    The first word of a sentence begins with a capital. A frequent acronym stays as it is. Another word is in upper
    case, in lower case, or begins with a capital: the form with the fewest unknown tokens, then the fewest tokens, then
    the smallest sum of ids. BPE makes few tokens from frequent words, and small ids are those of frequent tokens.

    >>> from handloom.models.shipped import MODELS
    >>> from handloom.tokenizer import load_tokenizer
    >>> truecased("WO IST DER BAHNHOF?", load_tokenizer(MODELS["everyday-de-en"] / "tokenizer.json"))
    'Wo ist der Bahnhof?'
    """
    if not text.replace("ß", "").isupper():
        return text

    special = set(tokenizer.special_ids.values())  # <unk>, the only one that words can have, is a small id

    def cost(word: str) -> tuple[int, int, int]:
        ids = tokenizer.encode("a " + word)  # a word within a sentence
        return sum(token in special for token in ids), len(ids), sum(ids)

    def best(found: "regex.Match[str]") -> str:
        low = found[0].lower()
        if found[0] in _ACRONYMS:
            return found[0]
        return min(low, low.capitalize(), found[0], key=cost)

    return _SENTENCE_START.sub(lambda found: found[0].upper(), _WORD.sub(best, text))
