"""Readers for users' own text files: plain lines, parallel files, tab-separated tables and JSON Lines.

Lines end with "\\n" or "\\r\\n" only. `str.splitlines` would also split lines at U+2028, U+0085, vertical tabs and form
feeds, which occur inside sentences of real parallel corpora.

Every problem in a file raises an `InputError`. Its message names the file, the line, the cause and a remedy.
"""

import bz2
import csv
import gzip
import lzma
import re
import shlex
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from ...errors import InputError
from ...files import check_line_ends, open_file, parse_json
from ...kinds import checked
from .downloads import PUBLISHED

T = TypeVar("T")
Pair = tuple[str, str]
Rows = list[list[str]]  # of cells

_UTF8_BOM = b"\xef\xbb\xbf"
#: Endings of the files that are unpacked while they are read.
PACKED = ("", ".gz", ".bz2", ".xz", ".zip")
_TABLE_ENDINGS = (".tsv", ".txt", ".csv", ".jsonl", ".ndjson", ".json")

#: Column titles of tables. A language that is not listed here is recognised by its code only.
_COLUMN_NAMES = {code: {code, *names.split()} for code, names in PUBLISHED["languages"].items()}
_FREQUENT = {code: words.split() for code, words in PUBLISHED["frequent_words"].items()}


class ParallelText(NamedTuple):
    """Sentence pairs (source, target) in file order. `note` is a sentence about those that were left out, or ""."""

    pairs: list[Pair]
    note: str
    origin: str


@checked
def iter_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file without their line ends.

    Files of gzip, bzip2 and xz, and zip archives of one file, are recognised by their first bytes. A byte order mark at
    the start of a line, as in files that were joined, is skipped. A line feed at the end of the file does not add an
    empty line. Raises InputError if the file can't be opened, is not a regular file, is a damaged gzip file, or
    contains bytes that are not UTF-8 text.
    """
    with _open_binary(Path(path)) as stream:
        yield from decode_lines(stream, str(path))


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open binary stream, as `iter_lines` does. Error messages call the stream `name`."""
    offset = 0
    for number, raw in enumerate(stream, start=1):  # a binary stream splits at b"\n" only
        if number == 1:
            check_line_ends(raw, name)
        line = raw.removesuffix(b"\n").rstrip(b"\r").removeprefix(_UTF8_BOM)
        if b"\0" in line:
            raise InputError(
                f"{name}, line {number:,} contains a NUL byte, which no text has. If the file is UTF-16, convert it: "
                f"iconv -f UTF-16 -t UTF-8 {shlex.quote(name)} > NEW_FILE"
            )
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(_not_utf8(name, number, offset, raw, error)) from None
        offset += len(raw)


def is_text(value: Any) -> bool:
    """Return whether a JSON value is a string without NUL and unpaired surrogates, which JSON's escapes can produce."""
    try:
        return isinstance(value, str) and b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file, blank lines included. Raises InputError as `iter_lines`, or without a line."""
    lines = list(iter_lines(path))
    if not lines:
        raise InputError(f"{path} is empty. Give a file with one sentence per line.")
    return lines


def find_parallel(prefix: str | Path, language: str) -> Path | None:
    """Return the path of the file `PREFIX.language`, packed or not (`PACKED`), or None if there is none."""
    paths = (Path(f"{prefix}.{language}{ending}") for ending in PACKED)
    return next(filter(Path.is_file, paths), None)


def unpacked_name(path: str) -> str:
    """Return the path without the ending of a packed file."""
    return next((path.removesuffix(ending) for ending in PACKED[1:] if path.endswith(ending)), path)


def part_path(path: str, part: str) -> str:
    """Insert `part`: with "valid", corpus.tsv.gz gives corpus.valid.tsv (packed or not), and corpus corpus.valid."""
    bare = unpacked_name(path)
    ending = next((ending for ending in _TABLE_ENDINGS if bare.endswith(ending)), "")
    found = f"{bare.removesuffix(ending)}.{part}{ending}"
    return next((found + packed for packed in PACKED if Path(found + packed).is_file()), found)


def read_parallel(prefix: str | Path, source: str = "de", target: str = "en") -> ParallelText:
    """Read the sentence pairs of `PREFIX.de` and `PREFIX.en` (or `.de.gz`, `.en.gz`), which correspond line by line."""
    paths = []
    for language in (source, target):
        path = find_parallel(prefix, language)
        if path is None:
            raise InputError(
                f"The file {prefix}.{language} (or {prefix}.{language}.gz) does not exist. Parallel text is read from "
                f"two files, {prefix}.{source} and {prefix}.{target}, with one sentence per line."
            )
        paths.append(path)
    return read_parallel_files(*paths)


def read_parallel_files(source_path: str | Path, target_path: str | Path) -> ParallelText:
    """Read the sentence pairs of two files, which correspond line by line. See `read_parallel`."""
    sources, targets = read_lines(source_path), read_lines(target_path)
    if len(sources) != len(targets):
        raise InputError(
            f"{source_path} has {len(sources):,} lines and {target_path} has {len(targets):,}. Lines with equal "
            "numbers must be translations of each other: look for a line that is missing or duplicated in one file."
        )
    return with_text_on_both_sides(list(zip(sources, targets, strict=True)), f"{source_path} and {target_path}")


def parse_tsv(
    rows: list[str], name: str, source: str = "de", target: str = "en", *, columns: tuple[str, ...] | None = None
) -> ParallelText:
    """Return the sentence pairs of a tab-separated table, one pair per row. Cells are quoted all or not at all.

    `columns` are the names of the columns, such as `("en", "de", "licence")`. If None, the names are taken from a first
    row that names both languages (`de<TAB>en` or `English<TAB>German<TAB>Source`). Without such a row, the table must
    have two columns, source and target, or target and source if frequent words show it; `note` says so.
    """
    cells = [row.split("\t") for row in rows]
    if all(is_quoted(cell) for row in cells if row != [""] for cell in row):
        cells = [next(csv.reader([row], delimiter="\t"), [""]) for row in rows]
    header = _header(name, cells[0], source, target) if columns is None else None
    named = columns or header or (source, target)
    first = 2 if header else 1
    pairs = [
        ("", "") if header and row == cells[0] else _row(name, number, row, named, source, target)
        for number, row in enumerate(cells[first - 1 :], first)
    ]
    text = with_text_on_both_sides(pairs, name, first)
    if columns or header or not _reversed(text.pairs, source, target):
        return text
    note = (
        f"{name}: the first column looks like {target} and the second like {source}, and they are read so. To be sure, "
        f"name them in the first row: {target}<TAB>{source}."
    )
    return ParallelText([pair[::-1] for pair in text.pairs], f"{note} {text.note}".strip(), name)


def is_quoted(cell: str) -> bool:
    """Return whether a cell of a table begins and ends with a quotation mark."""
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _reversed(pairs: list[Pair], source: str, target: str) -> bool:
    """Return whether the most frequent words, if they are known, show that the sides of the pairs are exchanged."""
    if not {source, target} <= _FREQUENT.keys():
        return False
    sides = [Counter(word for pair in pairs[:1000] for word in pair[side].casefold().split()) for side in (0, 1)]
    (first, ours), (theirs, second) = ([sum(map(side.get, _FREQUENT[code], [0] * 99)) for code in (target, source)]
                                       for side in sides)  # fmt: skip
    return first > 2 * ours and second > 2 * theirs


def read_jsonl(path: str | Path, source: str = "de", target: str = "en") -> ParallelText:
    """Read sentence pairs from JSON Lines: `{"de": ..., "en": ...}` or `{"translation": {"de": ..., "en": ...}}`."""
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            pairs.append(("", ""))
            continue
        try:
            row = parse_json(line, str(path))
            row = row.get("translation", row)
            pair = row[source], row[target]
        except (ValueError, AttributeError, KeyError, TypeError):
            pair = (None, None)
        if not all(map(is_text, pair)):
            raise InputError(
                f"{path}, line {number:,}: {line[:40]!r} is not a JSON object with the texts {source!r} and {target!r}."
            )
        pairs.append(pair)
    return with_text_on_both_sides(pairs, str(path))


def with_text_on_both_sides(pairs: list[Pair], origin: str, first_line: int = 1) -> ParallelText:
    """Return a ParallelText without pairs that have a blank source or target. The first pair has this line."""
    kept = [pair for pair in pairs if all(map(str.strip, pair))]
    if not kept:
        raise InputError(f"{origin}: none of the {len(pairs):,} pairs has text on both sides. Give others.")
    blank = [f"{number}" for number, pair in enumerate(pairs, first_line) if not all(map(str.strip, pair))]
    count = "1 pair" if len(blank) == 1 else f"{len(blank):,} pairs"
    lines = ", ".join([*blank[:5], "..."] if len(blank) > 5 else blank)
    return ParallelText(kept, f"{origin}: left out {count} with a blank side (line {lines})." if blank else "", origin)


def _header(path: str, first_row: list[str], source: str, target: str) -> tuple[str, ...] | None:
    """Return the column names with languages as codes if the row names both languages; otherwise return None."""
    words = "text|sentence|translation"  # as in text_de or de_sentence
    cells = [
        re.sub(rf"^[\W_]*(?:(?:{words})[_.-])?|[_.-](?:{words})$", "", cell.strip().casefold()) for cell in first_row
    ]
    cells = [re.sub(r"^([a-z]{2,3})[-_]\w{2,4}$", r"\1", cell) for cell in cells]
    columns = list(cells)
    named = {language for language, names in _COLUMN_NAMES.items() if names.intersection(cells)}
    if len(named) > 1 and not named.union(cells) >= {source, target}:
        found_columns = " and ".join(sorted(named))
        raise InputError(
            f"{path} has columns of {found_columns}. Give a table with columns {source} and {target}, or other "
            f"languages: source={min(named)}, target={max(named)}."
        )
    for language, others in ((source, {"source", "src"}), (target, {"target", "tgt", "trg"})):
        names = _COLUMN_NAMES.get(language, {language})
        found = [i for i, cell in enumerate(cells) if cell in (names if names.intersection(cells) else others)]
        if len(found) != 1:
            return None
        columns[found[0]] = language
    return tuple(columns)


def _row(path: str, number: int, cells: list[str], columns: tuple[str, ...], source: str, target: str) -> Pair:
    if len(cells) == len(columns):
        return cells[columns.index(source)], cells[columns.index(target)]
    if not "".join(cells).strip():
        return "", ""  # a blank row is counted and left out like a blank line
    raise InputError(
        f"{path}, line {number:,}: {len(cells)} column{'s' if len(cells) > 1 else ''} where {len(columns)} are "
        f"expected ({'<TAB>'.join(columns)}). Columns are separated by one tab. If the table has other columns, "
        f"name all columns in its first row, for example {target}<TAB>{source}<TAB>origin."
    )


def _open_member(file: BinaryIO) -> Any:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise zipfile.BadZipFile(f"it holds {len(names)} files instead of one text")
    return archive.open(names[0])


#: For each kind of packed file, how it begins and the function that opens it; None if handloom can't read it.
_KINDS: dict[str, tuple[bytes, Callable[[BinaryIO], Any] | None]] = {
    "gzip": (rb"\x1f\x8b", gzip.open), "bzip2": (rb"BZh\d1AY&SY", bz2.open), "xz": (rb"\xfd7zXZ\x00", lzma.open),
    "zip": (rb"PK\x03\x04", _open_member), "zstd": (rb"\x28\xb5\x2f\xfd", None), "7z": (rb"7z\xbc\xaf\x27\x1c", None),
    "rar": (rb"Rar!\x1a", None), "PDF": (rb"%PDF-", None), "Parquet": (rb"PAR1", None), "tar": (rb".{257}ustar", None),
}  # fmt: skip


@contextmanager
def _open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or packed file for reading, and raise InputError for errors in opening or reading it."""
    kind = ""
    try:
        with open_file(path) as file:
            start = file.read(300)
            kind = next((kind for kind, (magic, _) in _KINDS.items() if re.match(magic, start, re.DOTALL)), "")
            file.seek(0)
            if kind and (opener := _KINDS[kind][1]):
                with opener(file) as unpacked:
                    yield unpacked
            elif kind:
                raise InputError(
                    f"{path} is a {kind} file, which is not read. Save it as plain text, which may be packed as "
                    f"{', '.join(PACKED[1:])}."
                )
            elif path.suffix in PACKED[1:]:
                name = {".gz": "gzip"}.get(path.suffix, path.suffix[1:])
                raise InputError(
                    f"{path} is named {path.suffix} but is not a {name} file. A failed download often leaves a web "
                    f"page under its name: download it again, or remove {path.suffix} from the name of a plain text."
                )
            else:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
        raise InputError(
            f"{path} is a damaged or truncated {kind} file ({error}). Fetch or compress it again."
        ) from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None


def _not_utf8(path: str, number: int, offset: int, raw: bytes, error: UnicodeDecodeError) -> str:
    bom = len(raw) - len(raw.removeprefix(_UTF8_BOM))
    column = bom + error.start
    return (
        f"{path}, line {number:,}, byte {column + 1:,} of the line (byte {offset + column + 1:,} of the text): "
        f"0x{raw[column]:02x} is not valid UTF-8 here ({error.reason}). If the file is Latin-1 or Windows-1252, "
        f"convert it: iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(path)} > NEW_FILE"
    )


def read_tables(module: str, name: str) -> dict[str, Rows]:
    """Read the rows of cells, by section, of a text file. Two or more blanks separate cells; "-" is an empty one."""
    tables: dict[str, Rows] = {}
    for line in (Path(module).parent / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(["" if cell == "-" else cell for cell in re.split(r"\s{2,}", line)])
    return tables


def sections(tables: dict[str, Rows], kind: str) -> dict[str, Rows]:
    """Return the sections that are called "kind: name", by name."""
    return {name.removeprefix(f"{kind}: "): rows for name, rows in tables.items() if name.startswith(f"{kind}: ")}


def distinct(items: Iterable[T], key: Callable[[T], str], count: int) -> list[T]:
    """Return the first `count` items whose keys are different; of items with the same key, the first one."""
    found: dict[str, T] = {}
    for item in items:
        found.setdefault(key(item), item)
        if len(found) == count:
            break
    return list(found.values())
