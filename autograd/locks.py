"""Locks that may meet a signal handler and a fork.

A signal handler runs between two instructions of the main thread, which may hold a lock, so every lock is re-entrant.
A fork copies the locks that other threads hold, and nobody would release the copies, so a fork waits for all locks and
releases them in both processes.
"""

import os
import threading

_locks: list[threading.RLock] = []  # in the order in which a thread that needs several takes them


def new_lock() -> "threading.RLock":
    """Return a lock for the whole process, made when its module is imported."""
    _locks.append(threading.RLock())
    return _locks[-1]


def _take() -> None:
    for lock in _locks:
        lock.acquire()


def _release() -> None:
    for lock in reversed(_locks):
        lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)
