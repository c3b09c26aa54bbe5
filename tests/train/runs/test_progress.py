"""The clock of a run counts only the time of updates; signals stop a run after a step."""

import os
import signal
import subprocess
import sys
import time

import pytest

from handloom.train.runs.progress import StopSignals, TrainingClock


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


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_closed_terminal_stops_a_run_unless_nohup_started_it(before) -> None:
    old = signal.signal(signal.SIGHUP, before)
    try:
        with StopSignals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.received == (signal.SIGHUP if before == signal.SIG_DFL else None)
            signals.received = None
    finally:
        signal.signal(signal.SIGHUP, old)


TERMINAL = """
import fcntl, pathlib, signal, sys, termios, time
from handloom.train.runs.progress import StopSignals
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with StopSignals() as signals:
    pathlib.Path("ready").touch()
    while not signals.received:
        time.sleep(0.01)
    print("the bar", file=sys.stderr, flush=True)
    print("a line", flush=True)
    pathlib.Path("saved").touch()
    signals.received = None
"""


@pytest.mark.skipif(sys.platform != "linux", reason="makes a terminal as Linux does")
def test_printing_to_a_closed_terminal_does_not_keep_a_run_from_being_saved(tmp_path) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-c", TERMINAL]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    while not (tmp_path / "ready").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.close(master)
    assert process.wait() == 0
    assert (tmp_path / "saved").exists()
