"""The clock of a run counts only the time of updates."""

import time

from handloom.train.runs.progress import TrainingClock


def test_what_pauses_it_does_not_count(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: 10 * now[0])
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    clock = TrainingClock(processor=100.0)
    now[0] += 1
    with clock.paused():
        now[0] += 50
    now[0] += 2
    assert clock.lap() == 30
    assert clock.processor == 103
    now[0] += 1
    assert (clock.lap(), clock.processor) == (10, 104)
