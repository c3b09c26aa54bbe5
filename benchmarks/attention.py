"""Compare attention with PyTorch's scaled_dot_product_attention: TFLOP/s and peak memory over lengths.

    python -m benchmarks.attention                                    on the CPU, in float32
    python -m benchmarks.attention --device cuda --json benchmarks/results/attention_gpu.json

On a GPU, in float16, handloom's fused kernels and its standard method are compared with PyTorch's FlashAttention and
cuDNN backends and with its default choice; a method that runs out of memory or is not available gets no figures.
Without a GPU the blocked and the standard method are compared with PyTorch's CPU kernel. Each side runs in a process of
its own with the same number of threads; runs are interleaved, and the result is the median of several. Operations: 4
batch heads length^2 head_dim forward, 2.5 times that backward, and half if causal. Peak memory includes the inputs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import Worker, worker_environment, write_results
from handloom.autograd.backend import DeviceError, check_device, import_cupy
from handloom.train.runs.machine import machine, versions

SIDES = {
    "cpu": {"handloom": ("blocked", "standard"), "torch": ("default",)},
    "cuda": {"handloom": ("fused", "standard"), "torch": ("flash", "cudnn", "default")},
}
LENGTHS = {"cpu": (512, 1024, 2048, 4096), "cuda": (512, 1024, 2048, 4096, 8192, 16384)}
TOKENS = {"cpu": 4096, "cuda": 16384}  # batch times length
FEATURES = {"cpu": 256, "cuda": 2048}  # heads times head_dim


def operations(shape: list[int], causal: bool, backward: bool) -> float:
    batch, heads, length, head_dim = shape
    return 4.0 * batch * heads * length**2 * head_dim * (2.5 if backward else 1) / (2 if causal else 1)


def handloom_run(task: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], None], Callable[[], float | None]]:
    """Functions that run the task, wait for its end, and return the peak memory in MB or None."""
    from handloom.autograd import Tensor, no_grad, ops
    from handloom.autograd.backend import array_module, to_device

    dtype = np.float16 if task["device"] == "cuda" else np.float32
    rng = np.random.default_rng(0)
    arrays = [to_device(rng.standard_normal(task["shape"]).astype(dtype), task["device"]) for _ in range(4)]
    leaves = [Tensor(array, requires_grad=task["backward"]) for array in arrays[:3]]
    out = ops.attention(*leaves, causal=task["causal"], method=task["method"])

    def run() -> None:
        if task["backward"]:
            out.backward(arrays[3], retain_graph=True)
            for leaf in leaves:
                leaf.grad = None
        else:
            with no_grad():
                ops.attention(*leaves, causal=task["causal"], method=task["method"])

    if task["device"] == "cpu":
        return run, lambda: None, lambda: traced_peak(run)
    cupy = array_module(arrays[0])
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    return run, cupy.cuda.Device().synchronize, lambda: pool.total_bytes() / 1e6


def traced_peak(run: Callable[[], Any]) -> float:
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def torch_run(task: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], None], Callable[[], float | None]]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    dtype = torch.float16 if task["device"] == "cuda" else torch.float32
    torch.manual_seed(0)
    if task["device"] == "cuda":
        torch.cuda.reset_peak_memory_stats()
    tensors = [
        torch.randn(task["shape"], dtype=dtype, device=task["device"], requires_grad=task["backward"]) for _ in range(3)
    ]
    g = torch.randn(task["shape"], dtype=dtype, device=task["device"])

    def forward() -> Any:
        chosen = backends.get(task["method"])
        with sdpa_kernel(chosen) if chosen else nullcontext():
            return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=task["causal"])

    out = forward()
    run = (lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)) if task["backward"] else forward
    if task["device"] == "cpu":
        return run, lambda: None, lambda: None  # PyTorch does not report its peak memory on a CPU
    return run, torch.cuda.synchronize, lambda: torch.cuda.max_memory_allocated() / 1e6


def work(side: str) -> None:
    """Answer each task on standard input: prepare it and report its peak memory, or time it."""
    run: Any = None
    for line in sys.stdin:
        task = json.loads(line)
        if task["do"] == "prepare":
            run = wait = peak = None  # the memory of the last method is free before the next one begins
            try:
                run, wait, peak = (handloom_run if side == "handloom" else torch_run)(task)
                run()
                wait()
                answer: Any = {"peak_mb": peak()}
            except (RuntimeError, MemoryError) as error:  # CuPy's and PyTorch's lack of memory is one of these
                answer = {"failed": str(error).strip().partition("\n")[0]}
        else:
            begin = time.perf_counter()
            for _ in range(task["times"]):
                run()
            wait()
            answer = (time.perf_counter() - begin) / task["times"]
        print(json.dumps(answer), flush=True)


def measure(workers: dict[str, Any], task: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """One row for each method of each side."""
    rows = []
    methods = [(side, method) for side, names in SIDES[task["device"]].items() for method in names]
    methods = [(side, method) for side, method in methods if side in workers]
    for side, method in methods:
        row = {**task, "side": side, "method": method}
        prepared = workers[side].ask(json.dumps({**task, "method": method, "do": "prepare"}))
        rows.append(row | prepared)
        if "failed" in prepared:
            continue
        first = workers[side].ask(json.dumps({"do": "time", "times": 1}))
        times = max(1, int(0.05 / first))
        seconds = [workers[side].ask(json.dumps({"do": "time", "times": times})) for _ in range(rounds)]
        median = statistics.median(seconds)
        rate = operations(task["shape"], task["causal"], task["backward"]) / median / 1e12
        rows[-1] |= {"ms": median * 1e3, "tflops": rate}
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    ruler = min((row["ms"] for row in rows if row["side"] == "torch" and "ms" in row), default=float("nan"))
    task = rows[0]
    what = f"{'backward' if task['backward'] else 'forward ':8} {'causal' if task['causal'] else 'full':6}"
    for row in rows:
        start = f"{what} length {task['shape'][2]:5} head_dim {task['shape'][3]:3}  {row['side']:8} {row['method']:8} "
        if "failed" in row:
            print(f"{start} not measured: {row['failed'][:70]}", flush=True)
            continue
        peak = " " * 11 if row["peak_mb"] is None else f"{row['peak_mb']:8.0f} MB"
        print(
            f"{start}{row['ms']:9.2f} ms {row['tflops']:8.3f} TFLOP/s {peak}  {ruler / row['ms']:5.2f}x PyTorch",
            flush=True,
        )


def why_not(device: str, alone: bool = False) -> str | None:
    """Why nothing can be measured on this device, or None. `alone`: without PyTorch."""
    try:
        check_device(device)
    except DeviceError as error:
        return f"{error}; without --device cuda the CPU is measured"
    if alone:
        return None
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed, with which handloom is compared: pip install torch"
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            return f"the PyTorch installed here, {torch.__version__}, finds no GPU: install one built for CUDA"
    return None


def graphics_processor() -> str:
    return str(import_cupy().cuda.runtime.getDeviceProperties(0)["name"].decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument(
        "--lengths", type=int, nargs="+", help="sequence lengths (default: 512 to 4096 on a CPU, up to 16384 on a GPU)"
    )
    parser.add_argument(
        "--head-dims", type=int, nargs="+", default=[64, 128], help="features per head (default: 64 128)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each side (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each side, on a CPU (default: 1)")
    parser.add_argument("--alone", action="store_true", help="measure handloom only, without PyTorch")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--work", choices=("handloom", "torch"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    reason = why_not(options.device, options.alone)
    if reason:
        parser.exit(2, f"error: {reason}\n")
    lengths, rows = options.lengths or LENGTHS[options.device], []
    environment = worker_environment(options.threads)
    for length, head_dim, causal, backward in product(lengths, options.head_dims, (False, True), (False, True)):
        batch, heads = TOKENS[options.device] // length, FEATURES[options.device] // head_dim
        shape = [max(1, batch), max(1, heads), length, head_dim]
        task = {"device": options.device, "shape": shape, "causal": causal, "backward": backward}
        with ExitStack() as running:
            sides = ("handloom",) if options.alone else ("handloom", "torch")
            workers = {side: Worker("benchmarks.attention", ["--work", side], environment) for side in sides}
            found = measure({x: running.enter_context(worker) for x, worker in workers.items()}, task, options.rounds)
        show(found)
        rows += found
    if options.json:
        record = {
            "command": f"python -m benchmarks.attention {' '.join(sys.argv[1:])}",
            "machine": machine(),
            "versions": versions("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x"),
            "gpu": graphics_processor() if options.device == "cuda" else None,
            "rows": rows,
        }
        write_results(options.json, record)


if __name__ == "__main__":
    main()
