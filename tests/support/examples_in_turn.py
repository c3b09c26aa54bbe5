"""Runs examples one after the other in one process: python -m tests.support.examples_in_turn COMMANDS.json

The file contains a list of command lines, [script, option, ...]. Under mpirun, each process runs all examples and
imports modules only once. The first example that fails ends the program. Picture files are empty.
"""

import json
import runpy
import sys
from pathlib import Path

from handloom.train.runs import plots
from tests.support.pictures import save_nothing

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

if __name__ == "__main__":
    plots._saved = save_nothing
    for command in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        saved, sys.argv = sys.argv, command
        runpy.run_path(str(EXAMPLES / command[0]), run_name="__main__")
        sys.argv = saved
