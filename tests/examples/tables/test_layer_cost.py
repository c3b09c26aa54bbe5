"""The cost of layers: the counts equal the formulas, and grow as the formulas state."""

import pytest

from handloom.examples.tables.layer_cost import cost_rows, cross_cost, layer_cost


def test_multiply_adds_are_those_of_the_formula() -> None:
    row = layer_cost(tokens=24, features=16, heads=4, layers=2, wide=40)
    projections, scores, feed_forward = 4 * 24 * 16 * 16, 2 * 24 * 24 * 16, 2 * 24 * 16 * 40
    assert row["products"] == 2 * (projections + scores + feed_forward) == row["products_stated"]
    cross = cross_cost(queries=6, keys=10, features=16, heads=4)
    assert cross["products"] == cross["products_stated"] == 2 * 6 * 10 * 16 + (6 + 10 + 10 + 6) * 16 * 16


def test_each_cost_grows_with_the_sizes_as_the_report_states() -> None:
    rows = cost_rows(features=16, heads=2, wide=32)
    assert [row["tokens"] for row in rows[:4]] == [128, 256, 512, 1024]
    assert [(row["features"], row["heads"], row["layers"]) for row in rows[4:]] == [
        (32, 2, 1), (64, 2, 1), (16, 1, 1), (16, 16, 1), (16, 2, 4),
    ]  # fmt: skip
    for row in rows:
        assert row["products"] == row["products_stated"]
        assert row["weights"] == pytest.approx(row["weights_stated"], rel=0.2)
