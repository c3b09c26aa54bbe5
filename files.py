"""Reading and writing files: bounded reads of regular files, atomic writes, JSON, and locks of folders."""

import contextlib
import errno
import json
import math
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from .errors import InputError, remedy

LARGEST_JSON = 1 << 28  # bytes; the largest tokenizer files have a tenth of this size


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file to write to; `path` is created or replaced when the block ends without an error.

    The bytes go to a temporary file in the same folder, which is synced and then renamed (`os.replace`). After a crash
    at any moment, `path` is either the complete old file or the complete new file. The temporary name is fixed, so the
    next write replaces the temporary file that a killed process left. If `path` is a symbolic link, its target is
    replaced.

    Raises InputError if the file can't be written, for example because the disk is full, or the folder is missing or
    read-only, or `path` is a device or a pipe; an older file under `path` is unchanged.
    """
    path, kept = Path(path), ""
    if not path.name:
        raise InputError(f"{path} is a folder: name a file in it.")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{path} is a device or a pipe. Name a regular file.")
        kept = "The file that was there is unchanged. " if path.exists() else ""
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        temporary = target.with_name(temporary_name(target.name))
        temporary.unlink(missing_ok=True)  # writing to a link of that name would change the link's target
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
        raise InputError(f"{path} could not be written: {error.strerror or error}. {kept}{remedy(error)}") from error


def temporary_name(name: str) -> str:
    """Return the hidden name under which `name` is written before it is renamed."""
    return f".{name}.tmp"


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, atomically.

    An unpaired surrogate, as in a path that is not UTF-8, is written as an escape such as \\udcff, which a JSON parser
    restores. Raises InputError like `atomic_file`.
    """
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | Path, value: Any, *, indent: int = 2) -> None:
    """Write `value` as indented JSON, atomically.

    Raises InputError as `atomic_file` does, TypeError or ValueError if JSON can't represent `value`, such as NaN.
    """
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises InputError if the file is missing or can't be opened, or it is a folder, a device or a pipe.
    """
    try:
        found = os.stat(path)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise InputError(f"{path} is a device or a pipe, which may never end. Name a regular file.")
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"The file {path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} can't be read: it is a folder. Name a file in it.") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None


def check_line_ends(first: bytes, name: str) -> None:
    """Raise InputError, with `name`, if the first line of a text is all of it and contains carriage returns."""
    if b"\r" in first.removesuffix(b"\r") and not first.endswith(b"\n"):
        raise InputError(
            f"{name} ends its lines with carriage returns only. Replace them by line feeds: tr '\\r' '\\n'."
        )


def read_bytes(path: str | Path, most: int = LARGEST_JSON) -> bytes:
    """Return the content of a regular file.

    Raises InputError as `open_file` does, and if the file has more than `most` bytes.
    """
    try:
        with open_file(path) as file:
            size = os.stat(path).st_size
            if size > most:
                raise InputError(f"{path} has {size:,} bytes; the limit is {most:,} bytes. Restore a copy.")
            return file.read(size)  # bytes that are appended in the meantime are not read
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the value of a file that must contain one JSON object.

    Raises InputError as `read_bytes` and `parse_json` do, and if the value is not an object.
    """
    value = parse_json(read_bytes(path), str(path))
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise InputError(f"{path} contains a JSON {kind} where an object is expected. Restore the file from a copy.")
    return value


def parse_json(text: str | bytes, name: str, cure: str = "Restore a copy: it was edited or cut short.") -> Any:
    """Return the value of a JSON text, whose numbers must be finite; `name` and `cure` are parts of the error message.

    Raises InputError if the text is not UTF-8, not JSON or nested too deep, or contains NaN, infinity, a number too
    large for a float, or a whole number with more digits than Python converts (4,300).
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


def make_folder(folder: str | Path) -> Path:
    """Make a folder and its parents if they don't exist.

    Raises InputError if a file has the folder's name, or the parent can't be written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"The folder {folder} can't be made: a file has this name. Choose another path.") from None
    except OSError as error:
        raise InputError(f"The folder {folder} can't be made: {error.strerror}. {remedy(error)}") from None
    return folder


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries are on disk."""
    if os.name != "posix":  # Windows can't open a folder, but a rename on Windows is durable without this call
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK_FILE = ".handloom.lock"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FolderInUseError(InputError):
    """Raised if another process, or another object of this process, has locked the folder."""


@contextlib.contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Lock the folder, so that this process is its only writer within the block.

    The operating system locks the file `.handloom.lock`, and releases the lock when the process ends, even after a
    crash. On a file system without locks there is a warning and no protection.

    Raises FolderInUseError if another process holds the lock, InputError if the folder can't be written to.
    """
    from filelock import FileLock, Timeout  # slow to import, and needed for writing only

    lock = FileLock(Path(folder) / LOCK_FILE, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by another process: two processes in one folder would mix up their files. Wait until "
            f"it ends or stop it, or choose another folder."
        ) from None
    except OSError as error:
        reason = error.strerror or error
        if error.errno not in _WITHOUT_LOCKS:
            raise InputError(f"The folder {folder} can't be locked for writing: {reason}. {remedy(error)}") from None
        warnings.warn(
            f"{folder} can't be locked here ({reason}): make sure that no other process writes there.", stacklevel=3
        )
    try:
        yield
    finally:
        if os.name != "nt":  # removed while it is locked: a FileLock that has opened the file notices this
            with contextlib.suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release()
