"""Compare a training step with PyTorch's: time, tokens per second, peak memory, and equal results.

    python -m benchmarks.train_step --config all --json benchmarks/results/train_step_cpu.json
    python -m benchmarks.train_step --config paraphrase --profile
    python -m benchmarks.train_step --device cuda                             see benchmarks/train_step_device.py

Both train the same model on the same batch: forward, backward, Adam. PyTorch (eager) is measured twice, with the
layers of nn.Transformer and with scaled_dot_product_attention instead; the faster one is the reference. Its Adam
is the fused one. Each runs in a process of its own, with the same number of threads on the same cores, interleaved.
Without dropout their losses and gradients must agree, or nothing is measured.

Variables that select a linear algebra library's kernels (OPENBLAS_CORETYPE and the like) are unset for all. If the
environment sets any, a second measurement keeps them and is shown next to the first.

A further column shows torch.compile: the layers with scaled_dot_product_attention, compiled before timing. Where it
fails (it needs a C++ compiler) the reason is printed. It is not used as the reference.

"products" is the time for the matrix products of the step alone, by NumPy or, where MKL is installed and faster, by
that: no framework on these libraries is faster, so "limit" = PyTorch's step / products is the largest ratio possible;
"share" = products / handloom's step says how much of it is reached. It is out of reach for any step, since each product
there finds its operands in the cache, left by the repetition before; "products with operands from memory", the last
lines, is what the same products take on arrays of their own, as in a step. Compiled loops (the extra `fast`) and MKL
(the extra `mkl`) are used where they are installed; HANDLOOM_COMPILED=0 and HANDLOOM_MKL=0 leave them out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import train_step_device
from benchmarks.side_by_side import (
    Disturbance,
    Worker,
    agree,
    compare_gradients,
    merge_rows,
    require_equal,
    selecting_variables,
    summary,
    take_turns,
    worker_environment,
)
from benchmarks.train_step_device import DEVICE_SIZES
from benchmarks.train_step_profile import print_profile
from benchmarks.train_step_sizes import MORE, SIZES, size_of
from benchmarks.train_step_worker import COMPILED, SIDES
from handloom.train.runs.machine import machine, versions

MODULE = "benchmarks.train_step_worker"
WARM_UP = 3
BATCHES = 3  # on one of which the gradients must agree


@contextlib.contextmanager
def started(config: str, threads: int, environment: Mapping[str, str], sides: tuple[str, ...] = SIDES) -> Iterator[Any]:
    """The worker processes by name."""
    with contextlib.ExitStack() as stack:
        yield {
            side: stack.enter_context(Worker(MODULE, [side, config, str(threads)], environment)) for side in sides
        }


def prove_equal(config: str, threads: int, environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Write handloom's initial weights to `folder` / weights.npz and compare all gradients with its own.

    In separate processes, so that their memory does not count as that of training. A unit of the last layer within
    rounding of ReLU's kink that is on for one side only changes the gradients of all layers below: one of a few batches
    has to agree, and where none does the last one's differences are named.
    """
    weights, files = folder / "weights.npz", {side: folder / f"{side}.npz" for side in SIDES}
    for seed in range(BATCHES):
        found = {}
        for side in SIDES:
            with started(config, threads, environment, (side,)) as workers:
                workers[side].ask(f"{'save' if side == 'handloom' else 'load'} {weights}")
                workers[side].ask(f"batch {seed}")
                workers[side].ask(f"gradients {files[side]}")
            if side != "handloom":
                found[side] = compare_gradients(files["handloom"], files[side])
        if all(map(agree, found.values())):
            break
    for difference in found.values():
        require_equal(difference)
    return found


def measure(
    config: str, steps: int, threads: int, environment: Mapping[str, str], weights: Path, compiled: bool = False
) -> dict[str, Any]:
    """Time `steps` steps of each of the three, which take turns; with `compiled` also of torch.compile's."""
    size = size_of(config)
    sides = (*SIDES, COMPILED) if compiled else SIDES
    with Disturbance() as disturbance, started(config, threads, environment, sides) as workers:
        failed = workers[COMPILED].ask("try") if compiled else None
        if failed:
            del workers[COMPILED]
        for side, worker in workers.items():
            if side != "handloom":  # it has them already, from the same seed
                worker.ask(f"load {weights}")
            worker.ask("reset")
            worker.ask(f"steps {WARM_UP}")
        seconds = take_turns(workers, steps)
        memory = {side: worker.ask("memory") for side, worker in workers.items()}
        found = summary(seconds, memory, beside=[COMPILED])
        if failed:
            found["torch_compile_failed"] = failed
        found["tokens_per_second"] = {
            side: round(size.tokens / milliseconds * 1e3) for side, milliseconds in found["median_ms"].items()
        }
        found["products_ms"] = round(workers["handloom"].ask("products") * 1e3, 3)
        found["products_from_memory_ms"] = round(workers["handloom"].ask("products_from_memory") * 1e3, 3)
        found["limit"] = round(found["median_ms"][found["ruler"]] / found["products_ms"], 3)
        found["share"] = round(found["products_ms"] / found["median_ms"]["handloom"], 3)
        found["libraries"] = {side: workers[side].ask("about") for side in ("handloom", "torch-lean")}
    found["others_load"] = disturbance.share
    return found


def row(config: str, steps: int, threads: int, here: Mapping[str, Any], compiled: bool = False) -> dict[str, Any]:
    """All measurements of one configuration on the machine `here`."""
    set_here = selecting_variables(os.environ)
    environment = worker_environment(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        equal = prove_equal(config, threads, environment, folder)
        found = measure(config, steps, threads, environment, folder / "weights.npz", compiled)
        if set_here:
            kept = worker_environment(threads, keep_selecting=True)
            found["with_environment"] = measure(config, steps, threads, kept, folder / "weights.npz")
    return {
        "config": config,
        **found,
        "equal_work": equal,
        "threads": threads,
        "steps": steps,
        "unset": set_here,
        "versions": versions("handloom", "numpy", "torch"),
        "machine": here,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": f"python -m benchmarks.train_step --config {config} --steps {steps} --threads {threads}",
    }


HEAD = (
    f"{'configuration':20} {'handloom':>9} {'layers':>8} {'lean':>8} {'ratio':>6} {'compiled':>8} {'tokens/s':>9} "
    f"{'memory':>8} {'theirs':>8} {'ratio':>6} {'products':>9} {'limit':>6} {'share':>6}"
)


def line(name: str, found: Mapping[str, Any]) -> str:
    """A row of the table. Times in ms, memory in MB."""
    median, memory = found["median_ms"], found["peak_mb"]
    return (
        f"{name:20} {median['handloom']:9.1f} {median['torch-layers']:8.1f} {median['torch-lean']:8.1f} "
        f"{found['ratio']:6.2f} {median.get(COMPILED, float('nan')):8.1f} "
        f"{found['tokens_per_second']['handloom']:9,} {memory['handloom']:8,} {memory[found['ruler']]:8,} "
        f"{found['memory_ratio']:6.2f} {found['products_ms']:9.1f} {found['limit']:6.2f} {found['share']:6.2f}"
    )


def show_profile(config: str, steps: int, threads: int) -> None:
    with started(config, threads, worker_environment(threads), ("handloom",)) as workers:
        workers["handloom"].ask(f"steps {WARM_UP}")
        print(f"\n{config}: where handloom's step goes (mean of {steps} steps; profiling costs a little)")
        print_profile(workers["handloom"].ask(f"profile {steps}"))


def say_conditions(here: Mapping[str, Any], threads: int) -> None:
    print(f"{here['cpu']}, {here['cores']} cores, {threads} threads each, Python {here['python']}")
    if set_here := selecting_variables(os.environ):
        said = ", ".join(f"{name}={value}" for name, value in set_here.items())
        print(f"unset for the measurement: {said}; a second line of each table row keeps them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    configs = dict.fromkeys(["all", *SIZES, *DEVICE_SIZES, *MORE])
    parser.add_argument("--config", default="all", choices=list(configs), help="model size (default: all six)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="default: cpu")
    parser.add_argument("--steps", type=int, help="timed steps of each side (default: 9; 50 on a GPU)")
    here = machine()
    cores = here["cores"]
    parser.add_argument("--threads", type=int, default=min(2, cores), help="threads of each side (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the rows to this file, or replace them there")
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile, which takes a minute per size")
    parser.add_argument("--profile", action="store_true", help="only profile handloom, op by op")
    arguments = parser.parse_args()
    if arguments.config not in {**SIZES, **MORE, "all": None} and arguments.device == "cpu":
        parser.error(f"--config {arguments.config} is a size for --device cuda")
    if arguments.steps is None:
        arguments.steps = 9 if arguments.device == "cpu" else 50
    if arguments.steps < 1 or not 1 <= arguments.threads <= cores:
        parser.error(f"--steps must be at least 1, --threads between 1 and this machine's {cores}")
    if arguments.device == "cuda":
        if arguments.profile:
            parser.error("--profile is for the CPU; on a GPU use Nsight Systems")
        chosen = list(DEVICE_SIZES) if arguments.config == "all" else [arguments.config]
        train_step_device.run(chosen, arguments.steps, arguments.json)
        return
    if hasattr(os, "sched_setaffinity"):  # for the workers, which inherit it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    configs = list(SIZES) if arguments.config == "all" else [arguments.config]
    say_conditions(here, arguments.threads)
    if arguments.profile:
        for config in configs:
            show_profile(config, arguments.steps, arguments.threads)
        return
    if find_spec("torch") is None:
        sys.exit("The other side is missing: pip install '.[oracles]' (PyTorch). --profile works without it.")
    print(f"ms a step (medians), MB at the peak; ratio > 1: handloom is faster\n{HEAD}", flush=True)
    rows = []
    for config in configs:
        rows.append(row(config, arguments.steps, arguments.threads, here, compiled=not arguments.no_compile))
        print(line(config, rows[-1]), flush=True)
        if failed := rows[-1].get("torch_compile_failed"):
            print(f"  torch.compile: {failed}")
        if other := rows[-1].get("with_environment"):
            print(line("  as the caller sets it", other), flush=True)
        if arguments.json:
            merge_rows(arguments.json, rows)
    for found in rows:
        print(
            f"{found['config']}: products with operands from memory {found['products_from_memory_ms']:.0f} ms, "
            f"{found['products_from_memory_ms'] / found['median_ms']['handloom']:.2f} of the step"
        )
        about, worst = found["libraries"], max(e["gradient"] for e in found["equal_work"].values())
        print(
            f"{found['config']}: gradients agree to {worst:.0e}; a plain product of 1024 x 1024: NumPy "
            f"{about['handloom']['gflops']} GFLOP/s ({about['handloom']['kernels']}), "
            f"PyTorch {about['torch-lean']['gflops']} GFLOP/s ({about['torch-lean']['kernels']}); other programs took "
            f"{found['others_load']:.0%} of the processors"
        )


if __name__ == "__main__":
    main()
