"""Measure training on long sequences: time per token and peak memory for each length and for two methods of attention.

    python -m benchmarks.long_sequences --json benchmarks/results/long_sequences_cpu.json

A small language model (d_model 256, 4 heads, 2 layers) takes steps on 4,096 tokens, cut into sequences of each length.
"products" is the time that attention's matrix products (2 forward and 5 backward) would take at the speed of a plain
product. Only half of each product is counted, because no position attends to later positions. "rest" is the remaining
time of the step, and "growth" is the rest divided by the rest at the shortest length. Memory is measured for a step on
one sequence, without model and optimiser.
"""

import dataclasses
import statistics
from typing import Any

from benchmarks.side_by_side import conditions, interleaved, program, started, worker_environment, write_results
from benchmarks.train_step_models import Size
from benchmarks.train_step_subjects import Handloom
from handloom.train.tables.cells import markdown_table

METHODS = ("blocked", "standard")
TOKENS = 4096  # of a step
LENGTHS, MEMORY_LENGTHS = (256, 512, 1024, 2048), (1024, 2048, 4096)
COLUMNS = {
    "method": "method",
    "length": "length:,",
    "us_a_token": "step:.1f",
    "products_us_a_token": "products:.1f",
    "rest_us_a_token": "rest:.1f",
    "growth": "growth:.2f",
    "peak_mb": "peak memory, MB:,.0f",
}


def size_of(method: str, length: int, batch: int) -> Size:
    return Size(
        "language model", batch, length, 0, 1000, 256, 1024, 2, heads=4, norm_first=True, max_length=length,
        attention=method,
    )  # fmt: skip


def products_seconds(size: Size, gflops: float) -> float:
    """Return the seconds of attention's matrix products in a step, over all layers."""
    return size.layers * 7 * 2 * size.batch * size.source**2 * size.d_model / 2 / (gflops * 1e9)


def times(method: str, steps: int, threads: int) -> list[dict[str, Any]]:
    """Return a row of results for each length. The measurements are interleaved."""
    sizes = {str(length): size_of(method, length, TOKENS // length) for length in LENGTHS}
    subjects = {name: (Handloom, dataclasses.asdict(size)) for name, size in sizes.items()}
    with started(subjects, worker_environment(threads)) as workers:
        for worker in workers.values():
            worker.ask("steps", 2)
        answers = interleaved(workers, steps, "steps", 1)
        gflops = workers[str(LENGTHS[0])].ask("about")["gflops"]
    rows: list[dict[str, Any]] = []
    for name, size in sizes.items():
        whole = statistics.median(second for (second,) in answers[name])
        products = products_seconds(size, gflops)
        parts = {"us_a_token": whole, "products_us_a_token": products, "rest_us_a_token": whole - products}
        rows.append({"method": method, "length": int(name), "gflops": gflops})
        rows[-1] |= {part: seconds / TOKENS * 1e6 for part, seconds in parts.items()}
        rows[-1]["growth"] = rows[-1]["rest_us_a_token"] / rows[0]["rest_us_a_token"]
    return rows


def memory(method: str, length: int, threads: int) -> float:
    """Return the peak memory of two steps on one sequence in MB, minus the memory in use before the steps."""
    subject = (Handloom, dataclasses.asdict(size_of(method, length, 1)))
    with started({"handloom": subject}, worker_environment(threads)) as workers:
        worker = workers["handloom"]
        worker.ask("reset_memory")
        before = worker.ask("memory")
        worker.ask("steps", 2)
        return round(worker.ask("memory") - before, 1)


def main() -> None:
    parser = program(__doc__, threads=2)
    parser.add_argument("--steps", type=int, default=6, help="timed steps (default: 6)")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    rows = [row for method in METHODS for row in times(method, options.steps, options.threads)]
    print(f"microseconds a token\n{markdown_table(rows, COLUMNS)}", flush=True)
    peaks = [
        {"method": method, "length": length, "peak_mb": memory(method, length, options.threads)}
        for method in METHODS
        for length in MEMORY_LENGTHS
    ]
    print(f"a step on one sequence\n{markdown_table(peaks, COLUMNS)}")
    write_results(options.json, {"times": rows, "memory": peaks, "threads": options.threads, **conditions()})


if __name__ == "__main__":
    main()
