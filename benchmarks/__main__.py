"""Run every benchmark with its defaults: python -m benchmarks"""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("attention", "bpe", "overhead", "train_step", "decode")


def main() -> int:
    return max(subprocess.call([sys.executable, "-m", f"benchmarks.{name}"]) for name in BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main())
