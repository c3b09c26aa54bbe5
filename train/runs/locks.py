"""Locks that allow only one process to write into a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from ...errors import InputError, remedy

LOCK_FILE = ".handloom.lock"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FolderInUseError(InputError):
    """Raised if another process, or another object of this process, has locked the folder."""


@contextlib.contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Lock the folder, so that this process is its only writer within the block.

    The operating system locks the file `.handloom.lock`, and releases the lock when the process ends, even after a
    crash. On a file system without locks there is a warning and no protection.

    Raises:
        FolderInUseError: another process holds the lock.
        InputError: the folder can't be written to.
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
