"""Files that appear whole or not at all: written beside the old file, synced to disk, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import InputError, remedy


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on leaving the block without an error it replaces `path`.

    Rename is atomic on POSIX and on Windows (`os.replace`): a reader, or a crash at any moment, sees the old file or
    the new one, never a part. The file's bytes are synced before the rename and the folder's entry after it. The
    temporary name is fixed, so that what a killed process left behind is replaced by the next write. A symbolic link
    `path` is replaced itself.

    Raises:
        InputError: the disk is full, the folder is missing or read-only, or another failure to write; what stood under
            `path` before is untouched.
    """
    path = Path(path)
    if not path.name:
        raise InputError(f"{path} is a folder: name a file in it.")
    temporary = path.with_name(temporary_name(path.name))
    kept = "The file that was there is untouched. " if path.exists() else ""
    try:
        temporary.unlink(missing_ok=True)  # a link of that name would be written through
        try:
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            kept = ""
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path} could not be written: {error.strerror or error}. {kept}{remedy(error)}"
        ) from error


def temporary_name(name: str) -> str:
    """The hidden name under which `name` is written before it is renamed."""
    return f".{name}.tmp"


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically.

    Raises:
        InputError: as `atomic_path`.
        TypeError, ValueError: `value` holds something JSON can't, NaN and infinity included.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with atomic_path(path) as temporary:
        # Half of a surrogate pair, as in a path that is not UTF-8, becomes \\udcff: an escape that JSON reads back.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file that must hold one JSON object.

    Raises:
        InputError: the file is missing, unreadable, not UTF-8, not JSON, or its value is not an object.
    """
    try:
        value = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise InputError(f"The file {path} does not exist. Check the path.") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None
    except RecursionError:
        raise InputError(f"{path} can't be read: its JSON is nested too deep. Restore a copy.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}. Restore the file from "
            "a copy; it may have been edited or cut short."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not JSON: its byte {error.start + 1:,} is not UTF-8. Restore a copy.") from None
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise InputError(
            f"{path} holds a JSON {kind} where an object {{...}} is expected. Restore the file from a copy."
        )
    return value


def is_link(path: Path) -> bool:
    """Whether the path itself is a symbolic link, or a junction of Windows (which Python knows from 3.12 on)."""
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
