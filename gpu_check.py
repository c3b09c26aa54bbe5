"""Test and measure handloom on this GPU: python -m handloom.gpu_check

The check needs a machine with a CUDA GPU and a clone of the repository. It records a description of the machine, and
runs every test that is marked `gpu`, the checks and timings of benchmarks/gpu.py, and the benchmarks of attention and
of the training step. Each step runs in its own process with a time limit; the most important steps come first. A step
that fails runs again with CUDA_LAUNCH_BLOCKING=1 and, if compute-sanitizer is installed, under compute-sanitizer. After
every step, the results are written to `report.json`, the file to send to the project. Running the same command again
continues an interrupted check from this file.

    pip install -e '.[gpu,test]'            # or .[gpu-cuda12,test]; an installed PyTorch for CUDA is also measured
    python -m handloom.gpu_check            # takes an hour; --minutes 10 runs only the first steps

Exit code 0: all steps passed; 1: a step failed, see the report; 2: no step can run on this machine, and the reason is
printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .arguments import Parser, path
from .autograd.backend import DeviceError, check_device
from .errors import InputError
from .files import write_json, write_text
from .train.cli.command_line import run_main

ROOT = Path(__file__).resolve().parent
FORMAT = 2
_LINES, _LETTERS = 120, 20_000  # limits of a step's output in the report, which keeps its end
_TEST = re.compile(r"^(\S+\.py::[\w:]+(?:\[.*\])?) (PASSED|FAILED|ERROR|SKIPPED)?", re.MULTILINE)  # in pytest's output
_PERSONAL = re.compile(r"^.*(?:Serial|UUID|Board ID|GUID|Process ID|Name\s+: /).*\n", re.MULTILINE)  # of nvidia-smi


@dataclass(frozen=True)
class Step:
    """One program to run: name, arguments of Python, time limit in seconds, and the file of rows that it writes."""

    name: str
    arguments: tuple[str, ...]
    limit: float = 300.0
    writes: str = ""


@dataclass
class Outcome:
    """The outcome of a step. `tests` are counts by result; `culprits` are tests that failed or did not end."""

    name: str
    command: str
    code: int | str
    seconds: float
    output: str
    tests: dict[str, int] = field(default_factory=dict)
    culprits: list[str] = field(default_factory=list)
    rows: Any = None
    again: list[dict[str, Any]] = field(default_factory=list)


def steps(folder: Path) -> list[Step]:
    """Return the steps in the order of their importance."""

    def measured(name: str, limit: float) -> Step:
        return Step(name, ("-m", "benchmarks.gpu", name, "--json", str(folder / f"{name}.json")), limit, f"{name}.json")

    def benchmark(module: str, limit: float, *options: str) -> Step:
        words = ("-m", f"benchmarks.{module}", "--device", "cuda", "--json", str(folder / f"{module}.json"), *options)
        return Step(" ".join((module, *options)), words, limit, f"{module}.json")

    quick = "--lengths", "1024", "4096", "--rounds", "3"
    return [
        measured("environment", 60),
        Step("doctor", ("-m", "handloom.doctor"), 60),
        *(measured(name, 120) for name in ("kernels", "large", "repeats", "graphs")),
        *(tests(file) for file in files_with_gpu_tests()),
        benchmark("attention", 300, *quick),
        benchmark("train_step", 300, "--config", "classifier", "--steps", "20"),
        *(measured(name, 300) for name in ("far", "devices")),
        benchmark("train_step", 1800),
        benchmark("attention", 1800),
    ]


def tests(*which: str) -> Step:
    """Return the step that runs all tests or selected tests of a file."""
    words = "-m", "pytest", "-m", "gpu", "-v", "-n", "0", "--tb=short", "-o", "faulthandler_timeout=120", *which
    return Step(which[0], words, 900)


def files_with_gpu_tests(folder: str = "tests") -> list[str]:
    words = "-m", "pytest", "-m", "gpu", "--collect-only", "-q", "-n", "0", folder
    found = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True).stdout
    return list(dict.fromkeys(re.findall(r"^(\S+\.py)::", found, re.MULTILINE)))


def run(step: Step, folder: Path, limit: float, before: Sequence[str] = (), **variables: str) -> Outcome:
    """Run a step in the repository and show its output. After `limit` seconds all processes of the step are ended."""
    begin, log = time.monotonic(), folder / "output.txt"
    command = [*before, sys.executable, *step.arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | variables
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        code: int | str
        try:
            code = process.wait(limit)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as ended:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(ended, KeyboardInterrupt):
                raise
            code = f"no end within {limit:.0f} s"
    text = impersonal(log.read_text(encoding="utf-8", errors="replace"))
    log.unlink()
    last = "\n".join(text.splitlines()[-_LINES:])[-_LETTERS:]
    outcome = Outcome(step.name, impersonal(" ".join(command)), code, time.monotonic() - begin, last)
    results = _TEST.findall(text)
    outcome.tests = dict(Counter(result.lower() or "not ended" for _, result in results))
    outcome.culprits = [name for name, result in results if result in ("FAILED", "ERROR", "")][:20]
    written = folder / step.writes
    if step.writes and written.exists():
        outcome.rows = json.loads(impersonal(written.read_text(encoding="utf-8")))
    return outcome


def impersonal(text: str) -> str:
    """Return the text without the names of user and machine, serial numbers and processes of other people."""
    return _PERSONAL.sub("", text.replace(str(ROOT), "handloom").replace(str(Path.home()), "~"))


def again(step: Step, outcome: Outcome, folder: Path, limit: float) -> list[dict[str, Any]]:
    """Repeat a failed step with a wait after each kernel launch, and under compute-sanitizer; return the outputs."""
    culprit = tests(*outcome.culprits[:3]) if outcome.culprits and step.name.endswith(".py") else step
    found = [run(culprit, folder, limit, CUDA_LAUNCH_BLOCKING="1")]
    if tool := shutil.which("compute-sanitizer"):
        found.append(run(culprit, folder, limit, [tool, "--print-limit", "10"]))
    return [asdict(x) for x in found]


def check(planned: Sequence[Step], folder: Path, minutes: float) -> dict[str, Any]:
    """Run the steps that are missing in the folder's report, until the time is over; write the report after each
    step."""
    folder.mkdir(parents=True, exist_ok=True)
    file, end = folder / "report.json", time.monotonic() + 60 * minutes
    report: dict[str, Any] = {"format": FORMAT, "steps": []}
    if file.exists():
        report = json.loads(file.read_text(encoding="utf-8"))
    done = {outcome["name"] for outcome in report["steps"]}
    for number, step in enumerate(planned, 1):
        left = end - time.monotonic()
        if step.name in done or left < 1:
            continue
        print(f"[{number}/{len(planned)}] {step.name}", flush=True)
        outcome = run(step, folder, min(step.limit, left))
        if outcome.code != 0:
            outcome.again = again(step, outcome, folder, max(min(step.limit, end - time.monotonic()), 1.0))
        print(summary(asdict(outcome)), flush=True)
        report["steps"].append(asdict(outcome))
        report["left"] = [later.name for later in planned[number:] if later.name not in done]
        write_json(file, report, indent=1)
        write_text(folder / "report.txt", text(report))
    return report


def summary(outcome: dict[str, Any]) -> str:
    """Return one line about a step, and one more line for each of its failures."""
    counts = ", ".join(f"{number} {result}" for result, number in outcome["tests"].items())
    verdict = "ok" if outcome["code"] == 0 else f"exit code {outcome['code']}"
    lines = [f"{outcome['name']:45} {verdict:14} {outcome['seconds']:6.0f} s  {counts}"]
    lines += [f"    FAILED {name}" for name in outcome["culprits"]]
    if outcome["code"] != 0:
        lines += [f"    {line}" for line in outcome["output"].splitlines()[-12:]]
        lines += [f"    again: exit code {other['code']}: {other['command'][:100]}" for other in outcome["again"]]
    return "\n".join(lines)


def text(report: dict[str, Any]) -> str:
    """Return the report as text for a reader."""
    lines = [summary(outcome) for outcome in report["steps"]]
    for outcome in report["steps"]:
        for row in outcome["rows"].get("rows", []) if isinstance(outcome["rows"], dict) else []:
            lines.append(f"{outcome['name']}: " + ", ".join(f"{name} {value}" for name, value in row.items()))
    if report.get("left"):
        lines.append(f"not run yet (the same command continues with them): {', '.join(report['left'])}")
    lines += ["", "Please attach report.json to an issue of the project: it says how handloom runs on this GPU."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m handloom.gpu_check", description=__doc__)
    words = "time limit for all steps together, in minutes (default: 240)"
    parser.add_argument("--minutes", type=float, default=240.0, help=words)
    parser.add_argument("--quick", action="store_const", const=10.0, dest="minutes", help="the same as --minutes 10")
    words = "run only the steps whose name contains one of these words"
    parser.add_argument("--only", nargs="+", metavar="NAME", help=words)
    words = "folder for report.txt and report.json (default: gpu_report)"
    parser.add_argument("--out", type=path, default=Path("gpu_report"), metavar="FOLDER", help=words)
    options = parser.parse_args(arguments)
    folder = options.out.resolve()
    try:
        check_device("cuda")
        if not (ROOT / "tests").is_dir():
            raise InputError("the tests are not installed with handloom: run this in a clone of its repository")
        planned = [x for x in steps(folder) if not options.only or any(part in x.name for part in options.only)]
        if not planned:
            raise InputError(f"--only {' '.join(options.only)}: no step has a name that contains one of these words")
    except (DeviceError, InputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report = check(planned, folder, options.minutes)
    print(text(report))
    print(f"written: {options.out / 'report.txt'}, {options.out / 'report.json'}")
    return int(any(step["code"] != 0 for step in report["steps"]))


if __name__ == "__main__":
    run_main(lambda: sys.exit(main()))
