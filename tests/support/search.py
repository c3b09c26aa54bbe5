"""Searches with random seeds: the tests marked `search`, again and again with new draws, for a number of minutes.

    python -m tests.support.search --minutes 60

In the suite the same tests draw the same few examples each time, so that its verdict does not depend on the day. Here
each round has its own seed and eight times as many examples. A failure ends the search and shows its example, and the
seed with which it can be repeated.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time

#: What Hypothesis prints of a test under --hypothesis-show-statistics.
_CASES = re.compile(r"(\d+) passing(?: examples)?, (\d+) failing")


def one_round(seed: int, chosen: list[str]) -> subprocess.Popen[str]:
    """Start the tests marked `search` once, with `seed` for their draws."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "search", f"--hypothesis-seed={seed}"]
    command += ["--hypothesis-show-statistics", *chosen]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "search", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main() -> int:
    """Search until the minutes are over or a test fails; print the number of cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="start no further round after this time")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="rounds at the same time")
    parser.add_argument("tests", nargs="*", help="files of tests, or other options of pytest; default: all")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    rounds = cases = 0
    while rounds == 0 or time.monotonic() < end:
        seeds = [secrets.randbelow(2**32) for _ in range(options.processes)]
        for seed, process in [(seed, one_round(seed, options.tests)) for seed in seeds]:
            printed, _ = process.communicate()
            if process.returncode:
                print(printed, f"failed with the seed {seed}, after {cases} cases", sep="\n")
                return 1
            cases += sum(int(passing) for passing, _ in _CASES.findall(printed))
            rounds += 1
        print(f"{rounds} rounds, {cases} cases, no failure", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
