"""The benchmark of attention runs on a CPU and on the stand-in for CuPy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import attention

pytestmark = pytest.mark.slow

RESULTS = Path(attention.__file__).parent / "results" / "attention_gpu.json"


class Here:
    """A worker in this process."""

    def __init__(self, subject):
        self.subject = subject

    def ask(self, method, *arguments):
        return getattr(self.subject, method)(*arguments)


@pytest.mark.parametrize("backward", [False, True])
def test_every_method_gets_a_row_on_a_device(backward, cuda, capsys, monkeypatch) -> None:
    monkeypatch.setitem(attention.SIDES, "cuda", {"handloom": ("fused", "standard", "flash")})
    workers = {"handloom": Here(attention.Handloom())}
    task = {"device": "cuda", "shape": [1, 2, 64, 32], "causal": True, "backward": backward}
    if not hasattr(cuda, "get_default_memory_pool"):
        monkeypatch.setattr(cuda, "get_default_memory_pool", Pool, raising=False)
    with pytest.raises(ValueError, match="flash"):  # a method that is misspelt, not one that is missing
        attention.measure(workers, task, 1)
    monkeypatch.setitem(attention.SIDES, "cuda", {"handloom": ("fused", "standard")})
    rows = attention.measure(workers, task, 1)
    assert [row["method"] for row in rows] == ["fused", "standard"]
    for row in rows:
        operations = 4 * 2 * 64**2 * 32 / 2 * (2.5 if backward else 1)
        assert row["tflops"] == pytest.approx(operations / row["ms"] / 1e9)
    attention.show(rows)
    assert "TFLOP/s" in capsys.readouterr().out


class Pool:
    """The memory pool that the stand-in lacks."""

    def free_all_blocks(self) -> None:
        pass

    def total_bytes(self) -> int:
        return 0


def test_a_failing_method_is_reported_and_the_others_are_measured(capsys, monkeypatch) -> None:
    def out_of_memory(side, task):
        raise MemoryError("no room\nfor this")

    workers = {"handloom": Here(attention.Handloom()), "torch": Here(attention.Torch())}
    monkeypatch.setattr(attention.Torch, "make", out_of_memory)
    task = {"device": "cpu", "shape": [1, 2, 32, 8], "causal": False, "backward": False}
    rows = attention.measure(workers, task, 1)
    attention.show(rows)
    said = capsys.readouterr().out.splitlines()
    assert "not measured: no room" in said[-1]
    assert [("ms" in row, "TFLOP/s" in line) for row, line in zip(rows, said, strict=True)] == [(True, True)] * 2 + [
        (False, False)
    ]


def test_without_a_gpu_the_error_says_so_before_anything_runs(monkeypatch, capsys, tmp_path) -> None:
    try:
        attention.check_device("cuda")
    except attention.DeviceError:
        pass
    else:
        pytest.skip("there is a GPU here")
    monkeypatch.setattr(sys, "argv", ["attention", "--device", "cuda", "--json", str(tmp_path / "x.json")])
    with pytest.raises(SystemExit) as caught:
        attention.main()
    assert caught.value.code == 2
    assert "device 'cuda'" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_the_record_holds_measured_figures_or_says_that_there_are_none() -> None:
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert record["command"].endswith("--device cuda --json benchmarks/results/attention_gpu.json")
    assert bool(record["rows"]) == (record["gpu"] != "not yet measured")
