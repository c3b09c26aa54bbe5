"""Test and benchmark handloom on this GPU: python -m handloom.gpu_check

Runs on a machine with a CUDA GPU, in a clone of the repository: every test that is marked `gpu`, what doctor says, and
the benchmarks of attention and of the training step. Writes `report.txt` to read and `report.json` to send in.

    pip install -e '.[gpu,test]'        # or .[gpu-cuda12,test]; a PyTorch built for CUDA is measured too
    python -m handloom.gpu_check        # half an hour; --quick: a few minutes

Exit code 0: everything passed; 1: something did not, see the report; 2: nothing could be run here, one line says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .arguments import Parser, path
from .autograd.backend import DeviceError, check_device, import_cupy
from .errors import InputError
from .train.cli.command_line import run_main
from .train.runs.machine import machine as machine_of_runs
from .train.runs.machine import versions

ROOT = Path(__file__).resolve().parent
FORMAT = 1
_LINES = 40  # of a step's output that the report keeps, the last ones


@dataclass(frozen=True)
class Step:
    """One thing to run: a name, the arguments of Python, and the file that it writes into the report's folder."""

    name: str
    arguments: tuple[str, ...]
    writes: str | None = None


@dataclass
class Outcome:
    """How a step went. `counts` are the tests' (passed, failed, skipped); `rows` are a benchmark's."""

    name: str
    command: str
    code: int
    seconds: float
    last_lines: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)


def steps(folder: Path, quick: bool, alone: bool) -> list[Step]:
    """What is run, in order. `quick` leaves long lengths and most models out, `alone` the peer."""
    attention = ["-m", "benchmarks.attention", "--device", "cuda", "--json", str(folder / "attention.json")]
    training = ["-m", "benchmarks.train_step", "--device", "cuda", "--json", str(folder / "train_step.json")]
    if quick:
        attention += ["--lengths", "1024", "4096", "--rounds", "3"]
        training += ["--config", "classifier", "--steps", "20"]
    if alone:
        attention.append("--alone")
    tests = "-m", "pytest", "-m", "gpu", "-q", "-n", "0", "--tb=short", f"--junit-xml={folder / 'tests.xml'}"
    return [
        Step("doctor", ("-m", "handloom.doctor")),
        Step("tests", tests, "tests.xml"),
        Step("attention", tuple(attention), "attention.json"),
        Step("training step", tuple(training), "train_step.json"),
    ]


def run(step: Step, folder: Path) -> Outcome:
    """Run a step in the repository and read what it wrote; its output is shown as it comes."""
    begin, lines = time.monotonic(), []
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, *step.arguments], cwd=ROOT, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            print("   ", line, end="", flush=True)
            lines.append(line.rstrip())
    outcome = Outcome(
        step.name, " ".join(("python", *step.arguments)), process.returncode, time.monotonic() - begin, lines[-_LINES:]
    )
    written = folder / step.writes if step.writes else None
    if written and written.exists():
        if written.suffix == ".xml":
            outcome.counts, outcome.failures = read_tests(written)
        else:
            outcome.rows = json.loads(written.read_text(encoding="utf-8"))["rows"]
    return outcome


def read_tests(path: Path) -> tuple[dict[str, int], list[dict[str, str]]]:
    """How many tests passed, failed and were skipped, and of each that failed its name and why, from pytest's XML."""
    counts, failures = {"passed": 0, "failed": 0, "skipped": 0}, []
    for case in ElementTree.parse(path).iter("testcase"):
        wrong = [child for child in case if child.tag in ("failure", "error")]
        kind = "failed" if wrong else "skipped" if case.find("skipped") is not None else "passed"
        counts[kind] += 1
        for child in wrong[:1]:
            text = (child.text or child.get("message") or "").strip()
            failures.append({"test": f"{case.get('classname')}::{case.get('name')}", "text": text[-2000:]})
    return counts, failures


def torch_finds_a_gpu() -> bool:
    """In a process of its own: PyTorch would hold memory on the device."""
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def machine(cupy: Any) -> dict[str, Any]:
    """The GPU, driver and versions: what a report must say to be of use."""
    runtime = cupy.cuda.runtime
    about = runtime.getDeviceProperties(0)
    packages = "handloom", "numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "nvidia-cuda-nvrtc"
    return {
        "gpu": about["name"].decode(),
        "compute_capability": f"{about['major']}.{about['minor']}",
        "multiprocessors": about["multiProcessorCount"],
        "memory_gb": round(about["totalGlobalMem"] / 1e9, 1),
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        **machine_of_runs(),
        "versions": versions(*packages),
    }


def text(report: dict[str, Any]) -> str:
    """The report to read."""
    about = report["machine"]
    lines = [
        f"handloom on {about['gpu']} (compute capability {about['compute_capability']}, {about['memory_gb']} GB)",
        ", ".join(f"{name} {found}" for name, found in about["versions"].items()) + f", driver {about['driver']}",
        "",
    ]
    for step in report["steps"]:
        counts = ", ".join(f"{number} {kind}" for kind, number in step["counts"].items())
        verdict = "ok" if step["code"] == 0 else f"exit code {step['code']}"
        lines.append(f"{step['name']:14} {verdict:12} {step['seconds']:7.0f} s  {counts}")
        lines += [f"    FAILED {failure['test']}" for failure in step["failures"]]
        lines += [f"    {line}" for line in step["last_lines"][-8:] if step["code"] and not step["failures"]]
    lines += ["", "attention, TFLOP/s (float16):", *_attention(report)]
    lines += ["", "Please send report.json in: it is the first that says how handloom runs on this GPU."]
    return "\n".join(lines) + "\n"


def _attention(report: dict[str, Any]) -> list[str]:
    rows = [row for step in report["steps"] if step["name"] == "attention" for row in step["rows"]]
    return [
        f"    {'backward' if row['backward'] else 'forward':9}{'causal' if row['causal'] else 'full':7}"
        f"length {row['shape'][2]:6} head_dim {row['shape'][3]:4}  {row['side']} {row['method']}: "
        + (f"{row['tflops']:.1f}" if "tflops" in row else f"not measured, {row.get('failed', '')}")
        for row in rows
    ] or ["    none"]


def check(folder: Path, quick: bool, cupy: Any, do: Callable[[Step, Path], Outcome] = run) -> dict[str, Any]:
    """Run everything and write the reports. `do` runs a step."""
    folder.mkdir(parents=True, exist_ok=True)
    planned, outcomes = steps(folder, quick, alone=not torch_finds_a_gpu()), []
    for number, step in enumerate(planned, 1):
        print(f"[{number}/{len(planned)}] {step.name}", flush=True)
        outcomes.append(do(step, folder))
    report = {
        "format": FORMAT,
        "quick": quick,
        "machine": machine(cupy),
        "steps": [asdict(outcome) for outcome in outcomes],
    }
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (folder / "report.txt").write_text(text(report), encoding="utf-8")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m handloom.gpu_check", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run shorter benchmarks: minutes instead of half an hour")
    parser.add_argument(
        "--out",
        type=path,
        default=Path("gpu_report"),
        metavar="FOLDER",
        help="folder for report.txt and report.json (default: gpu_report)",
    )
    options = parser.parse_args(arguments)
    try:
        check_device("cuda")
        if not (ROOT / "tests").is_dir():
            raise InputError("the tests are not installed with handloom: run this in a clone of its repository")
    except (DeviceError, InputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report = check(options.out.resolve(), options.quick, import_cupy())
    print(text(report))
    print(f"written: {options.out / 'report.txt'}, {options.out / 'report.json'}")
    return int(any(step["code"] for step in report["steps"]))


if __name__ == "__main__":
    run_main(lambda: sys.exit(main()))
