"""The engine's own cost an op stays small."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import overhead


def test_the_table_is_printed_and_written(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(overhead, "ROUNDS", 3)
    monkeypatch.setattr(sys, "argv", ["overhead", "--json", str(tmp_path / "overhead.json")])
    overhead.main()
    table = json.loads((tmp_path / "overhead.json").read_text())["microseconds"]
    assert set(table) == set(overhead.OPS)
    assert f"{table['add']['forward']:12.2f}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["add", "exp"])
def test_an_op_costs_microseconds(name) -> None:
    """3 is the aim, on a quiet machine; here others run beside."""
    figures = overhead.measure(overhead.OPS[name])
    assert 0 < figures["forward"] < 10
    assert 0 < figures["unrecorded"] < figures["forward"]
    assert 0 < figures["backward"] < 15
