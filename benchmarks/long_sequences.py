"""Training on long sequences: time per token and peak memory by length, for both methods of attention.

    python -m benchmarks.long_sequences --json benchmarks/results/long_sequences_cpu.json

A small language model (d_model 256, 4 heads, 2 layers) takes steps on 4,096 tokens, cut into sequences of the length.
"products" is the time that attention's own matrix products need for them at the speed of a plain product: 2 forward and
5 backward, half of each since no position sees the future. "rest" is the remaining time of the step, and "growth" is
the rest relative to that of the shortest length. Memory is that of one sequence, without the model's and the
optimiser's.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import Worker, take_turns, worker_environment, write_results
from benchmarks.train_step_sizes import Size
from benchmarks.train_step_worker import HandloomSubject, serve
from handloom.train.runs.machine import machine, versions

MODULE = "benchmarks.long_sequences"
METHODS = ("blocked", "standard")


def size_of(length: int, batch: int) -> Size:
    return Size("language model", batch, length, 0, 1000, 256, 1024, 2, heads=4, norm_first=True, max_length=length)


def subject(method: str, length: int, batch: int) -> HandloomSubject:
    """The model with this method in all attention layers."""
    from handloom.nn import MultiHeadAttention

    made = HandloomSubject(size_of(length, batch))
    for module in made.model.modules():
        if isinstance(module, MultiHeadAttention):
            module.method = method
    return made


def products_seconds(length: int, batch: int, gflops: float) -> float:
    """Seconds of attention's matrix products in a step, all layers."""
    size = size_of(length, batch)
    return size.layers * 7 * 2 * batch * length**2 * size.d_model / 2 / (gflops * 1e9)


def times(lengths: list[int], tokens: int, steps: int, threads: int) -> list[dict[str, Any]]:
    """A row for each method and length; the lengths of a method take turns."""
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        with contextlib.ExitStack() as stack:
            workers = {}
            for length in lengths:
                arguments = ["worker", method, str(length), str(tokens // length)]
                workers[str(length)] = stack.enter_context(Worker(MODULE, arguments, worker_environment(threads)))
                workers[str(length)].ask("steps 2")
            seconds = take_turns(workers, steps)
            gflops = workers[str(lengths[0])].ask("about")["gflops"]
        first = 0.0
        for length in lengths:
            whole = statistics.median(seconds[str(length)])
            products = products_seconds(length, tokens // length, gflops)
            first = first or whole - products
            rows.append(
                {
                    "method": method,
                    "length": length,
                    "us_a_token": whole / tokens * 1e6,
                    "products_us_a_token": products / tokens * 1e6,
                    "rest_us_a_token": (whole - products) / tokens * 1e6,
                    "growth": (whole - products) / first,
                    "gflops": gflops,
                }
            )
    return rows


def memory(length: int, method: str, threads: int) -> float:
    """Peak MB of two steps on one sequence, beyond the memory resident before."""
    with Worker(MODULE, ["worker", method, str(length), "1"], worker_environment(threads)) as worker:
        worker.ask("reset")
        before = worker.ask("memory")
        worker.ask("steps 2")
        return round(worker.ask("memory") - before, 1)


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        method, length, batch = sys.argv[2:]
        serve(subject(method, int(length), int(batch)), [])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048], metavar="N", help="sequence lengths to time"
    )
    parser.add_argument(
        "--tokens", type=int, default=4096, help="tokens per batch, a multiple of each length (default: 4096)"
    )
    parser.add_argument(
        "--memory-lengths",
        type=int,
        nargs="*",
        default=[1024, 2048, 4096],
        metavar="N",
        help="sequence lengths for peak memory",
    )
    parser.add_argument("--steps", type=int, default=6, help="timed steps (default: 6)")
    here = machine()
    parser.add_argument("--threads", type=int, default=min(2, here["cores"]), help="threads (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables to this file")
    arguments = parser.parse_args()
    if any(length < 1 or arguments.tokens % length for length in arguments.lengths) or arguments.steps < 1:
        parser.error(f"--lengths must divide --tokens, {arguments.tokens}, and --steps be at least 1")
    rows = times(arguments.lengths, arguments.tokens, arguments.steps, arguments.threads)
    print(f"microseconds a token\n{'method':9}{'length':>7}{'step':>8}{'products':>10}{'rest':>8}{'growth':>8}")
    for row in rows:
        print(
            f"{row['method']:9}{row['length']:7}{row['us_a_token']:8.1f}{row['products_us_a_token']:10.1f}"
            f"{row['rest_us_a_token']:8.1f}{row['growth']:8.2f}"
        )
    peaks = [
        {"method": method, "length": length, "peak_mb": memory(length, method, arguments.threads)}
        for method in METHODS
        for length in arguments.memory_lengths
    ]
    print("peak memory of a step on one sequence, MB")
    for peak in peaks:
        print(f"{peak['method']:9}{peak['length']:7}{peak['peak_mb']:10,.0f}")
    if arguments.json:
        result = {"times": rows, "memory": peaks, "threads": arguments.threads, "machine": here}
        result["versions"] = versions("handloom", "numpy")
        write_results(arguments.json, result)


if __name__ == "__main__":
    main()
