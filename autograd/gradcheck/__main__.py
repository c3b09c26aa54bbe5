"""Check every op's gradient: `python -m handloom.autograd.gradcheck`. The exit code is 1 if a gradient is wrong."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from ...arguments import Parser, positive, run_program, whole
from ..catalogue import CATALOGUE, OpSpec, Sample
from .check import gradcheck, gradgradcheck
from .report import GradcheckReport

_COLUMNS = "{:<26} {:>7} {:>8} {:>12} {:>8} {:>12} {:>8}  {}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m handloom.autograd.gradcheck", description=__doc__)
    parser.add_argument(
        "--op", action="append", metavar="NAME", help="check only this op; repeat for several ops (default: all ops)"
    )
    parser.add_argument(
        "--seed", type=whole, default=0, help="random seed of the inputs and output gradients (default: 0)"
    )
    parser.add_argument("--samples", type=positive, default=30, help="number of calls to check per op (default: 30)")
    options = parser.parse_args(arguments)
    names = options.op or sorted(CATALOGUE)
    for name in names:
        if name not in CATALOGUE:
            parser.error(f"there is no op {name!r}; there are {', '.join(sorted(CATALOGUE))}")
    print(_COLUMNS.format("op", "samples", "entries", "rel. error", "entries", "rel. error", "seconds", ""))
    print(_COLUMNS.format("", "", "1st", "1st order", "2nd", "2nd order", "", ""))
    failures: list[str] = []
    start = time.perf_counter()
    with tqdm(names, unit="op", leave=False, disable=not sys.stderr.isatty()) as bar:
        for name in bar:
            bar.set_postfix_str(name)
            line, problems = _check_op(CATALOGUE[name], options.seed, options.samples)
            bar.write(line)
            failures += problems
    for problem in failures:
        print(f"\n{problem}")
    wrong = f"{len(failures)} checks FAILED" if failures else "all ok"
    print(f"\n{len(names)} ops in {time.perf_counter() - start:.1f} s: {wrong}")
    return 1 if failures else 0


def _check_op(spec: OpSpec, seed: int, samples: int) -> tuple[str, list[str]]:
    """Check one op. Return its line of the table, and the reports of failed checks."""
    start = time.perf_counter()
    # Each op has its own stream of random numbers: adding an op does not change the samples of the others.
    rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    first: list[GradcheckReport] = []
    second: list[GradcheckReport] = []
    for number, sample in enumerate(spec.samples(rng, np.float64, samples)):
        if not sample.differentiable:
            continue
        inputs = [sample.args[index] for index in sample.differentiable]
        call, text = _of_differentiable(spec, sample), _text(spec, sample)
        first.append(gradcheck(call, inputs, seed=seed + number, name=text))
        if spec.second_order:
            second.append(gradgradcheck(call, inputs, seed=seed + number, name=f"the gradient of {text}"))
    failed = [report for report in (*first, *second) if not report]
    verdict = "FAILED" if failed else "ok" if first else "no gradient"
    seconds = f"{time.perf_counter() - start:.2f}"
    line = _COLUMNS.format(spec.name, len(first), *_summary(first), *_summary(second), seconds, verdict)
    return line, [str(report) for report in failed]


def _summary(reports: list[GradcheckReport]) -> tuple[str, str]:
    if not reports:
        return "-", "-"
    return str(sum(report.entries for report in reports)), f"{max(report.relative_error for report in reports):.1e}"


def _of_differentiable(spec: OpSpec, sample: Sample) -> Callable[..., Any]:
    """Return the op's call as a function of only those arguments whose gradients are checked."""

    def call(*tensors: Any) -> Any:
        arguments = list(sample.args)
        for index, tensor in zip(sample.differentiable or (), tensors, strict=True):
            arguments[index] = tensor
        return spec.function(*arguments, **sample.kwargs)

    return call


def _text(spec: OpSpec, sample: Sample) -> str:
    values = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in sample.args]
    values += [f"{name}={value!r}" for name, value in sample.kwargs.items()]
    return f"{spec.name}({', '.join(values)})"


if __name__ == "__main__":
    sys.exit(run_program(main))
