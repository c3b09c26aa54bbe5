"""The tool of these tests: a forked script behaves like one that was started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.examples import Example

pytestmark = pytest.mark.slow

SCRIPT = """
import os, pathlib, sys, warnings
print(sys.argv[1:], os.getcwd() == str(pathlib.Path(__file__).parent), sys.path[0] == os.getcwd(), __name__)
print(input(), os.environ.get("HANDLOOM_DATA"), os.environ["COLOUR"], sys.stdout.encoding, flush=True)
print("said", file=sys.stderr)
match sys.argv[1]:
    case "exit": sys.exit(int(sys.argv[2]))
    case "warn": warnings.warn("careful")
    case "die": os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("words", [["exit", 3], ["warn"], ["die"]], ids=lambda words: words[0])
def test_a_forked_script_is_a_program_of_its_own(words, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("HANDLOOM_DATA", raising=False)
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {"COLOUR": "blue", "PYTHONIOENCODING": "ascii"}
    forked = Example(str(tmp_path / "script.py"), tmp_path).run(*words, stdin=b"a line\n", **environment)
    command = [sys.executable, "-W", "error", str(tmp_path / "script.py"), *map(str, words)]
    started = subprocess.run(
        command, cwd=tmp_path, input="a line\n", capture_output=True, text=True, env=os.environ | environment
    )
    assert (forked.code, forked.out) == (started.returncode, started.stdout)
    assert forked.err.splitlines()[:1] == started.stderr.splitlines()[:1]
    assert forked.err.splitlines()[-1:] == started.stderr.splitlines()[-1:], "the same exception, if any"
