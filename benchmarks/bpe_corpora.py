"""Texts that are hard for a BPE trainer, generated or made from the benchmark's files."""

from __future__ import annotations

import random
import string
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

_MEGABYTE = 10**6


def crlf(files: Sequence[Path]) -> bytes:
    """The files with the line ends of Windows."""
    return b"".join(file.read_bytes() for file in files).replace(b"\n", b"\r\n")


def source_code(files: Sequence[Path]) -> bytes:
    """The modules of Python's standard library, without its tests."""
    folder = Path(sysconfig.get_path("stdlib"))
    modules = sorted(path for path in folder.rglob("*.py") if not {"test", "tests", "site-packages"} & set(path.parts))
    parts = []
    for path in modules:
        try:
            parts.append(path.read_bytes())
            parts[-1].decode()
        except UnicodeDecodeError:  # some are in Latin-1
            parts.pop()
    return b"".join(parts)


def chinese(files: Sequence[Path]) -> bytes:
    """Sentences without blanks: invented words of one to four Han characters, with frequencies by Zipf's law."""
    generator = random.Random(1)
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 4000)]
    words = ["".join(generator.choices(characters, k=generator.choice([1, 2, 2, 2, 3, 4]))) for _ in range(50_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    drawn = iter(generator.choices(words, weights, k=800_000))
    lines = []
    for first in drawn:
        clause = [first, *(word for _, word in zip(range(generator.randint(3, 20)), drawn, strict=False))]
        lines.append("".join(clause) + generator.choice(["。\n", "，", "，", "？\n"]))
    return "".join(lines).encode()


def four_letters(files: Sequence[Path]) -> bytes:
    """Lines of sixty letters from an alphabet of four, without blanks, all different."""
    generator = random.Random(2)
    return "".join("".join(generator.choices("ACGT", k=60)) + "\n" for _ in range(80_000)).encode()


def unique_words(files: Sequence[Path]) -> bytes:
    """Random words of three to twelve letters, nearly all different."""
    generator = random.Random(3)
    words = ["".join(generator.choices(string.ascii_lowercase, k=generator.randint(3, 12))) for _ in range(500_000)]
    return "\n".join(" ".join(words[i : i + 10]) for i in range(0, len(words), 10)).encode()


def variations(files: Sequence[Path], megabytes: int) -> bytes:
    """The files repeated up to a size; each time other letters are exchanged, so that the words differ."""
    text = b"".join(file.read_bytes() for file in files)
    letters = string.ascii_lowercase.encode()
    result = bytearray(text)
    generator = random.Random(4)
    while len(result) < megabytes * _MEGABYTE:
        shuffled = bytearray(letters)
        for _ in range(4):
            i, j = generator.sample(range(len(letters)), 2)
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        result += text.translate(bytes.maketrans(letters, bytes(shuffled)))
    return bytes(result[: megabytes * _MEGABYTE]).decode(errors="ignore").encode()


CORPORA: dict[str, Callable[[Sequence[Path]], bytes]] = {
    "CRLF line ends": crlf,
    "source code": source_code,
    "Chinese characters": chinese,
    "four letters": four_letters,
    "unique words": unique_words,
}
