"""Shared code of the benchmarks: subjects in separate processes, interleaved measurements, and files of results.

handloom and the library that it is compared with run in separate processes, because the threads of one library would
disturb the other.
"""

import argparse
import contextlib
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from handloom.train.runs.results import machine, versions

#: Environment variables that select kernels or threads of a linear algebra library, NumPy or PyTorch.
SELECTING = (
    "OPENBLAS", "GOTO_", "MKL_", "BLIS_", "VECLIB_", "OMP_", "GOMP_", "KMP_", "ONEDNN_", "DNNL_", "ATEN_CPU_",
    "NPY_DISABLE_CPU", "NPY_ENABLE_CPU",
)  # fmt: skip
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def worker_environment(threads: int) -> dict[str, str]:
    """Return a copy of the environment with `threads` threads and without variables that select kernels."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith(SELECTING)}
    return rest | dict.fromkeys(THREADS, str(threads))


class Worker:
    """An object `module.NAME(*arguments)` in a separate process. `ask` calls a method of the object. Arguments and
    results are sent as JSON. A worker is a context manager; leaving the context ends the process.
    """

    def __init__(self, subject: Callable[..., Any], arguments: Sequence[Any], environment: Mapping[str, str]):
        self.name = f"{subject.__name__} {' '.join(map(str, arguments))}"[:100]
        module = subject.__module__ if subject.__module__ != "__main__" else f"benchmarks.{Path(sys.argv[0]).stem}"
        made = [module, subject.__name__, json.dumps(arguments)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side_by_side", *made],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment),
        )  # fmt: skip

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the result of a method. Raises SystemExit if the process has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([method, arguments]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.name} ended in {method!r}: see its message above")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._process:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()


@contextlib.contextmanager
def started(subjects: Mapping[str, tuple[Any, ...]], environment: Mapping[str, str]) -> Iterator[dict[str, Worker]]:
    """Yield a worker for each name; each value of `subjects` is a class and its arguments."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(Worker(subject, arguments, environment))
            for name, (subject, *arguments) in subjects.items()
        }


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


class Disturbance:
    """The share of the processors' time that other programs use during a measurement (Linux; else nan).

    It is a context manager around the workers, because the time that a worker used is known only after it has ended.
    """

    share = float("nan")

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(self, *exception: object) -> None:
        busy, total, own = (now - then for now, then in zip(self._read(), self._before, strict=True))
        if total > 0:
            self.share = round(max(busy - own, 0.0) / total, 3)

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Return the busy seconds and the total seconds of all processors, and the seconds that this program used."""
        stat = Path("/proc/stat")
        ticks = [int(x) for x in stat.read_text().partition("\n")[0].split()[1:9]] if stat.exists() else [0] * 8
        unit = os.sysconf("SC_CLK_TCK") if ticks[0] else 1
        return (sum(ticks) - ticks[3] - ticks[4]) / unit, sum(ticks) / unit, processor_time()


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
        cores = machine()["cores"]
        parser.add_argument(
            "--threads", type=int, choices=range(1, cores + 1), default=min(threads, cores), metavar="N",
            help=f"threads of each library, from 1 to {cores} on this machine (default: {min(threads, cores)})",
        )  # fmt: skip
    return parser


def missing(device: str = "cpu") -> str | None:
    """Return the reason why a benchmark can't run on this device against PyTorch, or None."""
    from handloom.autograd.backend import DeviceError, check_device  # workers of other libraries don't need it

    try:
        check_device(device)
    except DeviceError as error:
        return f"{error}; without --device cuda the CPU is measured"
    if find_spec("torch") is None:
        return "PyTorch, with which handloom is compared, is not installed: pip install torch"
    if device == "cuda":
        import torch as library

        if not library.cuda.is_available():
            return f"the PyTorch installed here, {library.__version__}, finds no GPU: install one built for CUDA"
    return None


def command() -> str:
    """Return the command line of this program without --json FILE, which is a path of one machine."""
    line = shlex.join(["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    return re.sub(r" --json[ =]('[^']*'|\S+)", "", line)


def conditions(*packages: str) -> dict[str, Any]:
    """Return the fields of a results row that describe how and where it was measured."""
    return {
        "command": command(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": machine(),
        "versions": versions("handloom", "numpy", *packages),
    }


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


def serve(module: str, name: str, arguments: str) -> None:
    """Create the subject, and call the methods that the lines of standard input name, until the input ends."""
    subject = getattr(importlib.import_module(module), name)(*json.loads(arguments))
    for line in sys.stdin:
        method, values = json.loads(line)
        print(json.dumps(getattr(subject, method)(*values)), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
