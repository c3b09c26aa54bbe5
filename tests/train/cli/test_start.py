"""Ctrl-C from a program's first import on: one line and exit code 130, and it is never lost."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = [
    path
    for pattern in ("*.py", "examples/*.py", "train/*.py", "*/__main__.py", "tests/support/*.py")
    for path in sorted(ROOT.glob(pattern))
    if "\n    run_main(" in path.read_text(encoding="utf-8")
]

# Runs a program; from the moment on that it is ready for Ctrl-C, every fifth import forks a child that receives one.
INTERRUPTED = """
import json, os, runpy, signal, sys

ready, seen, codes = signal.getsignal(signal.SIGINT), [], {}

def hook(event, arguments):
    if event != "import" or signal.getsignal(signal.SIGINT) is ready or child:
        return
    seen.append(arguments[0])
    if len(seen) % 5 == 1:
        interrupt(arguments[0])

def interrupt(name):
    global child
    child = not os.fork()
    if child:
        os.kill(os.getpid(), signal.SIGINT)
    else:
        code = os.waitstatus_to_exitcode(os.wait()[1])
        codes[code] = codes.get(code, 0) + 1

child = False
sys.addaudithook(hook)
sys.argv[:] = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    if not child:
        print(json.dumps({"codes": codes, "seen": seen}))
"""

# Ctrl-C in the destructor of an object, where an exception can't be raised.
IN_A_DESTRUCTOR = """
import signal
from handloom.train.cli.start import run_main

class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def main():
    Thing()
    print("went on")

run_main(main)
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=100)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and signals")
def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10


def test_ctrl_c_during_any_import() -> None:
    done = run(INTERRUPTED, ROOT / "examples/translate_de_en.py", "--help")
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result["codes"]) == {"130"}, done.stderr
    assert result["codes"]["130"] > 50
    assert done.stderr.split() == ["stopped"] * result["codes"]["130"]
    for heavy in ("numpy", "regex", "tqdm", "handloom.autograd", "handloom.train.trainer"):
        assert heavy in result["seen"], f"{heavy} was imported before Ctrl-C was cared for"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs_import_it_first(program) -> None:
    body = ast.parse(program.read_text(encoding="utf-8")).body
    found = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in found]
    before = names[: [name.endswith("cli.start") for name in names].index(True)]
    assert {name.partition(".")[0] for name in before} <= {*sys.stdlib_module_names, "errors"}


def test_ctrl_c_in_a_destructor() -> None:
    done = run(IN_A_DESTRUCTOR)
    assert done.returncode == 130
    assert (done.stdout, done.stderr) == ("", "\nstopped\n")


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(tmp_path) -> None:
    """As a job in the background of a shell script does."""
    (tmp_path / "program.py").write_text(
        "from handloom.train.cli.start import run_main\n"
        "import signal\n"
        "run_main(lambda: (signal.raise_signal(signal.SIGINT), print('went on')))\n"
    )
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = run(f"{ignoring}; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])", tmp_path / "program.py")
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr


def test_importing_it_changes_nothing_for_others() -> None:
    import handloom.train.cli.start  # noqa: F401

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("program", ["examples/translate_de_en.py", "handloom.doctor", "handloom.explorer"])
def test_a_variable_that_an_import_refuses_is_an_error_of_one_line(program) -> None:
    command = [sys.executable, *([ROOT / program] if program.endswith(".py") else ["-m", program]), "--help"]
    environment = {**os.environ, "HANDLOOM_PLAIN": "maybe"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 2
    assert done.stderr == (
        "error: HANDLOOM_PLAIN is 'maybe': set it to 1 for plain forms only, to 0 for quick ones too.\n"
    )
