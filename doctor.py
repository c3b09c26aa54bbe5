"""Finds what slows handloom down on this machine, and suggests remedies: python -m handloom.doctor

The command only measures and reads; it changes nothing. Checks that are not possible on a system are skipped. Most
checks read Linux's /proc and /sys.
"""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .autograd import no_grad, ops
from .autograd.backend import Blas, blas_of_numpy, check_device, compute_capability, import_cupy
from .autograd.bfloat16 import bfloat16_carried_out
from .autograd.ops.attention import attention_plain
from .autograd.ops.registry import unsupported_reason
from .autograd.quick import libraries
from .cli.command_line import run_main
from .cli.options import OptionParser
from .train.runs.results import cpu_fields

Environment = Mapping[str, str]

#: Variables that select a linear algebra library's kernels, or limit the instructions of this library or NumPy.
SELECTING = ("OPENBLAS_CORETYPE", "OPENBLAS_VERBOSE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "BLIS_ARCH_TYPE")
THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
#: OpenBLAS's names of kernels that don't use AVX-512.
_NARROW = ("Haswell", "Zen", "Sandybridge", "Nehalem", "Prescott", "Core2")
_ROWS = np.tile(np.array([1, -1], np.float16), (3, 4))  # rows with mean 0 and variance 1
# The time limit of a measurement in a child process, in seconds.
_PATIENCE = 60


class Finding(NamedTuple):
    """The result of one check: "ok", "note" (may slow handloom down) or "slow" (does), a text, and the remedy if there
    is one."""

    level: Literal["ok", "note", "slow"]
    subject: str
    text: str
    cure: str = ""


def judged(bad: bool, subject: str, text: str, cure: str) -> Finding:
    """Return a finding, which is "slow" and has a remedy if `bad` is true."""
    return Finding("slow", subject, text, cure) if bad else Finding("ok", subject, text)


# -- measurements, in child processes, because libraries read their variables only when they are loaded -----------

_PRODUCT = """
import time, numpy as np
a, b = np.random.default_rng(0).random((2, 1024, 1024), np.float32)
out, best = np.empty_like(a), 1e9
for _ in range(12):
    begin = time.perf_counter(); np.matmul(a, b, out=out); best = min(best, time.perf_counter() - begin)
print(2 * 1024**3 / best / 1e9)
"""

_LINEAR = """
import time, numpy as np
from handloom.autograd import no_grad, ops
x, weight, best = np.ones((256, 512), np.float32), np.ones((2048, 512), np.float32), 1e9
with no_grad():
    for _ in range(10):
        begin = time.perf_counter(); ops.linear(x, weight); best = min(best, time.perf_counter() - begin)
print(2 * x.size * len(weight) / best / 1e9)
"""


def _in_child(code: str, environment: Environment) -> float:
    """Return the number that a Python program prints, or nan if it fails or takes too long."""
    environment = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": _PATIENCE}
    try:
        return float(subprocess.run([sys.executable, "-c", code], env=environment, **options).stdout)
    except (subprocess.SubprocessError, OSError):
        return float("nan")


def product_speed(environment: Environment) -> float:
    """Return the GFLOP/s of a product of two 1024 x 1024 float32 matrices in a process with this environment.

    Two processes measure the speed, because other programs can disturb a measurement; the better result is returned, or
    nan if both processes fail.
    """
    return max(_in_child(_PRODUCT, environment) for _ in range(2))


def speeds_on_one_thread() -> tuple[float, float]:
    """Return the GFLOP/s of a linear layer (256 rows, 512 by 2,048) with NumPy and with MKL; nan if a measurement
    fails."""
    one = {**os.environ, **dict.fromkeys(THREADS, "1")}
    return _in_child(_LINEAR, {**one, "HANDLOOM_MKL": "0"}), _in_child(_LINEAR, {**one, "HANDLOOM_MKL": "1"})


# -- findings --------------------------------------------------------------------------------------------------------


def blas_findings(
    blas: Blas, environment: Environment, flags: frozenset[str], speed: Callable[[Environment], float] = product_speed
) -> Iterator[Finding]:
    """Check the library, kernels and speed of matrix products, and whether an environment variable slows them down."""
    now = speed(environment)
    named = f"{blas.name}, kernels {blas.kernel}, threads {blas.threads or 'unknown'}: {now:.0f} GFLOP/s"
    cure = "install NumPy's own wheel, which brings OpenBLAS: pip install --force-reinstall numpy"
    if now > 0 and blas.name.startswith("scipy-openblas"):  # the library of NumPy's own wheel
        cure = "end other programs (see top)"
    yield judged(not now >= 10, "matrix products", named, cure)
    chosen = {name: environment[name] for name in SELECTING if name in environment}
    if chosen:
        without = speed({name: value for name, value in environment.items() if name not in chosen})
        said = ", ".join(f"{name}={value}" for name, value in chosen.items())
        text = f"{said} is set: {now:.0f} GFLOP/s with it, {without:.0f} without"
        found = judged(without > 1.1 * now, "kernel variables", text, f"unset {' '.join(chosen)} before Python starts")
        yield found if found.level == "slow" else found._replace(level="note")
    elif "avx512f" in flags and blas.kernel in _NARROW:
        wide = speed({**environment, "OPENBLAS_CORETYPE": "SkylakeX"})
        text = f"the processor has AVX-512 but OpenBLAS chose {blas.kernel}: {now:.0f} GFLOP/s, SkylakeX {wide:.0f}"
        if wide > 1.1 * now:
            cure = "export OPENBLAS_CORETYPE=SkylakeX, or install a newer NumPy"
            yield Finding("slow", "kernel variables", text, cure)


def thread_findings(blas: Blas, environment: Environment, usable: int, present: int) -> Iterator[Finding]:
    """Compare threads with cores: the `usable` cores of this process, and the cores `present` in the machine."""
    limits = {name: environment[name] for name in THREADS if name in environment}
    by = f" ({', '.join(f'{name}={value}' for name, value in limits.items())})" if limits else ""
    if usable < present:
        text = f"this process may use {usable} of {present} cores"
        yield Finding("note", "cores", text, "see taskset, or the container's CPUs")
    if blas.threads > usable:
        text = f"{blas.threads} threads compute on {usable} cores{by}: they wait for one another"
        yield Finding("slow", "threads", text, f"export OPENBLAS_NUM_THREADS={usable}")
    elif 0 < blas.threads < usable:
        cure = f"unset {' '.join(limits) or 'the limit'}, unless other work needs them"
        yield Finding("slow", "threads", f"{blas.threads} of {usable} cores are used{by}", cure)
    else:
        yield Finding("ok", "threads", f"{blas.threads or 'an unknown number of'} on {usable} cores{by}")


def library_findings(
    missing: Mapping[str, str | None], speeds: Callable[[], tuple[float, float]] = speeds_on_one_thread
) -> Iterator[Finding]:
    """Check whether Numba and MKL are used, and how fast MKL is. `missing` contains the reasons why a library is not
    used, and the remedies."""
    for subject, name in (("compiled loops", "compiled_loops"), ("MKL", "mkl")):
        if (why := missing[name]) is not None:
            text, _, cure = why.partition(": ")
            variable, leaves_out, _ = why.partition("=0 ")
            yield Finding("note", subject, f"not used: {text}", f"unset {variable}" if leaves_out else cure)
        elif name == "compiled_loops":
            yield Finding("ok", subject, "Numba compiles the passes between the products of a training step")
        else:
            numpy, by_mkl = speeds()
            text = f"linear layers on one thread: {by_mkl:.0f} GFLOP/s by MKL, {numpy:.0f} by NumPy's library"
            yield judged(by_mkl < 0.9 * numpy, subject, text, "export HANDLOOM_MKL=0")


def load_findings(busy: float, stolen: float) -> Iterator[Finding]:
    """Check the shares of processor time that other programs and other virtual machines of the host use."""
    text = f"other programs use {busy:.0%} of the processors' time"
    yield judged(busy > 0.1, "load", text, "wait, or end them (see top)")
    if stolen > 0.02:
        text = f"the host of this virtual machine gives {stolen:.0%} of its time to others"
        yield Finding("slow", "host", text, "another machine, or another time of day")


def gpu_findings(present: bool) -> Iterator[Finding]:
    """Check device "cuda" by compiling and running a kernel. `present` means that the driver shows a GPU."""
    try:
        cupy = import_cupy()
        check_device("cuda")
        one = cupy.ones(8, np.float16)
        with no_grad():
            found = ops.layer_norm(cupy.asarray(_ROWS), one, 0 * one).numpy()
        if abs(found - _ROWS).max() > 0.01:
            raise RuntimeError(f"a kernel gave {found[0].tolist()} instead of {_ROWS[0].tolist()}: update the driver")
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        query = (one.reshape(1, 1, 1, 8),) * 3
        missing = unsupported_reason(attention_plain, "fused", query, method="fused", return_weights=False)
    except Exception as error:  # DeviceError names the remedy; a broken CUDA raises many kinds of errors
        text = (str(error) or type(error).__name__).splitlines()[0].removeprefix("device 'cuda': ")
        yield Finding("slow" if present else "ok", "GPU", f"none used: {text}")
        return
    capability = compute_capability(cupy, 0) / 10
    yield Finding("note", "GPU", f"{name}, compute capability {capability}, runs kernels", "train with --device cuda")
    if missing:
        yield Finding("note", "GPU attention", f"the fused method is left out: {missing}")


# -- reading the machine ---------------------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _usable_cores() -> int:
    """Return the number of cores that affinity and control group (version 2) allow this process to use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    return min(cores, max(-(-int(quota) // int(period)), 1)) if quota.isdecimal() else cores


def _load(seconds: float = 0.7) -> tuple[float, float] | None:
    """Return the two shares that `load_findings` checks, measured for `seconds` while this process sleeps."""

    def ticks() -> list[int]:
        return [int(field) for field in _read("/proc/stat").partition("\n")[0].split()[1:9]]

    before = ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(ticks(), before, strict=True)]
    if len(spent) < 8 or not sum(spent):
        return None
    return 1 - (spent[3] + spent[4] + spent[7]) / sum(spent), spent[7] / sum(spent)


def diagnose() -> Iterator[Finding]:
    """Return all findings on this machine, in the order in which they are printed. The checks take a few seconds."""
    environment, load, blas = dict(os.environ), _load(), blas_of_numpy()
    named, usable = cpu_fields(), _usable_cores()
    name = named.get("model name") or platform.processor() or platform.machine()
    yield Finding("ok", "processor", name)
    if load is not None:
        yield from load_findings(*load)
    yield from blas_findings(blas, environment, frozenset(named.get("flags", "").split()))
    yield from thread_findings(blas, environment, usable, os.cpu_count() or usable)
    yield from library_findings({name: why for name, (_, why) in libraries().items()})
    yield Finding("ok", "--precision bf16", bfloat16_carried_out())
    yield from gpu_findings(Path("/dev/nvidiactl").exists())  # any GPU that the container has


def main() -> None:
    description = "Find what slows handloom down on this machine, and suggest remedies."
    parser = OptionParser(prog="python -m handloom.doctor", description=description)
    parser.parse_args()
    print(f"NumPy {np.__version__}, Python {platform.python_version()}, {platform.platform()}")
    slow = 0
    for finding in diagnose():
        print(f"{finding.level:5} {finding.subject:17} {finding.text}", flush=True)
        if finding.cure:
            print(f"{'':23} -> {finding.cure}")
        slow += finding.level == "slow"
    print(f"\n{slow} thing{'' if slow == 1 else 's'} slow{'s' if slow == 1 else ''} handloom down here.")


if __name__ == "__main__":
    run_main(main)
