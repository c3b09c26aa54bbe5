"""Measure data-parallel training: tokens per second of one process and of several, with one BLAS thread per process.

    python -m benchmarks.scaling --json benchmarks/results/scaling.json

Each measurement is a separate job, `mpirun -n N python examples/translate_de_en.py`, stopped after some updates; the
jobs are interleaved. The speed is the median of the rows of timings.jsonl, except the first row, because caches and
buffers are still cold in it. The ratio of two speeds is the ratio of their medians.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import conditions, program, worker_environment, write_results
from handloom.train.runs.folder import read_metrics

ROW = 5  # updates
RANKS = (1, 2)  # numbers of processes


def measure(ranks: int, steps: int) -> float:
    """Return the tokens per second of one job of `ranks` processes."""
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        sys.exit("mpirun was not found: pip install mpi4py mpich installs it")
    script = Path(__file__).parents[1] / "examples" / "translate_de_en.py"
    options = ["--log-every", str(ROW), "--stop-at", str(ROW + steps)]
    with tempfile.TemporaryDirectory() as folder:
        line = [mpirun, "-n", str(ranks), sys.executable, str(script), *options, "--out", f"{folder}/run"]
        done = subprocess.run(line, capture_output=True, text=True, env=worker_environment(1))
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return statistics.median(row["tokens_per_second"] for row in read_metrics(f"{folder}/run/timings.jsonl")[1:])


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("--steps", type=int, default=40, help="updates per measurement (default: 40)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements per number of processes (default: 5)")
    arguments = parser.parse_args()
    if min(arguments.steps // ROW, arguments.repeats) < 1:
        parser.error(f"--steps must be at least {ROW}, --repeats at least 1")
    speeds: dict[int, list[float]] = {ranks: [] for ranks in RANKS}
    for _ in range(arguments.repeats):
        for ranks, found in speeds.items():
            found.append(measure(ranks, arguments.steps))
    medians = {ranks: statistics.median(found) for ranks, found in speeds.items()}
    for ranks, median in medians.items():
        print(f"{ranks} process{'es' * (ranks > 1)}: {median:,.0f} tokens/s, {median / medians[1]:.2f} times one")
    result = {
        **conditions("mpi4py", "mpich"),
        "load average": os.getloadavg()[0],
        "tokens per second": {str(ranks): found for ranks, found in speeds.items()},
        "ratio of medians": {str(ranks): median / medians[1] for ranks, median in medians.items()},
    }
    write_results(arguments.json, result)


if __name__ == "__main__":
    main()
