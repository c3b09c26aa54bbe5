"""Measure the processor time of a first answer: starting Python, loading the model, translating one sentence.

    python -m benchmarks.first_answer

The benchmark runs `handloom translate "Wo ist der Bahnhof?"`, the same translation with `examples/translate_de_en.py`,
and `import numpy` alone, which is part of the two other runs. The runs are interleaved. For each of the three commands,
the benchmark prints the shortest and the median processor time (user and system).
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import conditions, processor_time, program, worker_environment, write_results

STARTS = 20  # of each command
COMMANDS = {
    "handloom translate": ["-m", "handloom", "translate", "Wo ist der Bahnhof?"],
    "translate_de_en.py": ["examples/translate_de_en.py", "Wo ist der Bahnhof?"],
    "import numpy": ["-c", "import numpy"],
}


def seconds(arguments: list[str], cache: Path) -> float:
    """Return the processor time of a Python process; `cache` is the folder of its compiled modules."""
    environment = {**worker_environment(1), "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = processor_time()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    return processor_time() - before


def main() -> None:
    options = program(__doc__).parse_args()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for start in range(STARTS + 1):
            for name, arguments in COMMANDS.items():
                taken = seconds(arguments, Path(folder))
                times[name] += [taken] if start else []  # the first start compiles the modules
    for name, found in times.items():
        print(f"{name}: {min(found):.2f} s of processor time at best, {statistics.median(found):.2f} s in the median")
    write_results(options.json, {"seconds": times, **conditions()})


if __name__ == "__main__":
    main()
