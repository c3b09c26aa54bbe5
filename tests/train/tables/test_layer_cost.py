"""What layers cost: the counts are those of the formulas, and grow as they say."""

from __future__ import annotations

import pytest

from handloom.train.tables.layer_cost import cost_rows, cross_cost, layer_cost


def test_multiply_adds_are_those_of_the_formula() -> None:
    row = layer_cost(tokens=24, features=16, heads=4, layers=2, wide=40)
    projections, scores, feed_forward = 4 * 24 * 16 * 16, 2 * 24 * 24 * 16, 2 * 24 * 16 * 40
    assert row["products"] == 2 * (projections + scores + feed_forward) == row["products_stated"]
    assert row["parameters"] == row["parameters_stated"]
    cross = cross_cost(queries=6, keys=10, features=16, heads=4)
    assert cross["products"] == cross["products_stated"] == 2 * 6 * 10 * 16 + (6 + 10 + 10 + 6) * 16 * 16


def test_each_cost_grows_with_the_sizes_as_the_report_states() -> None:
    rows, exponents = cost_rows(features=16, heads=2, wide=32)
    assert len(rows) == 4 + 3 + 4 + 3, "four lengths; others by widths, by 1, 4, 8 and 16 heads, and by layers"
    powers = {row["cell"]: [row[name] for name in ("tokens", "features", "heads", "layers")] for row in exponents}
    counted, stated = powers["multiply-adds, counted"], powers["multiply-adds, by the formula"]
    assert counted == stated
    assert 1 < counted[0] < 2
    assert 1 < counted[1] < 2
    assert counted[2:] == [0, 1]
    assert powers["attention weights, counted"] == pytest.approx([2, 0, 1, 1], abs=0.05)
    assert powers["attention weights, by the formula"] == [2, 0, 1, 1]
    assert powers["activations, counted"] == pytest.approx([1, 1, 0, 1], abs=0.1)
