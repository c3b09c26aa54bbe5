"""A process killed at any moment while its run overwrites another: the old run is whole, or the new one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.train.runs.folder import RunFolder
from tests.support.old_runs import USER_FILES, make_run, of_the_run, replace, tree

ROOT = Path(__file__).resolve().parents[3]
NOTE = "overwritten/README.txt"
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


def killed_at(number: int, folder: Path, **options: object) -> bool:
    """Replace the run in a process that is killed before its nth change of the folder; False if there are fewer."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    count = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count
        if event in CHANGES and str(arguments[0]).startswith(str(folder)):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        replace(folder, **options)
    finally:
        os._exit(0)


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files without those that the next process removes: locks, unfinished files, the note on missing runs."""
    names = [name for name in files if not Path(name).name.startswith(".") or name in USER_FILES]
    return {name: files[name] for name in names if (name != NOTE or "overwritten/1" in str(names))}


def kill_at_every_moment(folder: Path, fails: bool) -> dict[str, int]:
    """At any moment the old run is whole, or the new one has its model, and it can be resumed."""
    os.fsync = lambda descriptor: None  # slow, and without use to a process that is killed
    make_run(folder / "original", 1, ["one"], ["table.md", "metrics.jsonl"])
    before, found, number = tree(folder / "original"), {"old": 0, "both": 0, "new": 0}, 1
    while True:
        run = shutil.copytree(folder / "original", folder / str(number))
        if not killed_at(number, run, fails=InputError if fails else None):
            return found
        replaced = RunFolder.open(run).config["number"] == 2
        left = tree(run)
        assert {name: left.get(name) for name in USER_FILES} == {name: before[name] for name in USER_FILES}, number
        if not replaced:
            found["old"] += 1
            assert of_the_run(before).items() <= left.items(), number
        elif (run / "overwritten/1/model.safetensors").exists() and not (run / "model.safetensors").exists():
            found["both"] += 1
            assert of_the_run(before).items() <= tree(run / "overwritten/1").items(), number
        else:
            found["new"] += 1
            assert not fails
            assert left.keys() >= {"model.safetensors", "config.json", "metrics.jsonl"}, number
        try:  # a further attempt that fails changes nothing either
            replace(run, fails=InputError)
        except InputError:
            assert lasting(tree(run)) == lasting(left), number
        replace(run)
        assert not [name for name in lasting(tree(run)) if "overwritten" in name], number
        assert RunFolder.open(run).config["number"] == 2
        shutil.rmtree(run)
        number += 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork and SIGKILL")
@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_every_moment(tmp_path, fails) -> None:
    code = (
        "import json; from pathlib import Path; from tests.train.runs import test_overwriting_killed as own\n"
        f"print(json.dumps(own.kill_at_every_moment(Path({str(tmp_path)!r}), {fails})))"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["old"] > 10, "while its files move"
    assert found["both"] > 10
    assert (found["new"] > 10) != fails
