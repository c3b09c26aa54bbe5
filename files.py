"""Reading and writing files: bounded reads of regular files, atomic writes, and JSON."""

from __future__ import annotations

import io
import json
import math
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from .errors import InputError, remedy

LARGEST_JSON = 1 << 28  # bytes; the largest tokenizers have a tenth


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file to write to; `path` appears, or changes, when the block ends without an error.

    The bytes go to a temporary file in the same folder, which is synced and then renamed (`os.replace`). After a crash
    at any moment `path` is the old file or the new one, never a part of one. The temporary name is fixed, so the next
    write replaces the leftover of a killed process. A symbolic link is followed. A device, a pipe and the file behind
    standard output or standard error are written to, not replaced.

    Raises:
        InputError: the disk is full, the folder is missing or read-only, or another failure to write; an older file
            under `path` is unchanged.
    """
    path, kept = Path(path), ""
    if not path.name:
        raise InputError(f"{path} is a folder: name a file in it.")
    try:
        mode = path.stat().st_mode if path.exists() else stat.S_IFREG
        stream = _standard_stream(path)
        if stream or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            content = io.BytesIO()
            yield content
            if stream and sys.stdout is not None:
                sys.stdout.flush()
            with open(stream or path, "wb", closefd=not stream) as file:
                file.write(content.getbuffer())
            return
        kept = "The file that was there is unchanged. " if path.exists() else ""
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        temporary = target.with_name(temporary_name(target.name))
        temporary.unlink(missing_ok=True)  # a link of that name would be written through
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
            kept = ""
            sync_folder(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path} could not be written: {error.strerror or error}. {kept}{remedy(error)}"
        ) from error


def _standard_stream(path: Path) -> int:
    """Return 1 or 2 if the path is the file of standard output or standard error, such as /dev/stdout, else 0."""
    for number in (1, 2):
        try:
            if os.path.samestat(path.stat(), os.fstat(number)):
                return number
        except OSError:  # no such file, or a closed stream
            continue
    return 0


def temporary_name(name: str) -> str:
    """Return the hidden name under which `name` is written before it is renamed."""
    return f".{name}.tmp"


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, atomically.

    An unpaired surrogate, as in a path that is not UTF-8, becomes an escape such as \\udcff, which JSON reads back.
    Raises InputError as `atomic_file`.
    """
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | Path, value: Any, *, indent: int = 2) -> None:
    """Write `value` as indented JSON, atomically.

    Raises:
        InputError: as `atomic_file`.
        TypeError, ValueError: `value` holds something that JSON can't represent, such as NaN.
    """
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading.

    A file of size 0 counts as empty: files in /proc have no size, and reading them may never end.

    Raises:
        InputError: the file is missing or can't be opened, or it is a folder, a device or a pipe.
    """
    try:
        found = os.stat(path)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise InputError(f"{path} is a device or a pipe, which may never end. Name a regular file.")
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        if found.st_size:
            return file
        file.close()
        return io.BytesIO()
    except FileNotFoundError:
        raise InputError(f"The file {path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} can't be read: it is a folder. Name a file in it.") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None


def read_bytes(path: str | Path, most: int = LARGEST_JSON) -> bytes:
    """Return the content of a regular file.

    Raises:
        InputError: as `open_file`, or the file has more than `most` bytes.
    """
    try:
        with open_file(path) as file:
            size = os.stat(path).st_size
            if size > most:
                raise InputError(f"{path} has {size:,} bytes; more than {most:,} are not read. Restore a copy.")
            return file.read(size)  # bytes that are appended meanwhile don't count
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file that must hold one JSON object.

    Raises:
        InputError: as `read_bytes` and `parse_json`, or the value is not an object.
    """
    value = parse_json(read_bytes(path), str(path))
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise InputError(f"{path} holds a JSON {kind} where an object is expected. Restore the file from a copy.")
    return value


def parse_json(text: str | bytes, name: str, cure: str = "Restore a copy: it was edited or cut short.") -> Any:
    """Return the value of a JSON text, whose numbers must be finite; `name` and `cure` are for the message.

    Raises:
        InputError: the text is not UTF-8 or not JSON, nested too deep, or holds NaN, infinity, a number too large for a
            float or a whole number of more digits than Python converts (4,300).
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        reason = "it is nested too deep"
    except UnicodeDecodeError as error:
        reason = f"its byte {error.start + 1:,} is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}: {error.msg}"
    except ValueError as error:
        reason = str(error).partition(";")[0]
    raise InputError(f"{name} is not valid JSON: {reason}. {cure}")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text[:40])


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number} is not a finite number")


def is_link(path: Path) -> bool:
    """Return whether the path itself is a symbolic link, or a junction of Windows (from Python 3.12 on)."""
    return path.is_symlink() or bool(getattr(os.path, "isjunction", lambda path: False)(path))


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries are on disk."""
    if os.name != "posix":  # Windows can't open a folder, and its rename is durable without
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
