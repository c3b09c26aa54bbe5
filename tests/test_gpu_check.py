"""Test gpu_check: without a GPU, it prints one line; on the stand-in for CuPy, it runs and reports each failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handloom import gpu_check
from handloom.gpu_check import Step
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import installed

STAND_IN = """
import atexit
from tests.support.fake_cupy import installed
context = installed()
context.__enter__()
atexit.register(context.__exit__, None, None, None)
"""
PLANTED = """
import os, pytest
pytestmark = pytest.mark.gpu
def test_right(): pass
def test_wrong(): assert [1.0, 2.0] == [1.0, 2.5], "the wrong number"
@pytest.mark.parametrize("x", [3])
def test_crash(x): os.abort()
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Python processes import the stand-in for CuPy."""
    if compiler_missing():
        pytest.skip(str(compiler_missing()))
    (tmp_path / "path" / "cupy").mkdir(parents=True)
    (tmp_path / "path" / "cupy" / "__init__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")]))


def test_without_a_gpu_or_the_tests_one_line_says_so(tmp_path, monkeypatch, capsys) -> None:
    command, none = [sys.executable, "-m", "handloom.gpu_check"], os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=none)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: device 'cuda'")
    assert done.stderr.count("\n") == 1
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    with installed():
        assert gpu_check.main([]) == 2
    assert "in a clone of its repository\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_rehearsal_on_the_stand_in(tmp_path, stand_in, monkeypatch, capsys) -> None:
    """Run gpu_check with two steps; a run executes the steps for which the previous run had no time."""
    file, out = "tests/autograd/kernels/test_update.py", tmp_path / "out"
    assert gpu_check.files_with_gpu_tests(file) == [file]
    write = Step("write", ("-c", f"open(r'{out}/a.json', 'w').write('[1]')"), writes="a.json")
    monkeypatch.setattr(gpu_check, "steps", lambda folder: [gpu_check.tests(file), write])
    arguments = ["--out", str(out)]
    with installed():
        assert gpu_check.main([*arguments, "--minutes", "0"]) == 0
        assert not (out / "report.json").exists()
        assert gpu_check.main(arguments) == 0
        capsys.readouterr()
        assert gpu_check.main(arguments) == 0
    assert "[" not in capsys.readouterr().out, "no step runs again"
    report = json.loads((out / "report.json").read_text())
    assert [(step["name"], step["code"]) for step in report["steps"]] == [(file, 0), ("write", 0)]
    assert (report["gpu"], report["steps"][1]["results"]) == ("stand-in", [1])
    assert " passed" in report["steps"][0]["output"]
    assert str(Path.home()) not in json.dumps(report)


@pytest.mark.slow
def test_a_hang_a_crash_and_a_wrong_number_are_in_the_report(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    (tmp_path / "test_planted.py").write_text(PLANTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu: a GPU's")
    hang = "import time; print('test_x.py::test_hang ', flush=True); time.sleep(99)"
    steps = [Step("hang", ("-c", hang), 3), gpu_check.tests("test_planted.py"), Step("right", ("-c", "print(1)"))]
    steps.insert(0, Step("large", ("-c", "1 / 0"), memory=36))
    with installed():
        gpu_check.check(steps, tmp_path, 10)
    large, hung, planted, right = json.loads((tmp_path / "report.json").read_text())["steps"]
    assert large["output"] == "left out: it needs 36 GB of GPU memory, and this GPU has 16 GB"
    assert (hung["code"], hung["output"]) == ("no end within 3 s", "test_x.py::test_hang ")
    assert hung["again"]["code"] == "no end within 3 s"
    for part in ("test_wrong FAILED", "in test_crash"):
        assert part in planted["output"]
        assert part in planted["again"]["output"]
    assert (right["code"], "again" in right) == (0, False)
    assert "exit code no end within 3 s:\ntest_x.py::test_hang" in capsys.readouterr().out


@pytest.mark.slow
def test_steps_name_programs_that_are_there_and_options_that_they_have(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "files_with_gpu_tests", list)
    for module in ("benchmarks.attention", "benchmarks.train_step"):
        done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
        words = {word for step in gpu_check.steps(tmp_path) if module in step.arguments for word in step.arguments}
        assert [word for word in words if word.startswith("--") and word not in done.stdout] == []
