"""Count the words of a corpus for BPE training, which needs only these counts.

Running the pre-tokenizer's expression over the whole text would take longer than the rest of training. Therefore the
text is first split at blanks, which is much faster, and equal chunks are counted. The expression is then applied to
each *distinct* chunk once. The words are the same for all patterns in `PATTERNS`, because the patterns' words can begin
with a blank but, except for white space, contain no other blank.

The expression splits a run of white space depending on the text after it. So the text is not split at a blank that
follows white space, and the run stays together with the word after it.
"""

import os
import re
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..errors import InputError
from .chunk_counts import ChunkCounts
from .pre_tokenizer import WHITE_SPACE, PreTokenizer

_BLOCK = 1 << 20  # bytes
_TOGETHER = 10_000  # chunks that are split into words in one call
_FLUSH = 1 << 25  # bytes of distinct chunks after which they are split into words and freed
_PROCESS = 1 << 22  # bytes of text that justify starting another process

# Two bytes that UTF-8 never uses mark the blanks that a split would lose.
_START = b"\xff"  # this chunk begins a line or text: there is no blank before it
_KEPT = b"\xfe"  # a blank that follows white space: the text is not split here

# The white space of the expression's \s, except the blank and the line feed, which ends a line.
_OTHER_WHITE_SPACE = (
    rb"[\t\v\f\r]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
)
_LAST_BYTES = np.isin(np.arange(256), [*b"\t\v\f\r\x85\xa0\x9f\xa8\xa9\xaf", *range(0x80, 0x8B)])  # of these
_BLANK_AFTER_WHITE_SPACE = re.compile(rb"(%b|\n) (?!\xff)" % _OTHER_WHITE_SPACE)

Segment = tuple[Path, int, int]
A = TypeVar("A")
R = TypeVar("R")


def count_words(
    files_or_texts: str | Path | Iterable[str | Path], pre_tokenizer: PreTokenizer, processes: int = 1
) -> dict[bytes, int]:
    """Return {word as UTF-8 bytes: number of occurrences} for the files or texts. If the system can fork, at most
    `processes` processes read the files. Raises InputError if a file can't be read or is not UTF-8, or there is no
    text.
    """
    paths, texts = _paths_and_texts(files_or_texts)
    if texts is None:
        count = partial(_count_files, pattern=pre_tokenizer.pattern)
        words = _add({}, *map_in_processes(count, _divide(paths, processes)))
    else:
        words = _count(_text_blocks(texts), pre_tokenizer)
    if not words:
        raise InputError("There is no text to train on: the files or texts are empty. Check the input.")
    return words


def _paths_and_texts(items: str | Path | Iterable[str | Path]) -> tuple[list[Path], Iterator[str] | None]:
    """Return the arguments as files and texts. The texts are an iterator, because they need not fit in memory."""
    if isinstance(items, str | Path):
        return [Path(items)], None
    iterator = iter(items)
    first = next(iterator, None)
    if isinstance(first, Path):
        paths = [first, *iterator]
        if not all(isinstance(path, Path) for path in paths):
            raise InputError("Training needs either files (pathlib.Path) or texts (str), not both.")
        return [path for path in paths if isinstance(path, Path)], None
    if isinstance(first, str) and os.path.isfile(first):
        raise InputError(f"The first text, {first!r}, is the name of a file. To read files, give pathlib.Path objects.")
    return [], _checked(first, iterator)


def _checked(first: object, rest: Iterator[object]) -> Iterator[str]:
    text = first
    while text is not None:
        if not isinstance(text, str):
            raise InputError(f"Training needs texts (str) or files (pathlib.Path), not {type(text).__name__}.")
        yield text
        text = next(rest, None)


def _divide(paths: list[Path], processes: int) -> list[list[Segment]]:
    """Divide the files into at most `processes` parts of similar size, each of which ends at the end of a line."""
    try:
        sizes = [path.stat().st_size for path in paths]
    except OSError as error:
        raise InputError(f"The file {error.filename} can't be read: {error.strerror}. Check the path.") from None
    parts = max(1, min(processes, sum(sizes) // _PROCESS))
    share = -(-sum(sizes) // parts)
    divided: list[list[Segment]] = [[] for _ in range(parts)] if paths else []
    done = 0
    for path, size in zip(paths, sizes, strict=True):
        for part in range(parts):
            start, end = max(part * share - done, 0), min((part + 1) * share - done, size)
            if start < end:
                divided[part].append((path, start, end))
        done += size
    return divided


def _count_files(segments: list[Segment], pattern: str) -> dict[bytes, int]:
    return _count(_file_blocks(segments), PreTokenizer(pattern))


def _file_blocks(segments: Iterable[Segment]) -> Iterator[bytes]:
    """Yield the text of the segments in blocks of lines. A line belongs to the segment in which it begins."""
    for path, start, end in segments:
        try:
            with path.open("rb") as file:
                if start:
                    file.seek(start - 1)
                    start += len(file.readline()) - 1
                while start < end:
                    block = file.read(min(_BLOCK, end - start))
                    if not block.endswith(b"\n"):
                        block += file.readline()
                    if not block:
                        break
                    start += len(block)
                    _check_utf8(block, path)
                    yield _START + _keep_runs(block).replace(b"\n", b"\n " + _START)
        except OSError as error:
            raise InputError(f"The file {path} can't be read: {error.strerror or error}.") from None


def _check_utf8(block: bytes, path: Path) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: the byte 0x{error.object[error.start]:02x} ({error.reason}). Convert the file to "
            "UTF-8, or unpack it if it is compressed."
        ) from None


def _text_blocks(texts: Iterator[str]) -> Iterator[bytes]:
    """Yield blocks of many texts each. Blanks after a line break within a text are kept."""
    while batch := list(islice(texts, 4096)):
        block = _START + _START.join([text.encode("utf-8", "surrogatepass") for text in batch])
        block = _keep_runs(block).replace(_START, b" " + _START)[1:]
        yield _keep_blanks(block) if b"\n" in block else block


def _keep_runs(block: bytes) -> bytes:
    """Mark the blanks that follow a blank, so that the text is not split there."""
    if b"  " not in block:
        return block
    return block.replace(b"  ", b" " + _KEPT).replace(_KEPT + b" ", _KEPT + _KEPT)


def _keep_blanks(block: bytes) -> bytes:
    """Mark the blanks that follow other white space, except the blank that ends a line or a text."""
    return _BLANK_AFTER_WHITE_SPACE.sub(rb"\1" + _KEPT, block)


def _cuts_behind_white_space(block: bytes) -> bool:
    """Return False if no blank follows white space. True can, rarely, be wrong."""
    data = np.frombuffer(bytes(3) + block, dtype=np.uint8)
    blanks = np.flatnonzero(data == 0x20)
    suspects = blanks[_LAST_BYTES[data[blanks - 1]]]
    second, third = data[suspects - 2], data[suspects - 3]
    return bool(np.any((data[suspects - 1] < 0x20) | (second == 0xC2) | ((third >= 0xE1) & (third <= 0xE3))))


def _count(blocks: Iterable[bytes], pre_tokenizer: PreTokenizer) -> dict[bytes, int]:
    if not pre_tokenizer.begins_words_at_blanks:
        return _count_plainly(blocks, pre_tokenizer)
    words: dict[bytes, int] = {}
    chunks = ChunkCounts()
    for block in blocks:
        chunks.add(_keep_blanks(block) if _cuts_behind_white_space(block) else block)
        if chunks.size > _FLUSH:
            words = _add(words, _cut(chunks.take(), pre_tokenizer))
            chunks = ChunkCounts()
    return _add(words, _cut(chunks.take(), pre_tokenizer))


def _count_plainly(blocks: Iterable[bytes], pre_tokenizer: PreTokenizer) -> dict[bytes, int]:
    words: Counter[str] = Counter()
    for block in blocks:
        for text in block[1:].split(b" " + _START):
            words.update(pre_tokenizer.split(text.replace(_KEPT, b" ").decode("utf-8", "surrogatepass")))
    return {word.encode("utf-8", "surrogatepass"): count for word, count in words.items()}


def _cut(chunks: dict[bytes, int], pre_tokenizer: PreTokenizer) -> dict[bytes, int]:
    """Compute the counts of words from the counts of chunks, and empty `chunks` to save memory.

    Chunks that occur equally often are joined to one text, so that few calls of the pre-tokenizer are needed. A word
    begins at the blank before each chunk, whatever the end of the previous chunk is.
    """
    words: dict[str, int] = {}
    together: defaultdict[int, list[str]] = defaultdict(list)
    apart: defaultdict[int, list[str]] = defaultdict(list)  # no blank before them, or more white space after it
    while chunks:
        chunk, count = chunks.popitem()
        if chunk.isalpha():  # ASCII letters after a blank: the most frequent case, and one word in each pattern
            words[" " + chunk.decode()] = count
            continue
        text = chunk.replace(_KEPT, b" ").decode("utf-8", "surrogatepass") if chunk[:1] != _START else ""
        if text and text[0] not in WHITE_SPACE:
            together[count].append(text)
        elif chunk[:1] != _START:
            apart[count].append(" " + text)
        else:
            apart[count].append(chunk[1:].replace(_KEPT, b" ").decode("utf-8", "surrogatepass"))
    split = pre_tokenizer.split
    for count in {**together, **apart}:
        found = Counter(chain.from_iterable(map(split, apart.pop(count, []))))
        chunks_of_count = iter(together.pop(count, []))
        while batch := list(islice(chunks_of_count, _TOGETHER)):
            found.update(split(" " + " ".join(batch)))
        for word, times in found.items():
            words[word] = words.get(word, 0) + times * count
    return {word.encode("utf-8", "surrogatepass"): count for word, count in words.items()}


def _add(words: dict[bytes, int], *others: dict[bytes, int]) -> dict[bytes, int]:
    for more in others:
        if not words:
            words = more
            continue
        for word, count in more.items():
            words[word] = words.get(word, 0) + count
    return words


def map_in_processes(function: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Return the function's result for each argument, in order. If the system can fork, all results except the first
    are computed in other processes. Raises the exceptions of the function, and InputError if a process is killed.
    """
    if len(arguments) < 2 or sys.platform != "linux":
        return [function(argument) for argument in arguments]
    import multiprocessing  # slow to import, and needed for large data only
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    with warnings.catch_warnings():
        # Python warns where other threads run, such as those of NumPy's BLAS; the processes do not use them.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Ctrl-C reaches all processes of a terminal; this process reports it, and the others end silently.
        others, fork = len(arguments) - 1, multiprocessing.get_context("fork")
        with ProcessPoolExecutor(others, fork, signal.signal, (signal.SIGINT, signal.SIG_DFL)) as pool:
            rest = [pool.submit(function, argument) for argument in arguments[1:]]
            try:
                return [function(arguments[0]), *(result.result() for result in rest)]
            except BrokenProcessPool:
                cause = "one of the processes was killed, as happens when memory runs out"
                raise InputError(f"{cause}: free memory, or use processes=1, which needs less memory") from None
