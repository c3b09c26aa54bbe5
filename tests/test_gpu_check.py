"""gpu_check: without a GPU one line; on the stand-in for CuPy all of it runs, and what goes wrong is in its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handloom import gpu_check
from handloom.gpu_check import ROOT, Step
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
    """Processes of Python find the stand-in for CuPy."""
    if compiler_missing():
        pytest.skip(str(compiler_missing()))
    (tmp_path / "path" / "cupy").mkdir(parents=True)
    (tmp_path / "path" / "cupy" / "__init__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")]))


def read(folder: Path) -> tuple[dict[str, Any], str]:
    return json.loads((folder / "report.json").read_text()), (folder / "report.txt").read_text()


def test_without_a_gpu_one_line_says_so() -> None:
    command, none = [sys.executable, "-m", "handloom.gpu_check"], os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=none)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: device 'cuda'")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("missing", "said"), [(True, "in a clone of its repository"), (False, "no step has a name")])
def test_what_can_not_run_is_one_line(missing, said, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path if missing else ROOT)
    monkeypatch.setattr(gpu_check, "files_with_gpu_tests", list)
    with installed():
        assert gpu_check.main(["--only", "nothing"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_rehearsal_on_the_stand_in(tmp_path, stand_in, monkeypatch, capsys) -> None:
    """A whole run of some steps; the next one does what the first had no time for."""
    file = "tests/autograd/kernels/test_update.py"
    assert gpu_check.files_with_gpu_tests(file) == [file]
    monkeypatch.setattr(gpu_check, "files_with_gpu_tests", lambda: [file])
    arguments = ["--out", str(tmp_path / "out"), "--only", "environment", "graphs", "repeats", "test_update"]
    with installed():
        assert gpu_check.main([*arguments, "--minutes", "0"]) == 0
        assert not (tmp_path / "out" / "report.json").exists()
        assert gpu_check.main(arguments) == 0
        capsys.readouterr()
        assert gpu_check.main(arguments) == 0
    assert "[" not in capsys.readouterr().out.partition("environment")[0], "nothing is run again"
    report, said = read(tmp_path / "out")
    assert [step["name"] for step in report["steps"]] == ["environment", "repeats", "graphs", file]
    assert report["steps"][3]["tests"]["passed"] > 0
    assert report["steps"][0]["rows"]["rows"][0]["gpu"] == "stand-in"
    assert str(Path.home()) not in json.dumps(report)
    assert "graphs: what replays of a graph, right True" in said


@pytest.mark.slow
def test_a_hang_a_crash_and_a_wrong_number_are_in_the_report(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    (tmp_path / "test_planted.py").write_text(PLANTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu: a GPU's")
    hang = "import time; print('test_x.py::test_hang ', flush=True); time.sleep(99)"
    steps = [Step("hang", ("-c", hang), 3), gpu_check.tests("test_planted.py"), Step("right", ("-c", "print(1)"))]
    gpu_check.check(steps, tmp_path, 10)
    report, said = read(tmp_path)
    hung, planted, right = report["steps"]
    assert (hung["code"], hung["culprits"]) == ("no end within 3 s", ["test_x.py::test_hang"])
    assert [other["code"] for other in hung["again"]] == ["no end within 3 s"]
    assert planted["tests"] == {"passed": 1, "failed": 1, "not ended": 1}
    assert [name.partition("::")[2] for name in planted["culprits"]] == ["test_wrong", "test_crash[3]"]
    assert planted["again"][0]["tests"] == {"failed": 1, "not ended": 1}
    assert "in test_crash" in planted["output"]
    assert right["code"] == 0
    for part in ("no end within 3 s", "test_hang", "test_wrong", "test_crash[3]", "again"):
        assert part in said


@pytest.mark.slow
def test_steps_name_programs_that_are_there_and_options_that_they_have(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "files_with_gpu_tests", list)
    for module in ("benchmarks.attention", "benchmarks.train_step", "benchmarks.gpu"):
        done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
        words = {word for step in gpu_check.steps(tmp_path) if module in step.arguments for word in step.arguments}
        assert [word for word in words if word.startswith("--") and word not in done.stdout] == []
