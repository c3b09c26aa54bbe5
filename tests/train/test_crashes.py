"""Crashes: a real training process killed at random moments, full disks, read-only folders, damaged files."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handloom import files
from handloom.errors import InputError
from handloom.train.runs.checkpoints import digest
from handloom.train.runs.progress import TrainingStopped
from handloom.train.runs.saves import SavedStates
from tests.support.small_run import small_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

ROOT = Path(__file__).resolve().parents[2]

# The program imports once, then forks each training, so a kill costs a tenth of a second and not a start of Python.
KILLER = """
import contextlib, json, os, random, signal, sys, time
from pathlib import Path
from handloom.train import callbacks
from handloom.train.runs.saves import SavedStates
from tests.support.pictures import plot_nothing
from tests.support.small_run import small_run

callbacks.plot_losses = plot_nothing
folder, options, draw = Path(sys.argv[1]), json.loads(sys.argv[2]), random.Random(0)
small_run(folder.with_name("warm"), steps=2)
save, kills, steps, files = SavedStates.save, 0, [], set()

def newest():
    return max(SavedStates(folder / "checkpoints").steps(), default=-1)

def save_and_wait(self, step, *arguments):
    save(self, step, *arguments)
    while step > wanted:  # the kill is sure to come, however slow this process or quick the run
        signal.pause()

for attempt in range(300):
    wanted = max(newest() + 2 * draw.randrange(3), 0)
    child = os.fork()
    if not child:
        if kills < 12:
            SavedStates.save = save_and_wait
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            small_run(folder, resume=folder.exists(), **options)
        os._exit(0)
    if kills < 12:
        # Some saves later, at a random moment up to the next: a slow machine then has as many chances as a fast one.
        while newest() < wanted and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    kills += os.WIFSIGNALED(status)
    if os.WIFSIGNALED(status):
        saved = SavedStates(folder / "checkpoints").load()  # whole, whatever the moment
        assert not saved.damaged, saved.damaged
        steps.append(saved.step)
        files |= {path.name for path in folder.rglob(".*.tmp")}
    elif status == 0:
        break
print(json.dumps({"kills": kills, "steps": steps, "unfinished": sorted(files), "status": status}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and SIGKILL")
def test_a_training_killed_at_random_moments_ends_like_one_that_was_not(tmp_path) -> None:
    options = {"steps": 60, "validate_every": 2, "log_every": 1}
    command = [sys.executable, "-W", "error", "-c", KILLER, str(tmp_path / "killed"), json.dumps(options)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == 0
    assert result["kills"] == 12
    assert len(set(result["steps"])) > 4, "the kills should hit different saves"
    assert result["steps"] == sorted(result["steps"]), "no kill may lose an earlier save"
    small_run(tmp_path / "straight", **options)
    logs = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("killed", "straight")]
    assert logs[0] == logs[1]
    ends = [SavedStates(tmp_path / name / "checkpoints").load() for name in ("killed", "straight")]
    assert digest(ends[0].weights) == digest(ends[1].weights)
    assert not list((tmp_path / "killed").rglob(".*.tmp"))


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> bytes:
    """Return the log of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("crashes") / "straight"
    small_run(folder)
    return (folder / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("crashes") / "stopped"
    with pytest.raises(TrainingStopped):
        small_run(folder, stop_at=11)
    return folder


@pytest.fixture
def half_a_run(stopped, tmp_path) -> Path:
    """Return the folder of a run with saves at steps 8 and 11."""
    return shutil.copytree(stopped, tmp_path / "run")


def no_room(*_args: object, **_kwargs: object) -> None:
    raise OSError(28, os.strerror(28))


@pytest.mark.parametrize("at_write", [1, 2, 3, 5])
def test_a_full_disk_ends_the_run_with_its_saves_intact(half_a_run, straight, monkeypatch, at_write) -> None:
    """After a resume at step 11, the nth fsync fails: of the log, a save, the best weights or the picture."""
    calls = iter(range(1, 1000))
    fsync = os.fsync
    monkeypatch.setattr(files.os, "fsync", lambda file: no_room() if next(calls) == at_write else fsync(file))
    with pytest.raises(InputError, match="No space left on device"):
        small_run(half_a_run, resume=True)
    monkeypatch.undo()
    assert SavedStates(half_a_run / "checkpoints").load().step >= 11
    with open(half_a_run / "metrics.jsonl", "a") as log:
        log.write('{"step": 30, "lo')  # an incomplete line
    small_run(half_a_run, resume=True)
    assert (half_a_run / "metrics.jsonl").read_bytes() == straight


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(half_a_run) -> None:
    for folder in (half_a_run / "checkpoints", half_a_run):
        folder.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        small_run(half_a_run, resume=True)
    for folder in (half_a_run, half_a_run / "checkpoints"):
        folder.chmod(0o700)
    assert SavedStates(half_a_run / "checkpoints").load().step == 11


class TestDamagedSaves:
    @pytest.mark.parametrize("damage", ["truncated", "foreign", "of a model"])
    def test_the_older_save_is_used_and_the_damage_named(self, half_a_run, damage) -> None:
        path = half_a_run / "checkpoints/step-00000011.safetensors"
        if damage == "truncated":
            path.write_bytes(path.read_bytes()[:-100])
        elif damage == "foreign":
            path.write_bytes(random.Random(0).randbytes(5000))
        else:
            shutil.copy(half_a_run / "model.safetensors", path)
        saved = SavedStates(half_a_run / "checkpoints").load()
        assert saved.step == 8
        assert len(saved.damaged) == 1
        assert "00000011" in saved.damaged[0]

    def test_no_save_left(self, half_a_run) -> None:
        for path in (half_a_run / "checkpoints").iterdir():
            path.write_bytes(b"PK rubbish")
        with pytest.raises(InputError, match=r"No save in .* is usable.*is damaged"):
            SavedStates(half_a_run / "checkpoints").load()


class TestKeeping:
    def test_the_last_k_stay_with_the_weights_they_average(self, tmp_path) -> None:
        saves = SavedStates(tmp_path / "saves", keep=2)
        for step in range(6):
            saves.save(step, {"w": np.full(3, step)}, {"a": {"b": np.ones(2), "c": {}}, "d": None}, [max(step - 2, 0)])
        assert saves.steps() == [2, 3, 4, 5]
        np.testing.assert_array_equal(saves.weights(2)["w"], np.full(3, 2))
        saved = saves.load()
        assert saved.state["d"] is None
        assert saved.state["a"]["c"] == {}
        np.testing.assert_array_equal(saved.state["a"]["b"], np.ones(2))
