"""Command lines that should fail: for all examples, every kind of file and of option.

    python -m tests.command_sweep                all of them, some 2,500, in ten minutes; what is wrong is printed
    python -m tests.command_sweep --only data    those of one group; --list prints them without running them

The verdict on each: no traceback; exit code 0 or 2, and the one that is expected where it is known; an error is one
line that begins with "error: ", and says what is expected; a command that is refused leaves every file as it was, and
so does the use of a model; what has no effect is refused. `tests/test_command_sweep.py` runs a selection of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.command_lines import GROUPS
from tests.support.command_world import World

SLOW = 20  # seconds after which a command line is reported


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group")
    parser.add_argument("--list", action="store_true", help="print the command lines and run none")
    arguments = parser.parse_args()
    cases = [case for name in arguments.only or GROUPS for case in GROUPS[name]()]
    if arguments.list:
        print(*cases, sep="\n")
        return
    start, wrong = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for case in cases:
            begun = time.perf_counter()
            if problem := world.judge(case):
                wrong += 1
                print(f"{case}\n    {problem}", flush=True)
            if (seconds := time.perf_counter() - begun) > SLOW:
                print(f"{case}\n    took {seconds:.0f} s", flush=True)
    print(f"{len(cases):,} command lines in {time.perf_counter() - start:.0f} s, {wrong} went wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
