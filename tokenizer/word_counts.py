"""How often each word of a corpus occurs: all that BPE training needs to know of the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import InputError
from .pre_tokenizer import PreTokenizer


def count_words(files_or_texts: str | Path | Iterable[str | Path], pre_tokenizer: PreTokenizer) -> dict[bytes, int]:
    """How often each word, as UTF-8 bytes, occurs in the files or texts.

    Raises:
        InputError: a file can't be read or is not UTF-8, or there is no text at all.
    """
    lines: Counter[str] = Counter()
    for text in _texts(files_or_texts):
        lines[text] += 1
    words: Counter[bytes] = Counter()
    for text, count in lines.items():
        for word in pre_tokenizer.split(text):
            words[word.encode("utf-8", "surrogatepass")] += count
    if not words:
        raise InputError("There is no text to train on: the files or texts are empty. Check what was given.")
    return dict(words)


def _texts(files_or_texts: str | Path | Iterable[str | Path]) -> Iterator[str]:
    for item in [Path(files_or_texts)] if isinstance(files_or_texts, str | Path) else files_or_texts:
        if isinstance(item, Path):
            yield from _lines(item)
        elif isinstance(item, str):
            yield item
        else:
            raise InputError(f"Training takes texts (str) or files (Path), not {type(item).__name__}.")


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, each with its line feed."""
    try:
        with path.open("rb") as file:
            for line in file:
                yield line.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 ({error.reason}). Convert it, or unpack it if it is compressed."
        ) from None
    except OSError as error:
        raise InputError(f"The file {path} can't be read: {error.strerror or error}. Check the path.") from None
