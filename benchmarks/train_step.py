"""Compare a training step with PyTorch's: time, tokens per second, peak memory, and equal results.

    python -m benchmarks.train_step --config all --json benchmarks/results/train_step_cpu.json
    HANDLOOM_DATA=folder python -m benchmarks.train_step --data multi30k
    python -m benchmarks.train_step --device cuda                             see benchmarks/train_step_device.py

handloom and PyTorch train the same model on the same batch: forward, backward, Adam. PyTorch (eager, float32, with
fused Adam) is measured with the layers of nn.Transformer and with scaled_dot_product_attention; the faster of the two
is the reference. Each library runs in a separate process, with the same number of threads on the same cores, and the
runs are interleaved. If the losses and gradients without dropout differ, the program ends without measuring. With
--also, two more columns, which are not used as reference, show the PyTorch model with scaled_dot_product_attention
under torch.compile and under bfloat16 autocast, which is very slow on processors without bfloat16 instructions.

Variables that select a linear algebra library's kernels (such as OPENBLAS_CORETYPE) are unset for all libraries.

"products" is the time of the step's matrix products alone, with NumPy, or with MKL if it is installed and faster. No
framework that uses these libraries can be faster, so "limit" = PyTorch's step / products is the largest possible ratio.
"share" = products / handloom's step is the part of this limit that handloom reaches. A share of 1 is impossible,
because the measured products find their operands in the cache, where the previous repetition left them. Compiled loops
(the extra `fast`) and MKL (the extra `mkl`) are used if they are installed; HANDLOOM_COMPILED=0 and HANDLOOM_MKL=0 turn
them off.

With --data, the preset determines the model, and the batches are the first batches of a training run, which have
different lengths and padding. handloom's Trainer and an equivalent loop in PyTorch clip gradients and use a learning
rate schedule. A round is one pass over these batches.
"""

import argparse
import dataclasses
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import side_by_side, train_step_device
from benchmarks.train_step_device import DEVICE_SIZES
from benchmarks.train_step_models import MORE, SIZES, Size, prepare
from benchmarks.train_step_subjects import Handloom, Torch, save_batches
from handloom.train.runs.results import machine
from handloom.train.tables.cells import markdown_table

REFERENCES = ("torch-layers", "torch-lean")
SIDES = ("handloom", *REFERENCES)
WARM_UP = 3
BATCHES = 3  # number of batches; the gradients must agree on one of them


@dataclasses.dataclass
class Task:
    """A training step to measure. `batches` is a file of `count` batches of real data."""

    size: Size
    threads: int
    folder: Path
    batches: str | None = None
    count: int = 1

    @property
    def weights(self) -> str:
        return str(self.folder / "weights.npz")

    def start(self, *sides: str) -> Any:
        """Return the workers by name."""
        common = dataclasses.asdict(self.size), self.batches
        kinds = {side: (Torch, side.removeprefix("torch-"), self.threads, *common) for side in sides}
        kinds |= {"handloom": (Handloom, *common)} if "handloom" in sides else {}
        return side_by_side.started(kinds, self.threads)


def compare_gradients(ours: Path, theirs: Path) -> dict[str, Any]:
    """Return the differences between two files of `loss` and gradients, relative to the norm of each gradient.

    Norms are compared because rounding can move an activation across ReLU's kink, which changes one row of a gradient.
    """
    with np.load(ours) as a, np.load(theirs) as b:
        if set(a.files) != set(b.files):
            raise SystemExit(f"the two models have different parameters: {sorted(set(a.files) ^ set(b.files))}")
        loss = abs(float(a["loss"]) - float(b["loss"])) / abs(float(b["loss"]))
        differences = {
            name: float(np.linalg.norm(a[name] - b[name]) / np.linalg.norm(b[name]))
            for name in a.files
            if name != "loss"
        }
    worst = max(differences, key=lambda name: differences[name])
    median = statistics.median(differences.values())
    return {"loss": loss, "gradient": differences[worst], "parameter": worst, "median_gradient": median}


def agree(difference: Mapping[str, Any]) -> bool:
    """Return whether the loss, the median gradient and all gradients differ by less than 1e-5, 1e-3 and 1e-2."""
    return difference["loss"] < 1e-5 and difference["median_gradient"] < 1e-3 and difference["gradient"] < 1e-2


def prove_equal(task: Task) -> dict[str, Any]:
    """Write handloom's initial weights and compare all gradients with PyTorch's. Raises SystemExit if they differ.

    The comparison runs in separate processes, so that its memory is not counted as memory of training. Rounding can
    make a unit of the last layer active in one library only, and then the gradients of all layers below differ.
    Therefore only one of a few batches has to agree. If no batch agrees, the error message contains the differences of
    the last batch.
    """
    files = {side: task.folder / f"{side}.npz" for side in SIDES}
    with task.start(*SIDES) as workers:
        workers["handloom"].ask("save_weights", task.weights)
        for side in REFERENCES:
            workers[side].ask("load_file", task.weights)
        for seed in range(BATCHES):
            for side, worker in workers.items():
                worker.ask("save_gradients", str(files[side]), seed)
            found = {side: compare_gradients(files["handloom"], files[side]) for side in REFERENCES}
            if all(map(agree, found.values())):
                return found
    wrong = next(difference for difference in found.values() if not agree(difference))
    raise SystemExit(
        f"the two libraries compute different results: without dropout the losses differ by {wrong['loss']:.1e} and "
        f"the gradients of {wrong['parameter']} by {wrong['gradient']:.1e} of its norm"
    )


def measure(task: Task, steps: int, columns: Sequence[str]) -> dict[str, Any]:
    """Time `steps` interleaved rounds of each library. A round is a step, or a pass over all batches of real data."""
    with task.start(*SIDES, *columns) as workers:
        for side, worker in workers.items():
            if side != "handloom":  # handloom has these weights already, from the same seed
                worker.ask("load_file", task.weights)
            worker.ask("reset_memory")
            worker.ask("steps", WARM_UP if task.batches is None else task.count)
        at_once = 3 if task.batches is None else task.count
        answers = side_by_side.interleaved(workers, -(-steps // 3) if task.batches is None else steps, "steps", at_once)
        seconds = {side: _rounds(times, task)[:steps] for side, times in answers.items()}
        memory = {side: worker.ask("memory") for side, worker in workers.items()}
        found = summary(seconds, memory)
        found["products_ms"] = round(workers["handloom"].ask("products") * 1e3, 3)
        found["limit"] = round(found["median_ms"][found["ruler"]] / found["products_ms"], 3)
        found["share"] = round(found["products_ms"] / found["median_ms"]["handloom"], 3)
        found["libraries"] = {side: workers[side].ask("about") for side in ("handloom", "torch-lean")}
    return found


def _rounds(answers: list[list[float]], task: Task) -> list[float]:
    """Return the seconds of each step, or with batches of real data the mean over each pass."""
    return [statistics.fmean(each) for each in answers] if task.batches else [one for each in answers for one in each]


def summary(seconds: Mapping[str, Sequence[float]], memory: Mapping[str, float]) -> dict[str, Any]:
    """Return medians, all single times and ratios to the reference, which is the faster of PyTorch's two models."""
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ruler = min(REFERENCES, key=lambda name: median[name])
    return {
        "ruler": ruler,
        "ratio": round(median[ruler] / median["handloom"], 3),
        "memory_ratio": round(memory["handloom"] / memory[ruler], 3),
        "median_ms": {name: round(value * 1e3, 3) for name, value in median.items()},
        "all_ms": {name: [round(value * 1e3, 3) for value in values] for name, values in seconds.items()},
        "peak_mb": {name: round(value) for name, value in memory.items()},
    }


TABLE = {
    "config": "configuration",
    "handloom": "handloom, ms:.1f",
    "torch-layers": "layers, ms:.1f",
    "torch-lean": "lean, ms:.1f",
    "ratio": "ratio:.2f",
    "torch-compiled": "compiled, ms:.1f",
    "torch-bfloat16": "bfloat16, ms:.1f",
    "tokens_per_second": "tokens/s:,",
    "ours": "MB:,",
    "theirs": "PyTorch's MB:,",
    "memory_ratio": "ratio of MB:.2f",
    "products_ms": "products, ms:.1f",
    "limit": "limit:.2f",
    "share": "share:.2f",
}


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the columns of TABLE."""
    memory = row["peak_mb"]
    return {**row, **row["median_ms"], "ours": memory["handloom"], "theirs": memory[row["ruler"]]}


def notes(row: Mapping[str, Any]) -> str:
    """Return a line for results that have no column."""
    about, worst = row["libraries"], max(each["gradient"] for each in row["equal_work"].values())
    return (
        f"{row['config']}: gradients agree to {worst:.0e}; a plain product of 1024 x 1024: NumPy "
        f"{about['handloom']['gflops']} GFLOP/s ({about['handloom']['kernels']}), "
        f"PyTorch {about['torch-lean']['gflops']} GFLOP/s ({about['torch-lean']['kernels']})"
    )


def tasks(options: argparse.Namespace, folder: Path) -> dict[str, Task]:
    """Return the tasks to measure, by name."""
    if options.data is None:
        names = list(SIZES) if options.config == "all" else [options.config]
        sizes = {**DEVICE_SIZES, **SIZES, **MORE}
        return {name: Task(sizes[name], options.threads, folder) for name in names}
    size, batches = prepare(options.data, options.preset, options.batches)
    tokens = sum(batch.source.size + batch.target_input.size for batch in batches) / len(batches)
    size = dataclasses.replace(size, batch=1, source=round(tokens), target=0)
    file = folder / "batches.npz"
    save_batches(file, batches)
    task = Task(size, options.threads, folder, str(file), len(batches))
    return {f"{options.data}, {options.preset}": task}


def main() -> None:
    parser = side_by_side.program(__doc__, threads=2)
    configs = list(dict.fromkeys(["all", *SIZES, *DEVICE_SIZES, *MORE]))
    parser.add_argument("--config", default="all", choices=configs, help="model size (default: all six)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="default: cpu")
    parser.add_argument("--steps", type=int, help="timed steps or rounds of each library (default: 9; 50 on a GPU)")
    parser.add_argument("--data", metavar="DATA", help="train on batches of this set: multi30k, embedded, or a path")
    parser.add_argument("--preset", default="laptop", choices=("laptop", "smoke"), help="model for --data")
    parser.add_argument("--batches", type=int, default=20, help="number of batches in a round of --data (default: 20)")
    words = "further columns; torch.compile takes a minute per size"
    parser.add_argument("--also", nargs="+", choices=("compiled", "bfloat16"), default=(), help=words)
    options = parser.parse_args()
    options.steps = options.steps or (9 if options.device == "cpu" else 50)
    if options.device == "cuda":
        chosen = list(DEVICE_SIZES) if options.config == "all" else [options.config]
        train_step_device.run(chosen, options.steps, options.json)
        return
    if hasattr(os, "sched_setaffinity"):  # the workers inherit this setting
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    with tempfile.TemporaryDirectory() as folder:
        compare(tasks(options, Path(folder)), options)


def compare(planned: Mapping[str, Task], options: argparse.Namespace) -> None:
    here, columns = machine(), [f"torch-{name}" for name in options.also]
    print(f"{here['cpu']}, {here['cores']} cores, {options.threads} threads each, Python {here['python']}")
    rows: list[dict[str, Any]] = []
    for name, task in planned.items():
        equal = prove_equal(task)
        row = {"config": name, **measure(task, options.steps, columns), "equal_work": equal}
        row["tokens_per_second"] = round(task.size.tokens / row["median_ms"]["handloom"] * 1e3)
        rows.append(row | {"threads": options.threads, "steps": options.steps} | side_by_side.conditions("torch"))
        print(notes(row), flush=True)
        if options.json:
            side_by_side.merge_rows(options.json, rows)
    print(f"medians; memory at the peak; ratio > 1: handloom is faster\n{markdown_table(list(map(flat, rows)), TABLE)}")


if __name__ == "__main__":
    main()
