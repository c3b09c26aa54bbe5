"""The comparison of the methods of attention: its figures, its verdict, its command line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from handloom.arguments import run_program
from handloom.autograd.observe import compare_attention
from handloom.autograd.observe.compare_attention import Row, Setting, compare, main, verdict


def test_every_method_gets_a_row_with_errors_of_rounding_only(monkeypatch) -> None:
    ticks = itertools.count()  # each look at the clock finds it a second later
    monkeypatch.setattr(compare_attention.time, "perf_counter", lambda: float(next(ticks)))
    setting = Setting(length=40, heads=2, head_dim=8, causal=True)
    rows = compare(setting, ("standard", "blocked"), ("float32",), repeats=1)
    assert [row.method for row in rows] == ["standard", "blocked"]
    for row in rows:
        assert list(row.errors) == ["output", "d_query", "d_key", "d_value"]
        assert all(0 < error < 1e-5 for error in row.errors.values())
        assert (row.forward_seconds, row.both_seconds) == (1, 1)
    assert verdict(rows)[0]


def test_memory_is_that_of_the_method() -> None:
    rows = compare(Setting(length=1024, heads=1, head_dim=8), ("standard", "blocked"), ("float32",), repeats=1)
    standard, blocked = (row.peak_bytes for row in rows)
    assert standard > 2 * 1024 * 1024 * 4
    assert blocked < standard / 2


def test_long_sequences_are_compared_with_blocks_in_float64(monkeypatch) -> None:
    monkeypatch.setattr(compare_attention, "_LARGEST_REFERENCE", 100)
    setting = Setting(length=33, key_length=50, heads=1, head_dim=4, window=7)
    rows = compare(setting, ("standard",), ("float32",), repeats=1)
    assert max(rows[0].errors.values()) < 1e-5


def test_the_verdict_names_a_method_that_is_off() -> None:
    good = Row("standard", "float32", {"output": 1e-7, "d_query": 1e-7}, 1.0, 1.0, 1)
    bad = Row("blocked", "float32", {"output": 1e-7, "d_query": 1e-3}, 1.0, 1.0, 1)
    fine, text = verdict([good, bad])
    assert not fine
    assert "blocked" in text
    assert "d_query" in text
    assert not verdict([good, Row("blocked", "float32", {"output": np.nan, "d_query": 0.0}, 1.0, 1.0, 1)])[0]


def test_the_command_prints_a_table(capsys) -> None:
    small = ["--length", "32", "--heads", "1", "--head-dim", "8", "--dtype", "float32", "--repeats", "1"]
    assert main([*small, "--dropout", "0.1"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("standard", "blocked", "fused"))] == [
        "standard",
        "blocked",
        "fused",
    ]
    assert "needs a GPU" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--method fused --length 8", "move them with .to('cuda')"),
        ("--device gpu", "unknown device"),
    ],
)
def test_what_can_not_be_run_is_said_in_a_line(words, said, capsys) -> None:
    assert run_program(main, words.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--length 0", "--dropout 2", "--dtype float64"])
def test_wrong_options_are_refused(words) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
