"""Shared code of the benchmarks: subjects in separate processes, interleaved measurements, and files of results.

handloom and the library that it is compared with run in separate processes, because the threads of one library would
disturb the other.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

from handloom.train.runs.results import machine, revision, versions

#: Environment variables that select kernels or threads of a linear algebra library, NumPy or PyTorch.
SELECTING = (
    "OPENBLAS", "GOTO_", "MKL_", "BLIS_", "VECLIB_", "OMP_", "GOMP_", "KMP_", "ONEDNN_", "DNNL_", "ATEN_CPU_",
    "NPY_DISABLE_CPU", "NPY_ENABLE_CPU",
)  # fmt: skip
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Worker(ProcessPoolExecutor):
    """An object `subject(*arguments)` in a separate process. `ask` calls a method of the object."""

    def __init__(self, subject: Callable[..., Any], *arguments: Any):
        super().__init__(1, get_context("spawn"), _create, (subject, arguments))

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the result of a method."""
        return self.submit(_ask, method, arguments).result()


def _create(subject: Callable[..., Any], arguments: Sequence[Any]) -> None:
    global _subject
    _subject = subject(*arguments)


def _ask(method: str, arguments: Sequence[Any]) -> Any:
    return getattr(_subject, method)(*arguments)


@contextlib.contextmanager
def started(subjects: Mapping[str, tuple[Any, ...]], threads: int) -> Iterator[dict[str, Worker]]:
    """Yield a worker for each name; each value of `subjects` is a class and its arguments. The workers have `threads`
    threads and no variables that select kernels.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SELECTING)}
    kept |= dict.fromkeys(THREADS, str(threads))
    with mock.patch.dict(os.environ, kept, clear=True), contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Worker(*subject)) for name, subject in subjects.items()}


def interleaved(workers: Mapping[str, Worker], rounds: int, method: str, *arguments: Any) -> dict[str, list[Any]]:
    """Call a method of all workers in several rounds, and return the results of each worker. The order of the workers
    is reversed in every second round.
    """
    answers: dict[str, list[Any]] = {name: [] for name in workers}
    for number in range(rounds):
        for name in list(workers) if number % 2 == 0 else list(workers)[::-1]:
            time.sleep(0.2)  # the threads of the previous worker become idle
            answers[name].append(workers[name].ask(method, *arguments))
    return answers


def processor_time() -> float:
    """Return the processor seconds of this process (all threads) and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak_memory() -> float:
    """Return the largest resident memory of this process since `reset_peak_memory`, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def program(description: str | None, *, threads: int | None = None) -> argparse.ArgumentParser:
    """Return a parser with --json and, if a default is given, --threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file")
    if threads is not None:
        words = f"threads of each library (default: {threads})"
        parser.add_argument("--threads", type=int, default=threads, metavar="N", help=words)
    return parser


def command() -> str:
    """Return the command line of this program without --json FILE, which is a path of one machine."""
    line = shlex.join(["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    return re.sub(r" --json[ =]('[^']*'|\S+)", "", line)


def conditions(*packages: str) -> dict[str, Any]:
    """Return the fields of a results row that describe how and where it was measured."""
    return {
        "command": command(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "revision": revision(),
        "machine": machine(),
        "versions": versions("handloom", "numpy", *packages),
    }


def write_report(file: Path | None, **tables: Any) -> None:
    """Write tables of `docs/reports/`, with the command, its processor time, revision, machine and versions."""
    write_results(file, {"processor_minutes": round(processor_time() / 60, 1), **conditions(), **tables})


def merge_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows as JSON; rows of other configurations in the file are kept."""
    old = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    new = {row["config"] for row in rows}
    write_results(file, {"rows": [*(row for row in old if row["config"] not in new), *rows]})


def write_results(file: Path | None, value: Any) -> None:
    """Write JSON in which each value that fits on a line is on one line. Without a file, nothing is written."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_lines(value, "") + "\n", encoding="utf-8")


def _lines(value: Any, indent: str) -> str:
    line = json.dumps(value)
    if len(indent) + len(line) < 120 or not isinstance(value, (list, dict)):
        return line
    named = [(f"{json.dumps(name)}: ", part) for name, part in value.items()] if isinstance(value, dict) else None
    parts = [name + _lines(part, indent + " ") for name, part in named or [("", part) for part in value]]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return opening + "".join(f"\n{indent} {part}," for part in parts).removesuffix(",") + f"\n{indent}{closing}"
