"""Learning rates over the steps."""

import math

import numpy as np
import pytest

from handloom.train.optim.schedules import Plateau, constant, cosine, linear, noam


def test_constant_with_and_without_warm_up() -> None:
    assert [constant(0.5)(step) for step in (1, 9)] == [0.5, 0.5]
    assert [constant(0.5, 4)(step) for step in (1, 2, 4, 9)] == [0.125, 0.25, 0.5, 0.5]


@pytest.mark.parametrize("warmup", [0, 10])
@pytest.mark.parametrize("schedule", [linear, cosine])
def test_it_rises_to_the_peak_and_falls_to_the_floor(schedule, warmup) -> None:
    rates = [schedule(0.3, warmup, 100, 0.2)(step) for step in range(1, 121)]
    assert max(rates) == pytest.approx(0.3, rel=0.01)
    assert np.argmax(rates) == max(warmup - 1, 0)
    assert all(a >= b for a, b in zip(rates[warmup:], rates[warmup + 1 :], strict=False))
    assert rates[99] == pytest.approx(0.06)
    assert rates[119] == pytest.approx(0.06), "the rate is constant after the last step"


def test_shapes_in_the_middle() -> None:
    assert linear(1.0, 20, 120)(70) == pytest.approx(0.5)
    assert cosine(1.0, 20, 120, 0.0)(70) == pytest.approx(0.5)
    assert cosine(1.0, 20, 120, 0.0)(45) == pytest.approx(0.5 + math.sqrt(0.125))


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_a_warm_up_that_does_not_end(schedule) -> None:
    with pytest.raises(ValueError, match="must end before the run's 100"):
        schedule(0.1, 100, 100)


def test_noam_peaks_at_the_end_of_warm_up() -> None:
    rates = np.array([noam(512, 4000)(step) for step in (1000, 3999, 4000, 4001, 8000)])
    np.testing.assert_allclose(rates[[0, 2, 4]] * np.sqrt(512 * 4000), [0.25, 1, np.sqrt(0.5)])
    assert rates.argmax() == 2
    with pytest.raises(ValueError, match="warmup is 0"):
        noam(512, 0)


class TestPlateau:
    def test_it_falls_after_patience_and_not_below_the_floor(self) -> None:
        schedule = Plateau(1.0, factor=0.1, patience=2, floor=0.05)
        rates = []
        for value in [3.0, 2.0, 2.0, 2.0, 1.9999, 1.0, 1.0, 1.0, 1.0, 1.0]:
            schedule.observe(value)
            rates.append(round(schedule(1), 6))
        assert rates == [1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05]

    def test_a_metric_that_should_rise(self) -> None:
        schedule = Plateau(1.0, patience=1)
        for value in (np.nan, 0.1, 0.2, 0.3):
            schedule.observe(value, higher_is_better=True)
        assert schedule(1) == 1.0
        schedule.observe(0.3, higher_is_better=True)
        assert schedule(1) == 0.5

    def test_state_and_warm_up(self) -> None:
        one, other = Plateau(1.0, patience=1, warmup=4), Plateau(1.0, patience=1, warmup=4)
        for value in (1.0, 1.0):
            one.observe(value)
        other.load_state_dict(one.state_dict())
        assert [other(step) for step in (1, 4, 50)] == [0.125, 0.5, 0.5]

    @pytest.mark.parametrize("options", [{"factor": 1.0}, {"patience": 0}, {"warmup": -1}])
    def test_out_of_range(self, options) -> None:
        with pytest.raises(ValueError, match="Plateau"):
            Plateau(1.0, **options)
