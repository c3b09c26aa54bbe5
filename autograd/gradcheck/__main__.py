"""Check every op's gradient: `python -m handloom.autograd.gradcheck`. The exit code is 1 if a gradient is wrong."""

import difflib
import sys
import time
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from ...arguments import Parser, positive, whole
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
            near = difflib.get_close_matches(name, CATALOGUE, 1)
            cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(CATALOGUE))}"
            parser.error(f"there is no op {name!r}; {cure}")
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
    print(f"\n{len(names)} op{'s' * (len(names) > 1)} in {time.perf_counter() - start:.1f} s: {wrong}")
    return 1 if failures else 0


def _check_op(spec: OpSpec, seed: int, samples: int) -> tuple[str, list[str]]:
    """Check one op. Return its line of the table, and the reports of failed checks."""
    start = time.perf_counter()
    reports: tuple[list[GradcheckReport], list[GradcheckReport]] = [], []  # of both orders
    # Each op has its own stream of random numbers: adding an op does not change the samples of the others.
    rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    for number, sample in enumerate(spec.samples(rng, np.float64, samples), start=seed):
        if sample.differentiable:
            inputs = [sample.args[index] for index in sample.differentiable]
            call, text = partial(_call, spec, sample), _text(spec, sample)
            reports[0].append(gradcheck(call, inputs, seed=number, name=text))
            if spec.second_order:
                reports[1].append(gradgradcheck(call, inputs, seed=number, name=f"the gradient of {text}"))
    failed = [str(report) for of_order in reports for report in of_order if not report]
    verdict = "FAILED" if failed else "ok" if reports[0] else "no gradient"
    numbers: list[str] = []
    for of_order in reports:
        entries, error = sum(r.entries for r in of_order), max((r.relative_error for r in of_order), default=0)
        numbers += [str(entries), f"{error:.1e}"] if of_order else ["-", "-"]
    seconds = f"{time.perf_counter() - start:.2f}"
    return _COLUMNS.format(spec.name, len(reports[0]), *numbers, seconds, verdict), failed


def _call(spec: OpSpec, sample: Sample, *tensors: Any) -> Any:
    """Call the op with `tensors` as the arguments whose gradients are checked."""
    arguments = list(sample.args)
    for index, tensor in zip(sample.differentiable or (), tensors, strict=True):
        arguments[index] = tensor
    return spec.function(*arguments, **sample.kwargs)


def _text(spec: OpSpec, sample: Sample) -> str:
    values = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in sample.args]
    values += [f"{name}={value!r}" for name, value in sample.kwargs.items()]
    return f"{spec.name}({', '.join(values)})"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
