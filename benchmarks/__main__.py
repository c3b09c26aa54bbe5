"""Run the benchmarks for a CPU with their defaults: python -m benchmarks"""

import argparse
import subprocess
import sys

BENCHMARKS = ("bpe", "overhead", "train_step", "decode")


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__).parse_args()
    return max(subprocess.call([sys.executable, "-m", f"benchmarks.{name}"]) for name in BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main())
