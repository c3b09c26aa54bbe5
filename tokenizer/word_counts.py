"""Count the words of a corpus for BPE training, which needs only these counts.

Running the pre-tokenizer's expression over the whole text would take longer than the rest of training. Therefore the
text is first cut into chunks at blanks, and equal chunks are counted. The expression is then applied to each *distinct*
chunk once. The words are the same for all patterns in `PATTERNS`, because the patterns' words can begin with a blank
but, except for white space, contain no other blank.

The expression splits a run of white space depending on the text after it. So the text is not cut at a blank that
follows white space, and the run stays together with the word after it.

Most chunks are words of at most eight bytes. A word of this length fits into a 64-bit number, and NumPy sorts and
counts numbers several times faster than a dict counts byte strings. A dict is used only for longer words.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, short
from .normalizer import normalized
from .pre_tokenizer import WHITE_SPACE, Splitter

_TEXTS = 1 << 12  # texts whose chunks are counted at once
_BLOCKS = 1 << 6  # blocks of texts whose counts are kept apart
_TOGETHER = 10_000  # chunks that are split into words in one call

_BLANK, _START = 0x20, b"\xff"  # UTF-8 never uses the byte of _START, which is written before each text
# Blanks after these bytes are no cuts: the start of a text, and the last bytes of white space in UTF-8. The latter are
# also the last bytes of some letters, which then stay together with the next word.
_NO_CUT_AFTER = np.isin(np.arange(256), [*_START, *(character.encode()[-1] for character in WHITE_SPACE)])
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)

Counts = tuple[NDArray[np.uint64], NDArray[np.int64]]  # distinct chunks as numbers, and how often they occur


def count_words(texts: Iterable[str], split: Splitter, *, normalize: bool = False) -> dict[bytes, int]:
    """Return {word as UTF-8 bytes: number of occurrences}; `normalize` normalises the texts first."""
    words = _words_of(_count_chunks(_blocks(texts, normalize)), split)
    if not words:
        raise InputError("There is no text to train on: the texts are empty. Check the input.")
    return words


def _blocks(texts: Iterable[str], normalize: bool) -> Iterator[bytes]:
    """Yield blocks of several texts, with _START before each of them."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"Training needs several texts, not {short(texts)}: give a list, or an open file.")
    iterator = iter(texts)
    first = next(iterator, "")
    iterator, is_path = chain([first], iterator), os.path.isfile(first)
    while batch := list(islice(iterator, _TEXTS)):
        if is_path or not all(isinstance(text, str) for text in batch):
            raise InputError("Training needs texts (str). To train on a file, open it and give the file.")
        batch = list(map(normalized, batch)) if normalize else batch
        yield _START + _START.join([text.encode("utf-8", "surrogatepass") for text in batch])


def _count_chunks(blocks: Iterable[bytes]) -> dict[bytes, int]:
    """Count the chunks between two cuts, without the blank of a cut; the first of a text begins with _START."""
    longer: Counter[bytes] = Counter()
    found: list[Counts] = [(np.empty(0, np.uint64), np.empty(0, np.int64))]
    for block in blocks:
        padded = block + _START + bytes(7)
        data = np.frombuffer(padded, dtype=np.uint8)
        cuts = np.flatnonzero((data == _BLANK) | (data == _START[0]))
        cuts = cuts[(data[cuts] != _BLANK) | ~_NO_CUT_AFTER[data[cuts - 1]]]
        starts, ends = cuts[:-1] + (data[cuts[:-1]] == _BLANK), cuts[1:]
        lengths = ends - starts
        short = (lengths <= 8) & (b"\0" not in block)  # as a number, a NUL byte would equal the zeros behind a chunk
        eight_bytes = np.ndarray(len(padded) - 7, np.dtype("<u8"), padded, strides=(1,))  # from every byte on
        found.append(np.unique(eight_bytes[starts[short]] & _MASKS[lengths[short]], return_counts=True))
        bounds = zip(starts[~short].tolist(), ends[~short].tolist(), strict=True)
        longer.update([block[start:end] for start, end in bounds])
        if len(found) > _BLOCKS:
            found = [_sum(found)]
    distinct, counts = _sum(found)
    longer.update(dict(zip(distinct.astype("<u8").view("S8").tolist(), counts.tolist(), strict=True)))
    return longer


def _sum(found: list[Counts]) -> Counts:
    numbers, counts = (np.concatenate(part) for part in zip(*found, strict=True))
    distinct, places = np.unique(numbers, return_inverse=True)
    return distinct, np.bincount(places, counts).astype(np.int64)  # exact below 2^53


def _words_of(chunks: dict[bytes, int], split: Splitter) -> dict[bytes, int]:
    """Compute the counts of words from the counts of chunks.

    Chunks that occur equally often are joined to one text, so that few calls of the pre-tokenizer are needed. A word
    begins at the blank before each chunk, whatever the end of the previous chunk is.
    """
    words: dict[str, int] = {}
    together: defaultdict[int, list[str]] = defaultdict(list)
    apart: defaultdict[int, list[str]] = defaultdict(list)  # no blank before them, or more white space after it
    for chunk, count in chunks.items():
        if chunk.isalpha():  # ASCII letters after a blank: the most frequent case, and one word in each pattern
            words[" " + chunk.decode()] = count
        elif chunk[:1] == _START:
            apart[count].append(chunk[1:].decode("utf-8", "surrogatepass"))
        elif (text := chunk.decode("utf-8", "surrogatepass")) and text[0] not in WHITE_SPACE:
            together[count].append(text)
        else:
            apart[count].append(" " + text)
    for count in {**together, **apart}:
        found = Counter(chain.from_iterable(map(split, apart.pop(count, []))))
        chunks_of_count = iter(together.pop(count, []))
        while batch := list(islice(chunks_of_count, _TOGETHER)):
            found.update(split(" " + " ".join(batch)))
        for word, times in found.items():
            words[word] = words.get(word, 0) + times * count
    return {word.encode("utf-8", "surrogatepass"): count for word, count in words.items()}
