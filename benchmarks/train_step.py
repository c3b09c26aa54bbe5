"""Compare a training step with PyTorch's: time, tokens per second, peak memory, and equal results.

    python -m benchmarks.train_step --config all --json benchmarks/results/train_step_cpu.json
    HANDLOOM_DATA=folder python -m benchmarks.train_step --data multi30k
    python -m benchmarks.train_step --device cuda

handloom and PyTorch train the same model from the same weights on the same batch: forward, backward, Adam. PyTorch
(eager, float32, with fused Adam) is measured with the layers of nn.Transformer and with scaled_dot_product_attention;
the faster of the two is the reference. Each library runs in a separate process, with the same number of threads on the
same cores, and the runs are interleaved. If the losses and gradients without dropout differ, the program ends without
measuring. With --also, more columns, which are not used as reference, show the PyTorch model with
scaled_dot_product_attention under torch.compile and under bfloat16 autocast, and handloom with precision "bf16". On
processors without bfloat16 instructions both bfloat16 columns are slow.

Variables that select a linear algebra library's kernels (such as OPENBLAS_CORETYPE) are unset for all libraries.
Compiled loops (the extra `fast`) and MKL (the extra `mkl`) are used if they are installed; HANDLOOM_COMPILED=0 and
HANDLOOM_MKL=0 turn them off.

"products" is the time of the step's matrix products alone, with NumPy, or with MKL if it is installed and faster. No
framework that uses these libraries can be faster, so "limit" = PyTorch's step / products is the largest possible ratio.
"share" = products / handloom's step is the part of this limit that handloom reaches. A share of 1 is impossible,
because the measured products find their operands in the cache, where the previous repetition left them.

With --data, the preset "laptop" determines the model, and the batches are the first batches of a training run, which
have different lengths and padding. handloom's Trainer and an equivalent loop in PyTorch clip gradients and use a
learning rate schedule. A round is one pass over these batches.

With --device cuda, both libraries clip gradients, and every side warms up before the first is measured. handloom runs
in fp16 (float32 weights, loss scale and clipping on the device) and in fp32, with and without CUDA graphs; PyTorch runs
with fp16 autocast, GradScaler and scaled_dot_product_attention, eager and compiled. A step's time is the mean over many
steps, after which the host waits once. "host" is the time that the host needs to issue a step, and memory is the peak
of the library's memory pools. The kernel launches of a step are read from CUDA graphs.
"""

import argparse
import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import side_by_side
from benchmarks.train_step_models import SIZES, TINY, Arrays, Size, prepare, sizes_of
from benchmarks.train_step_subjects import SIDES, create
from handloom.autograd.backend import check_device, import_cupy
from handloom.train.cells import markdown_table

REFERENCES = ("torch-layers", "torch-lean")
BATCHES = 3  # the gradients must agree on one of these batches
Work = tuple[Size, Sequence[Arrays] | None]  # the batches are of real data
CPU_TABLE = {
    "config": "configuration",
    "handloom": "handloom, ms:.1f",
    "torch-layers": "layers, ms:.1f",
    "torch-lean": "lean, ms:.1f",
    "ratio": "ratio:.2f",
    "torch-compiled": "compiled, ms:.1f",
    "handloom-bfloat16": "handloom bf16, ms:.1f",
    "torch-bfloat16": "bfloat16, ms:.1f",
    "tokens_per_second": "tokens/s:,",
    "mb": "MB:,",
    "memory_ratio": "ratio of MB:.2f",
    "products_ms": "products, ms:.1f",
    "limit": "limit:.2f",
    "share": "share:.2f",
}
CUDA_TABLE = {
    "side": "side",
    "ms": "ms:.2f",
    "host_ms": "host, ms:.2f",
    "tokens_per_second": "tokens/s:,",
    "peak_mb": "memory, MB:,",
    "launches": "kernel launches without graphs:,",
}


def compare_gradients(ours: Arrays, theirs: Arrays) -> dict[str, Any]:
    """Return the differences between the losses (`loss`) and the gradients, relative to the norm of each gradient.

    Norms are compared because rounding can move an activation across ReLU's kink, which changes one row of a gradient.
    """
    if set(ours) != set(theirs):
        raise SystemExit(f"the two models have different parameters: {sorted(set(ours) ^ set(theirs))}")
    differences = {name: float(np.linalg.norm(ours[name] - b) / np.linalg.norm(b)) for name, b in theirs.items()}
    loss = differences.pop("loss")
    worst = max(differences, key=lambda name: differences[name])
    median = statistics.median(differences.values())
    return {"loss": loss, "gradient": differences[worst], "parameter": worst, "median_gradient": median}


def agree(difference: Mapping[str, Any]) -> bool:
    """Return whether the loss, the median gradient and all gradients differ by less than 1e-5, 1e-3 and 1e-2."""
    return difference["loss"] < 1e-5 and difference["median_gradient"] < 1e-3 and difference["gradient"] < 1e-2


def start(sides: Sequence[str], device: str, work: Work, threads: int) -> Any:
    """Return the workers by name."""
    return side_by_side.started({side: (create, side, device, *work) for side in sides}, threads)


def prove_equal(work: Work, threads: int) -> dict[str, Any]:
    """Compare all gradients without dropout with PyTorch's. Raises SystemExit if they differ.

    Rounding can make a unit of the last layer active in one library only, and then the gradients of all layers below
    differ. Therefore only one of a few batches has to agree. If no batch agrees, the error message contains the
    differences of the last batch.
    """
    size, batches = work
    with start(("handloom", *REFERENCES), "cpu", (replace(size, dropout=0.0), batches), threads) as workers:
        for seed in range(BATCHES):
            ours = workers["handloom"].ask("gradients", seed)
            found = {side: compare_gradients(ours, workers[side].ask("gradients", seed)) for side in REFERENCES}
            if all(map(agree, found.values())):
                return found
    raise SystemExit(f"the two libraries compute different results; without dropout the differences are {found}")


def measure(work: Work, options: argparse.Namespace) -> dict[str, Any]:
    """Time interleaved rounds of each library. A round is a step, or a pass over all batches of real data."""
    equal = prove_equal(work, options.threads)
    further = {"compiled": ["torch-compiled"], "bfloat16": ["handloom-bfloat16", "torch-bfloat16"]}
    sides = ["handloom", *REFERENCES, *itertools.chain.from_iterable(further[name] for name in options.also)]
    batches = work[1]
    at_once = len(batches) if batches else 3  # steps of a side between two steps of the others
    rounds = options.steps if batches else -(-options.steps // at_once)
    with start(sides, "cpu", work, options.threads) as workers:
        for worker in workers.values():
            worker.ask("warm", at_once)
        seconds = side_by_side.interleaved(workers, rounds, "steps", at_once)
        memory = {side: worker.ask("memory") for side, worker in workers.items()}
        products = workers["handloom"].ask("products")
        libraries = {side: workers[side].ask("about") for side in ("handloom", "torch-lean")}
    for side, times in seconds.items():
        steps = itertools.chain.from_iterable(times)
        seconds[side] = [statistics.fmean(each) for each in times] if batches else list(steps)[: options.steps]
    median = {side: statistics.median(times) for side, times in seconds.items()}
    ruler = min(REFERENCES, key=lambda side: median[side])
    tokens = statistics.fmean(size.tokens for size in sizes_of(*work))
    return {
        "ruler": ruler,
        "ratio": round(median[ruler] / median["handloom"], 3),
        "memory_ratio": round(memory["handloom"] / memory[ruler], 3),
        "median_ms": {side: round(value * 1e3, 3) for side, value in median.items()},
        "all_ms": {side: [round(value * 1e3, 3) for value in times] for side, times in seconds.items()},
        "peak_mb": {side: round(value) for side, value in memory.items()},
        "products_ms": round(products * 1e3, 3),
        "limit": round(median[ruler] / products, 3),
        "share": round(products / median["handloom"], 3),
        "libraries": libraries,
        "equal_work": equal,
        "tokens_per_second": round(tokens / median["handloom"]),
        "threads": options.threads,
    }


def measure_on_gpu(work: Work, options: argparse.Namespace) -> dict[str, Any]:
    """Time the sides one after the other. The ratios are handloom's tokens per second in fp16 to PyTorch's."""
    found: dict[str, Any] = {}
    with start(list(SIDES["cuda"]), "cuda", work, threads=1) as workers:
        losses = {side: worker.ask("warm", 10) for side, worker in workers.items()}
        for side, worker in workers.items():
            times = [worker.ask("mean_step", options.steps) for _ in range(3)]
            best = min(times, key=lambda each: each["ms"])
            found[side] = {
                **best,
                "all_ms": [each["ms"] for each in times],
                "tokens_per_second": round(work[0].tokens / best["ms"] * 1e3),
                "peak_mb": round(worker.ask("memory")),
                "launches": worker.ask("launches"),
                "loss_after_warm_up": losses[side],
            }
    for side in ("handloom-fp16", "handloom-fp32"):  # without graphs, a step has the same launches one by one
        found[side]["launches"] = found[f"{side}-graphs"]["launches"]
    ours = max(found[side]["tokens_per_second"] for side in ("handloom-fp16-graphs", "handloom-fp16"))
    ratio = {side: round(ours / found[side]["tokens_per_second"], 3) for side in ("torch-eager", "torch-compile")}
    return {"sides": found, "ratio": ratio, "gpu": import_cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()}


def table(row: Mapping[str, Any]) -> str:
    """Return a Markdown table of a row of results, which has a line for each side on a GPU."""
    if "sides" in row:
        return markdown_table([{"side": side, **found} for side, found in row["sides"].items()], CUDA_TABLE)
    return markdown_table([{**row, **row["median_ms"], "mb": row["peak_mb"]["handloom"]}], CPU_TABLE)


def main() -> None:
    parser = side_by_side.program(__doc__, threads=2)
    configs = list(dict.fromkeys(["all", *SIZES["cpu"], *SIZES["cuda"], *TINY]))
    parser.add_argument("--config", default="all", choices=configs, help="model size (default: each report's)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="default: cpu")
    parser.add_argument("--steps", type=int, help="timed steps or rounds of each library (default: 9; 50 on a GPU)")
    parser.add_argument("--data", metavar="DATA", help="train on batches of this set: multi30k, embedded, or a path")
    parser.add_argument("--batches", type=int, default=20, help="number of batches in a round of --data (default: 20)")
    words = "further columns; torch.compile takes a minute per size"
    parser.add_argument("--also", nargs="+", choices=("compiled", "bfloat16"), default=(), help=words)
    options = parser.parse_args()
    cpu, sizes = options.device == "cpu", SIZES[options.device]
    options.steps = options.steps or (9 if cpu else 50)
    if options.data and not cpu:
        parser.error("--data needs --device cpu")
    if cpu:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # the workers inherit this setting
    else:
        check_device("cuda")
    every = {**SIZES["cuda"], **SIZES["cpu"], **TINY, **sizes}
    names = [options.data] if options.data else list(sizes) if options.config == "all" else [options.config]
    for name in names:
        work: Work = prepare(name, options.batches) if options.data else (every[name], None)
        row = {"config": name, **(measure if cpu else measure_on_gpu)(work, options), "steps": options.steps}
        row |= side_by_side.conditions("torch", "cupy-cuda13x", "cupy-cuda12x")
        print(f"{name}: PyTorch's time divided by handloom's: {row['ratio']}\n{table(row)}", flush=True)
        if options.json:
            side_by_side.merge_rows(options.json, [row])


if __name__ == "__main__":
    main()
