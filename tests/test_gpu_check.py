"""gpu_check: without a GPU one line; with one, every step's outcome in a report to read and one to send in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

from handloom import gpu_check
from handloom.gpu_check import Outcome, Step
from tests.support.fake_cupy import installed

PROPERTIES = {
    "name": b"NVIDIA Some GPU", "major": 9, "minor": 0, "multiProcessorCount": 132, "totalGlobalMem": 80_000_000_000,
}  # fmt: skip
CUPY = SimpleNamespace(
    cuda=SimpleNamespace(
        runtime=SimpleNamespace(
            getDeviceProperties=lambda device: PROPERTIES,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
        )
    )
)
ROW = {"backward": False, "causal": True, "shape": [1, 32, 1024, 64], "side": "handloom", "method": "fused"}
TESTS = """<testsuites><testsuite>
<testcase classname="a" name="one"/><testcase classname="a" name="two"><skipped message="no"/></testcase>
<testcase classname="b" name="three"><failure message="short">the whole text</failure></testcase>
<testcase classname="b" name="four"><error message="in a fixture"/></testcase>
</testsuite></testsuites>"""


def test_without_a_gpu_one_line_says_so() -> None:
    command, none = [sys.executable, "-m", "handloom.gpu_check"], os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=none)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: device 'cuda'")
    assert done.stderr.count("\n") == 1


def test_the_tests_outcome_is_read(tmp_path) -> None:
    (tmp_path / "tests.xml").write_text(TESTS)
    counts, failures = gpu_check.read_tests(tmp_path / "tests.xml")
    assert counts == {"passed": 1, "failed": 2, "skipped": 1}
    assert failures == [{"test": "b::three", "text": "the whole text"}, {"test": "b::four", "text": "in a fixture"}]


def test_reports_hold_every_step(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "torch_finds_a_gpu", lambda: False)

    def do(step: Step, folder) -> Outcome:
        outcome = Outcome(step.name, "python", int(step.name == "training step"), 2.0, ["first", "why it failed"])
        if step.name == "tests":
            outcome.counts = {"passed": 900, "failed": 1, "skipped": 3}
            outcome.failures = [{"test": "b::three", "text": "the whole text"}]
        if step.name == "attention":
            outcome.rows = [{**ROW, "tflops": 123.44}, {**ROW, "method": "standard", "failed": "out of memory"}]
        return outcome

    gpu_check.check(tmp_path / "new", quick=True, cupy=CUPY, do=do)
    report = json.loads((tmp_path / "new" / "report.json").read_text())
    assert [step["name"] for step in report["steps"]] == ["doctor", "tests", "attention", "training step"]
    assert report["machine"]["gpu"] == "NVIDIA Some GPU"
    assert report["machine"]["compute_capability"] == "9.0"
    said = (tmp_path / "new" / "report.txt").read_text()
    for part in ("900 passed, 1 failed", "FAILED b::three", "handloom fused: 123.4", "out of memory", "why it failed"):
        assert part in said


def test_steps_name_programs_that_are_there_and_options_that_they_have(tmp_path) -> None:
    for step in gpu_check.steps(tmp_path, quick=True, alone=True):
        module = step.arguments[1]
        if not module.startswith("benchmarks"):
            continue
        done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
        for word in step.arguments:
            assert not word.startswith("--") or word in done.stdout, (module, word)


def test_a_step_is_run_and_its_last_lines_are_kept(tmp_path, capsys) -> None:
    (tmp_path / "rows.json").write_text('{"rows": [{"a": 1}]}')
    step = Step("a step", ("-c", "import sys; print('said'); sys.exit('and why')"), "rows.json")
    outcome = gpu_check.run(step, tmp_path)
    assert (outcome.code, outcome.last_lines, outcome.rows) == (1, ["said", "and why"], [{"a": 1}])
    assert "said" in capsys.readouterr().out


def test_where_the_tests_are_not_installed_it_says_so(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    with installed():
        assert gpu_check.main([]) == 2
    assert "in a clone of its repository" in capsys.readouterr().err
