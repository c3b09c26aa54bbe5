"""Shared by the benchmarks of training: worker processes that take turns, their environment, the proof of equal work.

handloom and PyTorch never share a process: the threads of one would spin while the other is measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Variables that choose the kernels or the threads of a linear algebra library, of NumPy or of PyTorch.
SELECTING = (
    "OPENBLAS", "GOTO_", "MKL_", "BLIS_", "VECLIB_", "OMP_", "GOMP_", "KMP_", "ONEDNN_", "DNNL_", "ATEN_CPU_",
    "NPY_DISABLE_CPU", "NPY_ENABLE_CPU",
)  # fmt: skip
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def selecting_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that choose kernels, without thread counts, which the benchmark sets itself."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(SELECTING) and not name.endswith("_NUM_THREADS")
    }


def worker_environment(threads: int, *, keep_selecting: bool = False) -> dict[str, str]:
    """This process's environment with `threads` threads, and without variables that select kernels unless kept."""
    kept = selecting_variables(os.environ) if keep_selecting else {}
    rest = {name: value for name, value in os.environ.items() if not name.startswith(SELECTING)}
    return rest | kept | dict.fromkeys(THREADS, str(threads))


class Worker:
    """A process that answers each line it is sent with a line of JSON. A context manager: it ends the process."""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]):
        self.name = " ".join(arguments[:2])
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment),
        )  # fmt: skip

    def ask(self, command: str) -> Any:
        """The answer to one command. Raises SystemExit if the process has died; its message is on standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that measures {self.name} ended at {command!r}: see its message above")
        return json.loads(answer)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Disturbance:
    """The share of the processors' time that other programs take during a measurement (Linux; else nan).

    A context manager around the life of the workers: their own time is known once they have ended.
    """

    share = float("nan")

    def __enter__(self) -> Disturbance:
        self._before = self._read()
        return self

    def __exit__(self, *exception: object) -> None:
        busy, total, own = (now - then for now, then in zip(self._read(), self._before, strict=True))
        if total > 0:
            self.share = round(max(busy - own, 0.0) / total, 3)

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds that all processors were busy, seconds in all, and seconds that this program used."""
        stat = Path("/proc/stat")
        ticks = [int(x) for x in stat.read_text().partition("\n")[0].split()[1:9]] if stat.exists() else [0] * 8
        used = os.times()
        own = used.user + used.system + used.children_user + used.children_system
        unit = os.sysconf("SC_CLK_TCK") if ticks[0] else 1
        return (sum(ticks) - ticks[3] - ticks[4]) / unit, sum(ticks) / unit, own


def take_turns(
    workers: Mapping[str, Worker], steps: int, at_once: int = 3, pause: float = 0.2
) -> dict[str, list[float]]:
    """Seconds of `steps` training steps of each worker: `at_once` steps of one, then of the next, and back again.

    The pause lets the threads of the previous worker fall asleep.
    """
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    names = list(workers)
    while len(seconds[names[-1]]) < steps:
        count = min(at_once, steps - len(seconds[names[0]]))
        for name in names if len(seconds[names[0]]) // at_once % 2 == 0 else names[::-1]:
            time.sleep(pause)
            seconds[name] += workers[name].ask(f"steps {count}")
    return seconds


def compare_gradients(ours: Path, theirs: Path) -> dict[str, Any]:
    """The differences of two files of `loss` and gradients, relative to the norm of each gradient.

    By the norm, because an activation within rounding of ReLU's kink may flip, which changes one row of a gradient.
    """
    with np.load(ours) as a, np.load(theirs) as b:
        if set(a.files) != set(b.files):
            raise SystemExit(f"the two models have different parameters: {sorted(set(a.files) ^ set(b.files))}")
        loss = abs(float(a["loss"]) - float(b["loss"])) / abs(float(b["loss"]))
        differences = {
            name: float(np.linalg.norm(a[name] - b[name]) / np.linalg.norm(b[name]))
            for name in a.files
            if name != "loss"
        }
    worst = max(differences, key=lambda name: differences[name])
    median = statistics.median(differences.values())
    return {"loss": loss, "gradient": differences[worst], "parameter": worst, "median_gradient": median}


def agree(difference: Mapping[str, Any]) -> bool:
    """Whether the losses agree to 1e-5 and the gradients to 1e-3 (the median parameter's), all to 1e-2."""
    return difference["loss"] < 1e-5 and difference["median_gradient"] < 1e-3 and difference["gradient"] < 1e-2


def require_equal(difference: Mapping[str, Any]) -> None:
    """Raise SystemExit unless they agree."""
    if not agree(difference):
        raise SystemExit(
            f"not the same work: without dropout the losses differ by {difference['loss']:.1e} and the gradients of "
            f"{difference['parameter']} by {difference['gradient']:.1e} of its norm"
        )


def summary(
    seconds: Mapping[str, Sequence[float]], memory: Mapping[str, float], beside: Sequence[str] = ()
) -> dict[str, Any]:
    """Medians, all single times and ratios; the ruler is the fastest of the others but for those in `beside`."""
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ruler = min((name for name in median if name not in ("handloom", *beside)), key=lambda name: median[name])
    return {
        "ruler": ruler,
        "ratio": round(median[ruler] / median["handloom"], 3),
        "ratio_of_shortest": round(min(seconds[ruler]) / min(seconds["handloom"]), 3),
        "memory_ratio": round(memory["handloom"] / memory[ruler], 3),
        "median_ms": {name: round(value * 1e3, 3) for name, value in median.items()},
        "all_ms": {name: [round(value * 1e3, 3) for value in values] for name, values in seconds.items()},
        "peak_mb": {name: round(value) for name, value in memory.items()},
    }


def merge_rows(file: Path, rows: Sequence[Mapping[str, Any]], key: str = "config") -> None:
    """Write the rows as JSON; rows of other configurations that the file already holds stay."""
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    new = {row[key] for row in rows}
    write_results(file, [*(row for row in old if row[key] not in new), *rows])


def write_results(file: Path, value: Any) -> None:
    """Write JSON in which what fits on a line is on one."""
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
