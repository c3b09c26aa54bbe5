"""Run handloom commands without the names, modules and files that Windows lacks.

    python no_posix.py [--interrupt N] WORDS... [then WORDS...]

Names are removed from `os` and `signal`, modules can't be imported, and /proc and /sys can't be read. With --interrupt,
a training run receives Ctrl-C at update N. Other libraries are imported first, because only handloom is tested.
"""

import builtins
import concurrent.futures
import io
import logging.handlers
import multiprocessing.connection
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from typing import Any

import filelock
import matplotlib.pyplot
import nltk
import numpy
import sacrebleu
import tqdm

LOADED = (concurrent.futures, logging, multiprocessing, random, shutil, subprocess, tempfile, threading, uuid)
LIBRARIES = (filelock, matplotlib.pyplot, nltk, numpy, sacrebleu, tqdm)
OF_OS = (
    "fork", "forkpty", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "getuid", "geteuid", "getpgid",
    "setsid", "killpg", "mkfifo", "nice", "getloadavg", "uname", "statvfs", "sysconf", "wait4", "pipe2", "O_NONBLOCK",
    "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "fchmod", "chown", "fchown", "posix_fallocate", "getresuid",
)  # fmt: skip
OF_SIGNAL = (
    "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "SIGSTOP", "SIGTSTP",
    "SIGCONT", "SIGXCPU", "setitimer", "alarm", "pthread_kill", "pthread_sigmask", "sigwait", "siginterrupt",
)  # fmt: skip
MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline")


def hide() -> None:
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    filelock.FileLock = filelock.SoftFileLock  # type: ignore[misc] - the other is by fcntl, or Windows's
    subprocess.Popen.kill = subprocess.Popen.terminate  # type: ignore[method-assign]
    opened = io.open

    def windows_open(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", file)
        return opened(file, *arguments, **options)

    builtins.open = io.open = windows_open  # type: ignore[assignment]


def interrupt_at(number: int) -> None:
    """Raise SIGINT (Ctrl-C) at the beginning of update `number`."""
    from handloom.train.updates import Updates

    made, update = [0], Updates.update

    def interrupted(self: Updates, *arguments: Any, **options: Any) -> Any:
        made[0] += 1
        if made[0] == number:
            signal.raise_signal(signal.SIGINT)
        return update(self, *arguments, **options)

    Updates.update = interrupted  # type: ignore[method-assign]


if __name__ == "__main__":
    words = sys.argv[1:]
    hide()
    if words[0] == "--interrupt":
        interrupt_at(int(words[1]))
        words = words[2:]
    from handloom.__main__ import run

    code: Any = None
    while words and not code:
        end = words.index("then") if "then" in words else len(words)
        try:
            code = run(words[:end])
        except SystemExit as ended:
            code = ended.code
        words = words[end + 1 :]
    sys.exit(code)
