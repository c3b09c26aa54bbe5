"""The progress bar fits into the terminal; without a terminal, lines are printed."""

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
from types import SimpleNamespace
from typing import Any

import pytest

from handloom.train.callbacks import History, ProgressBar, RunLog
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import Progress

ROW = {"step": 1200, "loss": 3.2145, "learning_rate": 1.25e-3, "loss_scale": 65536.0}
VALID = {"step": 1200, "epoch": 2, "valid_loss": 3.4567}


def trainer(steps: int, run: Any = None) -> Any:
    """Return what the callbacks read of a trainer."""
    history = History([ROW], label="training", unit="token")
    return SimpleNamespace(steps=steps, progress=Progress(0, best=3.4567), unit="token", run=run, history=history)


def shown(columns: int, monkeypatch) -> str:
    """Return the output on standard error in a terminal with this number of columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        display, one = ProgressBar(), trainer(4000)
        display.on_start(one)
        display.bar.update(1200)
        display.on_log(one, ROW, {"tokens_per_second": 12_345.6})
        display.bar.refresh()
        display.on_log(one, VALID, {})
        display.on_end(one, None)
    seen = []
    with contextlib.suppress(OSError):  # Linux reports the end as an OSError; one read may return only a part
        while piece := os.read(master, 1 << 16):
            seen.append(piece)
    os.close(master)
    return b"".join(seen).decode()


@pytest.mark.parametrize("columns", [80, 100])
def test_the_bar_has_room(columns, monkeypatch, capsys) -> None:
    line = next(one for one in shown(columns, monkeypatch).split("\r")[::-1] if "loss" in one)
    assert "1200/4000" in line
    assert len(line.split("|")[1]) == 16, line
    assert ("12.3k tokens/s" in line) == (columns == 100)
    assert "step 1200" not in capsys.readouterr().out


def test_the_last_picture_is_drawn_once(tmp_path, monkeypatch) -> None:
    """After the last validation, the picture is drawn only at the end, with the averaged weights if there are any."""
    drawn: list[str] = []
    monkeypatch.setattr("handloom.train.callbacks.plot_losses", lambda metrics, *_, **__: drawn.append("again"))
    with RunFolder.create(tmp_path / "run", {}) as run:
        log = RunLog()
        log.on_log(trainer(1200, run), VALID, {})
        assert drawn == []
        log.on_end(trainer(1200, run), None)
        assert drawn == ["again"]
