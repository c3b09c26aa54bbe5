"""Compare generation with Hugging Face's Marian model: the same weights, sizes and threads, in one run.

    python -m benchmarks.decode --json benchmarks/results/decode.json

Greedy and beam search (width 4), one sentence and 32, 24 source tokens and 64 new ones, float32, at two sizes: d_model
512, 6 + 6 layers, vocabulary 50,000; and d_model 256, 3 + 3 layers, vocabulary 30,000 (heads of 64, d_ff = 4 d_model).
Each engine runs in its own process, interleaved; environment variables that select BLAS kernels are unset. A ratio is
that of the median times. Both sides must generate the same ids. `--engines handloom transformers ctranslate2` also
compares with CTranslate2, where it is installed. `--prefix` measures how the time of one token grows with the number of
tokens before it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import write_results
from handloom.autograd.fast import compiled, mkl
from handloom.train.runs.machine import machine, versions

SIZES = {
    "d_model 256, 3+3 layers, vocabulary 30,000": {"d_model": 256, "layers": 3, "vocabulary": 30_000},
    "d_model 512, 6+6 layers, vocabulary 50,000": {"d_model": 512, "layers": 6, "vocabulary": 50_000},
}
SOURCE, NEW = 24, 64  # tokens
PREFIXES = (16, 64, 128, 256, 512)


class Engine:
    """A process that generates with one engine (`benchmarks.decode_subject`)."""

    def __init__(self, name: str, threads: int):
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(threads)
        command = [sys.executable, "-m", "benchmarks.decode_subject"]
        self.name = name
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, **task: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"engine": self.name, **task}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed at {task}; see its message above")
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()


def compare(engines: list[Engine], repeat: int) -> list[dict[str, Any]]:
    """All configurations, one after the other; in each one the engines take turns."""
    cells = []
    for title, size in SIZES.items():
        for engine in engines:
            engine.ask(build={**size, "positions": 128})
        for batch in (1, 32):
            for beam in (1, 4):
                task = {"batch": batch, "beam": beam, "source": SOURCE, "tokens": NEW}
                cells.append({"size": title, **task, **measure(engines, task, repeat)})
                print(line(cells[-1]), flush=True)
    return cells


def measure(engines: list[Engine], task: dict[str, int], repeat: int) -> dict[str, Any]:
    """Median tokens per second of each engine, after one warm-up run."""
    first = {engine.name: engine.ask(**task)["ids"] for engine in engines}
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for _ in range(repeat):
        for engine in engines:
            seconds[engine.name].append(engine.ask(**task)["seconds"])
    tokens = task["batch"] * task["tokens"]
    speed = {name: tokens / statistics.median(times) for name, times in seconds.items()}
    return {
        "tokens per second": speed,
        "seconds": seconds,
        "ratio": speed["handloom"] / speed["transformers"] if "transformers" in speed else None,
        "ratios": {name: speed["handloom"] / value for name, value in speed.items() if name != "handloom"},
        "sequences with equal ids": {
            name: f"{sum(a == b for a, b in zip(first['handloom'], ids, strict=True))} of {task['batch']}"
            for name, ids in first.items()
            if name != "handloom"
        },
        "distinct ids": len({token for ids in first["handloom"] for token in ids}),
    }


def line(cell: dict[str, Any]) -> str:
    speeds = ", ".join(f"{name} {value:,.0f}" for name, value in cell["tokens per second"].items())
    ratios = ", ".join(f"{value:.2f} x {name}" for name, value in cell["ratios"].items())
    equal = ", ".join(cell["sequences with equal ids"].values())
    return (
        f"{cell['size']}, batch {cell['batch']:2}, beam {cell['beam']}: {speeds} tokens/s; {ratios}; ids equal {equal}"
    )


def table(cells: list[dict[str, Any]], engines: list[str]) -> str:
    """The results as lines of Markdown: tokens per second of each engine, and the ratios to the others."""
    others = [name for name in engines if name != "handloom"]
    titles = ["", "handloom", *others, *(f"to {name}" for name in others)]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for cell in cells:
        search = "greedy" if cell["beam"] == 1 else f"beam {cell['beam']}"
        numbers = [f"{cell['tokens per second'][name]:,.0f}" for name in ("handloom", *others)]
        numbers += [f"{cell['ratios'][name]:.2f}" for name in others]
        lines.append(f"| {cell['size']}, batch {cell['batch']}, {search} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def prefixes(engine: Engine) -> dict[str, float]:
    """Milliseconds of one greedy token after prefixes of several lengths (medians of 16 tokens), batch 1."""
    engine.ask(build={**SIZES["d_model 512, 6+6 layers, vocabulary 50,000"], "positions": 1024})
    times = engine.ask(batch=1, source=SOURCE, beam=1, tokens=max(PREFIXES) + 16, every_step=True)["steps"]
    result = {str(n): 1000 * statistics.median(times[n - 8 : n + 8]) for n in PREFIXES}
    print("ms a token after a prefix of", ", ".join(f"{n}: {ms:.2f}" for n, ms in result.items()))
    return result


def about(engines: list[str]) -> dict[str, Any]:
    packages = ["numpy", *(name for name in ("transformers", "ctranslate2") if name in engines)]
    packages += ["torch"] if "transformers" in engines else []
    uses = [name for name in (compiled.library(), mkl.library()) if name]
    return {**machine(), **versions(*packages), "handloom uses": uses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("handloom", "transformers", "ctranslate2")
    parser.add_argument(
        "--engines", nargs="+", choices=names, default=names[:2], help="engines to compare (default: the first two)"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (default: 2)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each engine in each cell (default: 5)")
    parser.add_argument("--prefix", action="store_true", help="also measure the time per token by position")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the cells to this file")
    arguments = parser.parse_args()
    engines = [Engine(name, arguments.threads) for name in dict.fromkeys(["handloom", *arguments.engines])]
    cells = compare(engines, arguments.repeat)
    common = {"machine": about(arguments.engines), "threads": arguments.threads, "load average": os.getloadavg()[0]}
    if arguments.prefix:
        common["ms a token after a prefix"] = prefixes(engines[0])
    print(table(cells, [engine.name for engine in engines]))
    for engine in engines:
        engine.close()
    if arguments.json:
        write_results(arguments.json, [{**cell, **common} for cell in cells])


if __name__ == "__main__":
    main()
