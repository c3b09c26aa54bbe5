"""The progress bar fits into the terminal; without a terminal, lines are printed."""

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios

import pytest

from handloom.train.runs.display import Display
from handloom.train.runs.folder import RunFolder

ROW = {"step": 1200, "loss": 3.2145, "learning_rate": 1.25e-3, "loss_scale": 65536.0}


def shown(columns: int, tmp_path, monkeypatch) -> str:
    """Return the output on standard error in a terminal with this number of columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, RunFolder.create(tmp_path / "run", {}) as run:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Display(run, 4000, 0, "training", "token") as display:
            display.bar.update(1200)
            display.row(ROW, 12_345.6, 3.4567)
            display.bar.refresh()
            display.validation(1200, "epoch 3", {"valid_loss": 3.4567})
    seen = []
    with contextlib.suppress(OSError):  # Linux reports the end as an OSError; one read may return only a part
        while piece := os.read(master, 1 << 16):
            seen.append(piece)
    os.close(master)
    return b"".join(seen).decode()


@pytest.mark.parametrize("columns", [80, 100])
def test_the_bar_has_room(columns, tmp_path, monkeypatch, capsys) -> None:
    line = next(one for one in shown(columns, tmp_path, monkeypatch).split("\r")[::-1] if "loss" in one)
    assert "1200/4000" in line
    assert len(line.split("|")[1]) == 16, line
    assert ("12.3k tokens/s" in line) == (columns == 100)
    assert "step 1200" not in capsys.readouterr().out


def test_the_last_picture_is_drawn_once(tmp_path, monkeypatch) -> None:
    """After the last validation, the picture is drawn only at the end, with the averaged weights if there are any."""
    drawn: list[str] = []
    monkeypatch.setattr("handloom.train.runs.display.plot_losses", lambda metrics, *_, **__: drawn.append("again"))
    with RunFolder.create(tmp_path / "run", {}) as run, Display(run, 20, 0, "training", "token") as display:
        run.log(ROW)
        display.validation(20, "epoch 3", {"valid_loss": 3.4567})
        assert drawn == []
        display.draw()
        assert drawn == ["again"]
