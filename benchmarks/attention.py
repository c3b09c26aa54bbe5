"""Compare attention on a GPU with PyTorch's scaled_dot_product_attention: TFLOP/s and peak memory for several lengths.

    python -m benchmarks.attention --json benchmarks/results/attention_gpu.json

In float16, handloom's fused kernels are compared with PyTorch's FlashAttention, cuDNN and default backends. A method
that runs out of memory or is not available has no figures. A figure is the median of several runs. The number of
operations is 4 * batch * heads * length^2 * head_dim in the forward pass and 2.5 times as large in the backward pass. A
causal mask halves both numbers. Peak memory does not include the inputs.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np

from benchmarks.side_by_side import conditions, program, write_results
from handloom.autograd import Tensor, no_grad, ops
from handloom.autograd.backend import check_device, import_cupy, to_device
from handloom.examples.tables.layer_cost import peak_bytes
from handloom.train.cells import markdown_table

METHODS = (("handloom", "fused"), ("torch", "flash"), ("torch", "cudnn"), ("torch", "default"))
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS = 16384  # batch times length
FEATURES = 2048  # heads times head_dim
HEAD_DIMS = (64, 128)
COLUMNS = {"side": "", "method": "method", "ms": "ms:.2f", "tflops": "TFLOP/s:.1f", "peak_mb": "MB:,.0f"}
Task = dict[str, Any]


def operations(task: Task) -> float:
    batch, heads, length, head_dim = task["shape"]
    factor = (2.5 if task["backward"] else 1) / (2 if task["causal"] else 1)
    return 4.0 * batch * heads * length**2 * head_dim * factor


def handloom(task: Task, method: str) -> Callable[[], Any]:
    """Return a function that computes the task."""
    rng = np.random.default_rng(0)
    *arrays, g = (to_device(rng.standard_normal(task["shape"]).astype(np.float16), "cuda") for _ in range(4))
    leaves = [Tensor(array, requires_grad=task["backward"]) for array in arrays]
    out = ops.attention(*leaves, causal=task["causal"], method=method)

    def backward() -> None:
        out.backward(g, retain_graph=True)
        for leaf in leaves:
            leaf.grad = None

    def forward() -> None:
        with no_grad():
            ops.attention(*leaves, causal=task["causal"], method=method)

    return backward if task["backward"] else forward


def torch(task: Task, method: str) -> Callable[[], Any]:
    """Return a function that computes the task."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    *tensors, g = (torch.randn(task["shape"], dtype=torch.float16, device="cuda") for _ in range(4))
    for tensor in tensors:
        tensor.requires_grad_(task["backward"])

    def forward() -> Any:
        chosen = backends.get(method)
        with sdpa_kernel(chosen) if chosen else nullcontext():
            return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=task["causal"])

    out = forward()
    return (lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)) if task["backward"] else forward


def peak_of_torch(run: Callable[[], Any]) -> float:
    import torch

    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() - before


def measure(task: Task, side: str, method: str, rounds: int) -> dict[str, Any]:
    """Return a row of results, or the reason why there is none."""
    wait = import_cupy().cuda.Device().synchronize

    def seconds(times: int) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            run()
        wait()
        return (time.perf_counter() - begin) / times

    row = {**task, "side": side, "method": method}
    try:
        run = (handloom if side == "handloom" else torch)(task, method)
        peak = peak_bytes(run, "cuda") if side == "handloom" else peak_of_torch(run)
        times = max(1, int(0.05 / seconds(1)))
        median = statistics.median(seconds(times) for _ in range(rounds))
    except (RuntimeError, MemoryError) as error:  # includes the out-of-memory errors of CuPy and PyTorch
        return row | {"failed": str(error).strip().partition("\n")[0]}
    return row | {"peak_mb": peak / 1e6, "ms": median * 1e3, "tflops": operations(task) / median / 1e12}


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="default: 512 to 16384")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each method (default: 5)")
    options = parser.parse_args()
    check_device("cuda")
    rows: list[dict[str, Any]] = []
    gpu = import_cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()
    for length, head_dim, causal, backward in product(options.lengths, HEAD_DIMS, (False, True), (False, True)):
        shape = [max(1, TOKENS // length), FEATURES // head_dim, length, head_dim]
        task = {"device": "cuda", "shape": shape, "causal": causal, "backward": backward}
        found = [measure(task, side, method, options.rounds) for side, method in METHODS]
        failures = [row["failed"] for row in found if "failed" in row]
        print(task, markdown_table(found, COLUMNS), *failures, sep="\n", flush=True)
        rows += found
        write_results(options.json, conditions("torch", "cupy-cuda13x", "cupy-cuda12x") | {"gpu": gpu, "rows": rows})


if __name__ == "__main__":
    main()
