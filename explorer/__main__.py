"""Explore a trained model in the browser.

python -m handloom.explorer                    trains a small translator first, and shows its training
python -m handloom.explorer runs/translate     a finished run, or one that is being trained
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..train.cli.command_line import run_main
from .serving import explore


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m handloom.explorer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="folder of the run (default: train a model)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, don't open a browser")
    arguments = parser.parse_args()
    explore(arguments.run, port=arguments.port, browser=not arguments.no_browser)


if __name__ == "__main__":
    run_main(main)
