"""Learning rates over the steps."""

import math

import numpy as np
import pytest

from handloom.train.optim.schedules import constant, cosine, linear, noam


def test_constant_with_and_without_warm_up() -> None:
    assert [constant(0.5)(step) for step in (1, 9)] == [0.5, 0.5]
    assert [constant(0.5, 4)(step) for step in (1, 2, 4, 9)] == [0.125, 0.25, 0.5, 0.5]


@pytest.mark.parametrize("warmup", [0, 10])
@pytest.mark.parametrize(("schedule", "floor"), [(linear, 0.0), (cosine, 0.03)])
def test_it_rises_to_the_peak_and_falls_to_the_floor(schedule, floor, warmup) -> None:
    rates = [schedule(0.3, warmup, 100)(step) for step in range(1, 121)]
    assert max(rates) == pytest.approx(0.3, rel=0.02)
    assert np.argmax(rates) == max(warmup - 1, 0)
    assert all(a >= b for a, b in zip(rates[warmup:], rates[warmup + 1 :], strict=False))
    assert rates[99] == pytest.approx(floor)
    assert rates[119] == pytest.approx(floor), "after the end the rate stays"


def test_shapes_in_the_middle() -> None:
    assert linear(1.0, 20, 120)(70) == pytest.approx(0.5)
    assert cosine(1.0, 20, 120, 0.0)(70) == pytest.approx(0.5)
    assert cosine(1.0, 20, 120, 0.0)(45) == pytest.approx(0.5 + math.sqrt(0.125))


def test_noam_peaks_at_the_end_of_warm_up() -> None:
    rates = np.array([noam(512, 4000)(step) for step in (1000, 3999, 4000, 4001, 8000)])
    np.testing.assert_allclose(rates[[0, 2, 4]] * np.sqrt(512 * 4000), [0.25, 1, np.sqrt(0.5)])
    assert rates.argmax() == 2
