"""The exception InputError for unusable input, and parts of messages: advice, similar names, lists of texts, values."""

import difflib
import errno
import reprlib
from collections.abc import Iterable
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = 60


class InputError(ValueError):
    """A problem in a file, option or text that the user gave.

    The message is one paragraph that names the cause and the remedy. The examples print this message without a
    traceback, and exit with code 2.
    """


class SettingError(SystemExit, InputError):
    """An environment variable with a wrong value. It is found while modules are imported, before a program can catch
    errors. Because it is a SystemExit, it ends the program with the message, without a traceback and with code 1.
    """


def remedy(error: OSError) -> str:
    """Return a sentence that says what the user can do about a file that can't be written or reached."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Make room on the disk, or choose another folder."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Check the permissions there, or choose another folder."
    return "Choose another path."


def several(texts: Any) -> list[str]:
    """Return the texts in a list. Raises InputError for a single text, which would be taken for a list of its letters,
    and for an item that is no text.
    """
    if isinstance(texts, str | bytes):
        raise InputError(f"Give a list of texts, not the single text {texts[:40]!r}.")
    if not isinstance(texts, Iterable):
        raise InputError(f"Give a list of texts, not {short(texts)}.")
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise InputError(f"Text {number} is {short(text)}, of type {type(text).__name__}. Give texts of type str.")
    return texts


def short(value: Any) -> str:
    """Return the repr of a value, abridged if it is long or deep."""
    return _SHORT.repr(value)


def printable(text: str) -> str:
    """Return `text` with its control characters and unusual white space written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def near(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return "Did you mean X?" with the known name that is most like an unknown one, or else `otherwise`."""
    close = difflib.get_close_matches(name, [*known], 1)
    return f"Did you mean {close[0]}?" if close else otherwise
