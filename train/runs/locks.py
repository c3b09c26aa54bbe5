"""One process writes into a folder at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import warnings
import weakref
from pathlib import Path

from ...errors import InputError

LOCK_FILE = ".handloom.lock"

_held: set[int] = set()  # file descriptors of this process's locks


class FolderInUseError(InputError):
    """Another process, or another object of this one, holds the folder's lock."""


class FolderLock:
    """The only writer of a folder, until `release`, the end of a `with` block, or the end of the process.

    The operating system holds the lock (flock, on Windows msvcrt.locking) on the file `.handloom.lock`, which says who
    has it and is removed by `release`. A killed process leaves the file behind, but no lock. On a file system without
    locks there is a warning, and no protection. Processes that this one forks have no part in the lock.

    Raises:
        FolderInUseError: with the holder's process id and machine.
        InputError: the folder can't be written to.
    """

    def __init__(self, folder: str | Path):
        path = Path(folder) / LOCK_FILE
        try:
            descriptor = _acquire(path)
            _held.add(descriptor)
            self.release = weakref.finalize(self, _release, path, descriptor)
            with contextlib.suppress(OSError):  # a full disk: the holder stays unnamed
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode())
        except OSError as error:
            raise InputError(
                f"The folder {folder} can't be locked for writing: {error.strerror or error}. Make room on the disk, "
                "or choose another folder."
            ) from None

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _acquire(path: Path) -> int:
    while True:
        # Never through a link; the holder's name is written into the file.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            _lock(descriptor, path)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the holder removed the file as we opened it: our lock is on nothing


def _lock(descriptor: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # behind the holder's name, which others may read
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except PermissionError:
                raise BlockingIOError from None
            finally:
                os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
        raise FolderInUseError(
            f"{path.parent} is in use by {holder}: two processes in one folder would mix up their files. Wait until it "
            "ends or stop it, or choose another folder."
        ) from None
    except (ImportError, OSError) as error:
        warnings.warn(
            f"{path.parent} can't be locked here ({error}): see to it that no other process writes there.", stacklevel=4
        )


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(path: Path, descriptor: int) -> None:
    if descriptor not in _held:
        return  # this process was forked by the holder
    _held.remove(descriptor)
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            os.close(descriptor)  # an open file can't be removed there
            path.unlink()
        else:
            if _is_at(path, descriptor):
                path.unlink()  # while it is locked: whoever opened it meanwhile notices
            os.close(descriptor)


def _let_go() -> None:
    """In a forked child: its copies of the descriptors would hold the locks when the parent has died."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
