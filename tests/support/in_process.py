"""Runs command lines of the examples in this process: hundreds of them take one start of Python."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from handloom.train.cli.command_line import run_main
from tests.support.examples import EXAMPLES

MODULES = {"report": "handloom.train.report", "sweep": "handloom.train.sweep"}


@dataclass
class Done:
    """The result of a command line: exit code, standard output and error, and the traceback of an uncaught error."""

    code: int
    out: str
    err: str
    traceback: str = ""

    def complaint(self) -> str:
        """The error message, "" for success. Raises AssertionError unless it is one line, with exit code 2."""
        assert not self.traceback, self.traceback
        assert "Traceback" not in self.err + self.out, self.err
        lines = [line for line in self.err.splitlines() if line and not line.startswith("warning: ")]
        if lines and lines[-1].startswith("usage: "):
            lines.pop()
        if self.code == 0:
            assert not [line for line in lines if line.startswith("error")], self.err
            return ""
        assert self.code == 2, f"exit code {self.code}: {self.err}"
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        assert len(lines[0]) < 900, self.err
        return lines[0]


@cache
def load(program: str) -> ModuleType:
    """An example, or a module of MODULES, imported without running its `__main__` part."""
    if program in MODULES:
        return importlib.import_module(MODULES[program])
    spec = importlib.util.spec_from_file_location(f"example_{program}", EXAMPLES / f"{program}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for dataclasses in it
    spec.loader.exec_module(module)
    return module


def run(program: str, *arguments: object, folder: Path, stdin: bytes = b"") -> Done:
    """Run a program in `folder` as its command line would, without network data, and restore this process after it."""
    main: Callable[[], None] = load(program).main
    with _as_a_process([f"{program}.py", *map(str, arguments)], folder, stdin) as (out, err):
        code, failure = 0, ""
        try:
            run_main(main)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            code, failure = 1, traceback.format_exc()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        return Done(code, out.getvalue().decode(), err.getvalue().decode(), failure)


@contextlib.contextmanager
def _as_a_process(argv: list[str], folder: Path, stdin: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    kept = os.environ.copy(), os.getcwd(), sys.argv, sys.stdin, sys.stdout, sys.stderr, signal.getsignal(signal.SIGTERM)
    environment, folder_before, *_ = kept
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)  # NumPy's: something was infinite or NaN
        try:
            os.environ.pop("HANDLOOM_DATA", None)
            os.chdir(folder)
            sys.argv = argv
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
            # Not closed when they are garbage-collected: their buffers are read afterwards.
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Raw(out)), encoding="utf-8")
            sys.stderr = io.TextIOWrapper(io.BufferedWriter(_Raw(err)), encoding="utf-8")
            yield out, err
        finally:
            os.chdir(folder_before)
            os.environ.clear()
            os.environ.update(environment)
            _, _, sys.argv, sys.stdin, sys.stdout, sys.stderr, handler = kept
            signal.signal(signal.SIGTERM, handler)


class _Raw(io.RawIOBase):
    def __init__(self, buffer: io.BytesIO):
        self.buffer = buffer

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self.buffer.write(data)


def tree_digest(folder: Path) -> str:
    """A checksum of all names, links and bytes below a folder."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        total.update(os.fsencode(path.relative_to(folder)) + b"\0")
        if path.is_symlink():
            total.update(b"link " + os.fsencode(os.readlink(path)))
        elif path.is_file():
            total.update(b"file " + hashlib.sha256(path.read_bytes()).digest())
        else:
            total.update(b"other")
    return total.hexdigest()
