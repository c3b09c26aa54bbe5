"""Compare attention with PyTorch's scaled_dot_product_attention: TFLOP/s and peak memory for several lengths.

    python -m benchmarks.attention                                    on the CPU, in float32
    python -m benchmarks.attention --device cuda --json benchmarks/results/attention_gpu.json

On a GPU, in float16, handloom's fused kernels are compared with PyTorch's FlashAttention, cuDNN and default backends.
A method that runs out of memory or is not available has no figures. Without a GPU the blocked and the standard method
are compared with PyTorch's CPU kernel. Each library runs in a separate process with the same number of threads; runs
are interleaved, and the result is the median of several runs. The number of operations is 4 * batch * heads * length^2
* head_dim in the forward pass and 2.5 times as large in the backward pass. A causal mask halves both numbers. Peak
memory does not include the inputs.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np

from benchmarks.side_by_side import Worker, conditions, missing, program, started, worker_environment, write_results
from handloom.autograd.backend import import_cupy
from handloom.autograd.observe.costs import peak_bytes

SIDES = {
    "cpu": {"handloom": ("blocked", "standard"), "torch": ("default",)},
    "cuda": {"handloom": ("fused",), "torch": ("flash", "cudnn", "default")},
}
LENGTHS = {"cpu": (512, 1024, 2048, 4096), "cuda": (512, 1024, 2048, 4096, 8192, 16384)}
TOKENS = {"cpu": 4096, "cuda": 16384}  # batch times length
FEATURES = {"cpu": 256, "cuda": 2048}  # heads times head_dim
HEAD_DIMS = (64, 128)
Task = dict[str, Any]


def operations(task: Task) -> float:
    batch, heads, length, head_dim = task["shape"]
    factor = (2.5 if task["backward"] else 1) / (2 if task["causal"] else 1)
    return 4.0 * batch * heads * length**2 * head_dim * factor


class Side:
    """The base class of a worker. `make` returns a function that runs a task; `wait` waits until the device is done."""

    make: Callable[[Task], Callable[[], Any]]
    wait: Callable[[], None]
    peak_mb: Callable[[], float | None]

    def prepare(self, task: Task) -> dict[str, Any]:
        """Run the task once. Return the peak memory of the task, or the reason why it failed."""
        self.task, self.run = task, lambda: None  # frees the memory of the previous method
        try:
            self.run = self.make(task)
            self.run()
            self.wait()
            return {"peak_mb": self.peak_mb()}
        except (RuntimeError, MemoryError) as error:  # includes the out-of-memory errors of CuPy and PyTorch
            return {"failed": str(error).strip().partition("\n")[0]}

    def time(self, times: int) -> float:
        """Return the mean seconds per run."""
        begin = time.perf_counter()
        for _ in range(times):
            self.run()
        self.wait()
        return (time.perf_counter() - begin) / times


class Handloom(Side):
    def make(self, task: Task) -> Callable[[], Any]:
        from handloom.autograd import Tensor, no_grad, ops
        from handloom.autograd.backend import to_device

        dtype = np.float16 if task["device"] == "cuda" else np.float32
        rng = np.random.default_rng(0)
        arrays = [to_device(rng.standard_normal(task["shape"]).astype(dtype), task["device"]) for _ in range(4)]
        leaves = [Tensor(array, requires_grad=task["backward"]) for array in arrays[:3]]
        out = ops.attention(*leaves, causal=task["causal"], method=task["method"])

        def backward() -> None:
            out.backward(arrays[3], retain_graph=True)
            for leaf in leaves:
                leaf.grad = None

        def forward() -> None:
            with no_grad():
                ops.attention(*leaves, causal=task["causal"], method=task["method"])

        return backward if task["backward"] else forward

    def wait(self) -> None:
        if self.task["device"] == "cuda":
            import_cupy().cuda.Device().synchronize()

    def peak_mb(self) -> float:
        return peak_bytes(self.run, self.task["device"]) / 1e6


class Torch(Side):
    def make(self, task: Task) -> Callable[[], Any]:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
        dtype = torch.float16 if task["device"] == "cuda" else torch.float32
        torch.manual_seed(0)
        *tensors, g = (torch.randn(task["shape"], dtype=dtype, device=task["device"]) for _ in range(4))
        for tensor in tensors:
            tensor.requires_grad_(task["backward"])
        if task["device"] == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()

        def forward() -> Any:
            chosen = backends.get(task["method"])
            with sdpa_kernel(chosen) if chosen else nullcontext():
                return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=task["causal"])

        out = forward()
        return (lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)) if task["backward"] else forward

    def wait(self) -> None:
        if self.task["device"] == "cuda":
            import torch

            torch.cuda.synchronize()

    def peak_mb(self) -> float | None:
        if self.task["device"] == "cpu":
            return None  # PyTorch does not report its peak memory on a CPU
        import torch

        return (torch.cuda.max_memory_allocated() - self.before) / 1e6


def measure(workers: Mapping[str, Worker], task: Task, rounds: int) -> list[dict[str, Any]]:
    """Return one row for each method of each library."""
    rows = []
    for side, worker in workers.items():
        for method in SIDES[task["device"]][side]:
            row = {**task, "side": side, "method": method, **worker.ask("prepare", {**task, "method": method})}
            rows.append(row)
            if "failed" in row:
                continue
            times = max(1, int(0.05 / worker.ask("time", 1)))
            median = statistics.median(worker.ask("time", times) for _ in range(rounds))
            row |= {"ms": median * 1e3, "tflops": operations(task) / median / 1e12}
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


def main() -> None:
    parser = program(__doc__, threads=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    lengths = "sequence lengths (default: 512 to 4096 on a CPU, up to 16384 on a GPU)"
    parser.add_argument("--lengths", type=int, nargs="+", help=lengths)
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each library (default: 5)")
    options = parser.parse_args()
    if reason := missing(options.device):
        parser.exit(2, f"error: {reason}\n")
    lengths, rows = options.lengths or LENGTHS[options.device], []
    record = conditions("torch", "cupy-cuda13x", "cupy-cuda12x")
    about = None if options.device == "cpu" else import_cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()
    tasks = product(lengths, HEAD_DIMS, (False, True), (False, True))
    with started({"handloom": (Handloom,), "torch": (Torch,)}, worker_environment(options.threads)) as workers:
        for length, head_dim, causal, backward in tasks:
            batch, heads = TOKENS[options.device] // length, FEATURES[options.device] // head_dim
            shape = [max(1, batch), max(1, heads), length, head_dim]
            task = {"device": options.device, "shape": shape, "causal": causal, "backward": backward}
            found = measure(workers, task, options.rounds)
            show(found)
            rows += found
            write_results(options.json, record | {"gpu": about, "rows": rows})


if __name__ == "__main__":
    main()
