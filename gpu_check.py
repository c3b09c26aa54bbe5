"""Test and measure handloom on this GPU: python -m handloom.gpu_check

The check needs a machine with a CUDA GPU and a clone of the repository. It runs `handloom doctor`, every test that is
marked `gpu`, and the benchmarks of attention and of the training step. Each step runs in its own process with a time
limit; the most important steps come first. A step that fails runs again with CUDA_LAUNCH_BLOCKING=1. After every step,
the results are written to `report.json`, the file to send to the project. Running the same command again continues an
interrupted check from this file.

    pip install -e '.[gpu,test]'            # or .[gpu-cuda12,test]; an installed PyTorch for CUDA is also measured
    python -m handloom.gpu_check            # takes an hour; --minutes 10 runs only the first steps

Exit code 0: all steps passed; 1: a step failed, see the report; 2: no step can run on this machine, and the reason is
printed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .arguments import Parser, path
from .autograd.backend import DeviceError, check_device, import_cupy
from .cli.command_line import run_main
from .errors import InputError
from .files import write_json
from .train.runs.results import machine, versions

ROOT = Path(__file__).resolve().parent
FORMAT = 3
_LINES, _LETTERS = 120, 20_000  # limits of a step's output in the report, which keeps its end
_PACKAGES = "handloom", "numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "nvidia-cuda-nvrtc", "nvidia-cublas"


class Step(NamedTuple):
    """One program to run: name, arguments of Python, time limit in seconds, the file of results that it writes, and the
    GPU memory that it needs, in GB.
    """

    name: str
    arguments: tuple[str, ...]
    limit: float = 300.0
    writes: str = ""
    memory: float = 0.0


def steps(folder: Path) -> list[Step]:
    """Return the steps in the order of their importance."""

    def benchmark(module: str, limit: float, *options: str, memory: float = 0.0) -> Step:
        words = ("-m", f"benchmarks.{module}", "--json", str(folder / f"{module}.json"), *options)
        return Step(" ".join((module, *options)), words, limit, f"{module}.json", memory)

    return [
        Step("doctor", ("-m", "handloom.doctor"), 60),
        *(tests(file) for file in files_with_gpu_tests()),
        benchmark("attention", 300, "--lengths", "1024", "4096", "--rounds", "3"),
        benchmark("train_step", 300, "--device", "cuda", "--config", "classifier", "--steps", "20"),
        benchmark("train_step", 1800, "--device", "cuda", memory=36),
        benchmark("attention", 1800),
    ]


def tests(file: str) -> Step:
    """Return the step that runs the tests of a file. Their names are printed before they run, in case of a hang."""
    words = "-m", "pytest", "-m", "gpu", "-v", "-n", "0", "--tb=short", "-o", "faulthandler_timeout=120", file
    return Step(file, words, 900)


def files_with_gpu_tests(folder: str = "tests") -> list[str]:
    words = "-m", "pytest", "-m", "gpu", "--collect-only", "-q", "-n", "0", folder
    found = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True).stdout
    return list(dict.fromkeys(re.findall(r"^(\S+\.py)::", found, re.MULTILINE)))


def run(step: Step, folder: Path, limit: float, **variables: str) -> dict[str, Any]:
    """Run a step in the repository. After `limit` seconds all processes of the step are ended.

    Returns name, exit code (or a text, if the time is over), seconds, the end of the output, and the results.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *step.arguments],
        cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": "1"} | variables, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=limit)
        code: int | str = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        code = f"no end within {limit:.0f} s"
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    last = "\n".join(impersonal(text).splitlines()[-_LINES:])[-_LETTERS:]
    outcome = {"name": step.name, "code": code, "seconds": round(time.monotonic() - begin), "output": last}
    written = folder / step.writes
    if step.writes and written.exists():
        outcome["results"] = json.loads(impersonal(written.read_text(encoding="utf-8")))
    return outcome


def impersonal(text: str) -> str:
    """Return the text without the names of user and machine in paths."""
    return text.replace(str(ROOT), "handloom").replace(str(Path.home()), "~")


def check(planned: Sequence[Step], folder: Path, minutes: float) -> dict[str, Any]:
    """Run the steps that are missing in the folder's report, until the time is over; write the report after each
    step."""
    folder.mkdir(parents=True, exist_ok=True)
    file, end = folder / "report.json", time.monotonic() + 60 * minutes
    runtime = import_cupy().cuda.runtime
    properties = runtime.getDeviceProperties(0)
    about = {"gpu": properties["name"].decode(), "driver": runtime.driverGetVersion()}
    memory = properties["totalGlobalMem"] / 1e9
    report: dict[str, Any] = {"format": FORMAT, **about, **machine(), "versions": versions(*_PACKAGES), "steps": []}
    if file.exists():
        report = json.loads(file.read_text(encoding="utf-8"))
    done = {outcome["name"] for outcome in report["steps"]}
    for number, step in enumerate(planned, 1):
        left = end - time.monotonic()
        if step.name in done or left < 1:
            continue
        print(f"[{number}/{len(planned)}] {step.name}", flush=True)
        if step.memory > memory:
            reason = f"left out: it needs {step.memory:g} GB of GPU memory, and this GPU has {memory:.0f} GB"
            print(reason, flush=True)
            outcome: dict[str, Any] = {"name": step.name, "code": 0, "output": reason}
        else:
            outcome = run(step, folder, min(step.limit, left))
        if outcome["code"] != 0:
            print(f"exit code {outcome['code']}:\n{outcome['output'][-2000:]}", flush=True)
            limit = max(min(step.limit, end - time.monotonic()), 1.0)
            outcome["again"] = run(step, folder, limit, CUDA_LAUNCH_BLOCKING="1")
        report["steps"].append(outcome)
        report["left"] = [later.name for later in planned[number:] if later.name not in done]
        write_json(file, report, indent=1)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m handloom.gpu_check", description=__doc__)
    words = "time limit for all steps together, in minutes (default: 240)"
    parser.add_argument("--minutes", type=float, default=240.0, help=words)
    words = "folder for report.json (default: gpu_report)"
    parser.add_argument("--out", type=path, default=Path("gpu_report"), metavar="FOLDER", help=words)
    options = parser.parse_args(arguments)
    folder = options.out.resolve()
    try:
        check_device("cuda")
        if not (ROOT / "tests").is_dir():
            raise InputError("the tests are not installed with handloom: run this in a clone of its repository")
    except (DeviceError, InputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report = check(steps(folder), folder, options.minutes)
    failed = [outcome["name"] for outcome in report["steps"] if outcome["code"] != 0]
    print(*[f"failed: {name}" for name in failed], sep="\n")
    if report.get("left"):
        print(f"not run yet (the same command continues with them): {', '.join(report['left'])}")
    print(f"Please attach {options.out / 'report.json'} to an issue of the project.")
    return int(bool(failed))


if __name__ == "__main__":
    run_main(lambda: sys.exit(main()))
