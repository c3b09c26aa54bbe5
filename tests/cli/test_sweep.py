"""Sweeps: every cell runs once, failed cells run again, and one table and one picture show the results."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from handloom.cli.sweep import cell_command, grid_cells
from handloom.errors import InputError
from handloom.files import folder_lock
from handloom.train.runs.folder import read_metrics
from handloom.train.runs.saves import SavedStates
from tests.support.examples import Done, Example
from tests.support.ranks import ENVIRONMENT, MPIRUN, needs_mpi, run

pytestmark = pytest.mark.slow

# A minimal training script: it writes a run and appends its options to "calls". If "broken" exists, seed 1 fails.
SCRIPT = """
import argparse, pathlib, sys
from handloom.train.runs.folder import RunFolder
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--set")
parser.add_argument("--out")
parser.add_argument("--overwrite", action="store_true")
parser.add_argument("--data")
arguments = parser.parse_args()
print("hello from the cell")
if arguments.seed == 1 and pathlib.Path("broken").exists():
    sys.exit("broken")
with RunFolder.create(arguments.out, {"options": vars(arguments)}, overwrite=True) as run:
    for step in (1, 2):
        run.log({"step": step, "valid_loss": 1 + arguments.seed + float(arguments.set.split("=")[1]) / step})
with open("calls", "a") as calls:
    calls.write(f"{arguments.seed} {arguments.set}\\n")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("HANDLOOM_DATA", raising=False)  # a part of what a cell is made with
    monkeypatch.delitem(ENVIRONMENT, "HANDLOOM_DATA", raising=False)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


WORDS = ["--out", "out", "--grid", "seed=0,1", "--grid", "set.dropout=0.5,0.1", "--", "script.py"]


def sweep(folder: Path, *words: str) -> Done:
    return Example("handloom.cli.sweep", folder).run(*(words or WORDS))


def calls(folder: Path) -> list[str]:
    return sorted((folder / "calls").read_text().splitlines())


ALL = ["0 dropout=0.1", "0 dropout=0.5", "1 dropout=0.1", "1 dropout=0.5"]


def test_a_sweep_goes_on_where_it_was(folder) -> None:
    (folder / "broken").touch()
    first = sweep(folder)
    assert first.code == 2
    failed = "2 of 4 cells failed or made no validation: 'seed=1,set.dropout=0.5', 'seed=1,set.dropout=0.1'"
    assert f"{failed}. out/CELL.log says why" in first.err
    assert "broken" in (folder / "out/seed=1,set.dropout=0.1.log").read_text()
    assert calls(folder) == ALL[:2]
    (folder / "broken").unlink()
    second = run([sys.executable, "-m", "handloom.cli.sweep", *WORDS], folder)
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("made before") == 2
    assert calls(folder) == ALL
    table = (folder / "out/table.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")][:4] for line in table.splitlines()[2:]]
    assert rows == [["0", "0.1", "1.0500", "2"], ["0", "0.5", "1.2500", "2"],
                    ["1", "0.1", "2.0500", "2"], ["1", "0.5", "2.2500", "2"]]  # fmt: skip
    assert table in second.stdout
    results = json.loads((folder / "out/results.json").read_text())
    assert results["command"].endswith("-- script.py")
    assert [row["valid_loss"] for row in results["tables"]["cells"]] == [1.05, 1.25, 2.05, 2.25]
    assert (folder / "out/comparison.png").stat().st_size > 5000
    assert "hello from the cell" not in second.stdout
    third = sweep(folder)
    assert third.out.count("made before") == 4
    assert calls(folder) == ALL


@needs_mpi
def test_over_several_processes(folder) -> None:
    done = run([str(MPIRUN), "-n", "3", sys.executable, "-m", "handloom", "sweep", *WORDS], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls(folder) == ALL
    assert len(read_metrics(folder / "out/cells.jsonl")) == 4
    assert done.stdout.count("holds table.md and comparison.png") == 1


def test_two_sweeps_in_one_folder(folder) -> None:
    (folder / "out").mkdir()
    with folder_lock(folder / "out"):
        done = sweep(folder)
    assert done.code == 2
    assert "out is in use by another process" in done.err
    assert not (folder / "calls").exists()


def test_a_cell_that_was_stopped_goes_on(tmp_path) -> None:
    start = cell_command(["s.py", "--a"], tmp_path / "cell", {"seed": "1", "set.dropout": "0.1"})
    expected = ["s.py", "--a", "--seed=1", "--set", "dropout=0.1", "--out", str(tmp_path / "cell"), "--overwrite"]
    assert start == [sys.executable, *expected]
    SavedStates(tmp_path / "cell/checkpoints").save(3, {"w": np.ones(1)}, {})
    again = cell_command(["s.py", "--a"], tmp_path / "cell", {"seed": "1"})
    assert again == [sys.executable, "s.py", "--resume", str(tmp_path / "cell")]


# For each change between two calls of a sweep: the words of the second call, and of the error, "" for none.
CHANGES = {
    "nothing": (lambda folder: None, [], ""),
    "a further value": (lambda folder: None, ["--change", "steps=7"], ""),
    "an option": (lambda folder: None, ["--", "script.py", "--data", "d.txt", "--steps", "9"], "d.txt --steps 9"),
    "the script": (lambda folder: (folder / "script.py").write_text(SCRIPT + "# changed"), [], "script.py"),
    "a helper": (lambda folder: (folder / "helper.py").write_text("FACTOR = 2\n"), [], "helper.py"),
    "a data file": (lambda folder: (folder / "d.txt").write_text("other"), [], "d.txt"),
    "a file beside it": (lambda folder: (folder / "d.txt.valid").write_text("more"), [], "d.txt.valid"),
    "another file": (lambda folder: (folder / "notes.py").write_text("1"), [], ""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_sweep_shows_no_numbers_of_another_training(folder, what) -> None:
    (folder / "helper.py").write_text("FACTOR = 1\n")
    (folder / "script.py").write_text(SCRIPT.replace("parser.add", 'parser.add_argument("--steps")\nparser.add', 1))
    (folder / "d.txt").write_text("one")
    with (folder / "script.py").open("a") as script:
        script.write("import helper\n")
    change, more, says = CHANGES[what]
    words = ["--out", "out", "--grid", "seed=0", "--grid", "set.dropout=0.5"]
    given = ["--", "script.py", "--data", "d.txt"]
    assert sweep(folder, *words, *given).code == 0
    before = (folder / "out/results.json").read_bytes()
    change(folder)
    again = [*words, *(more if "--" in more else [*more, *given])]
    done = sweep(folder, *again)
    if not says:
        assert done.code == 0, done.err
        assert "seed=0,set.dropout=0.5: made before" in done.out
        return
    assert done.code == 2
    assert "out holds the cell seed=0,set.dropout=0.5, which was made with" in done.err
    assert says in done.err
    assert (folder / "out/results.json").read_bytes() == before
    assert sweep(folder, "--overwrite", *again).code == 0
    assert calls(folder) == ["0 dropout=0.5"] * 2
    assert (folder / "out/seed=0,set.dropout=0.5.old-1").is_dir()
    assert "made before" in sweep(folder, *again).out


def test_an_interrupted_cell_does_not_go_on_with_its_old_options(folder) -> None:
    words = ["--out", "out", "--grid", "seed=0", "--grid", "set.dropout=0.5", "--", "script.py"]
    (folder / "script.py").write_text("import sys\nsys.exit(1)\n" + SCRIPT)
    assert sweep(folder, *words).code == 2
    (folder / "script.py").write_text(SCRIPT)
    assert sweep(folder, *words).code == 0, "a cell that has saved nothing has nothing to lose"
    row = '{"cell": "seed=0,set.dropout=0.5", "begun": true, "made": {"options": "old"}}'
    (folder / "out/cells.jsonl").write_text(f"{row}\n")
    SavedStates(folder / "out/seed=0,set.dropout=0.5/checkpoints").save(3, {"w": np.ones(1)}, {})
    done = sweep(folder, *words)
    assert "was made with `old`, not `--seed=0 --set dropout=0.5`" in done.err


def test_a_cell_that_is_still_trained_is_named(folder) -> None:
    cell = folder / "out/seed=0,set.dropout=0.5"
    cell.mkdir(parents=True)
    with folder_lock(cell):
        done = sweep(folder)
    assert done.code == 2
    assert "out/seed=0,set.dropout=0.5 is in use by another process" in done.err
    assert not (folder / "calls").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="another system does not end the cell")
def test_a_killed_sweep_leaves_no_cell_training(folder) -> None:
    (folder / "script.py").write_text(
        "import os, time, pathlib\npathlib.Path('new').write_text(str(os.getpid()))\n"
        "os.rename('new', 'pid')\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-m", "handloom.cli.sweep", "--out", "out", "--grid", "seed=0", "--", "script.py"]
    process = subprocess.Popen(command, cwd=folder)
    while not (folder / "pid").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    cell = Path("/proc", (folder / "pid").read_text(), "stat")
    while cell.exists() and cell.read_text().split(")")[1].split()[0] != "Z":
        time.sleep(0.02)


def test_cells_without_a_validation_are_named_and_the_others_are_kept(folder) -> None:
    script = SCRIPT.replace("for step in (1, 2):", "for step in (1, 2) if arguments.seed else ():")
    (folder / "script.py").write_text(script)
    done = sweep(folder)
    assert done.code == 2
    assert "2 of 4 cells failed or made no validation: 'seed=0,set.dropout=0.5', 'seed=0" in done.err
    assert "2.0500" in (folder / "out/table.md").read_text()
    done = sweep(folder, "--out", "none", "--grid", "seed=0,1", "--", "script.py", "--help")
    assert (done.code, "Traceback" in done.err) == (2, False), done.err


def test_grids_keep_every_value() -> None:
    assert list(grid_cells(["data=a/b,a_b,a%2Fb"])) == ["data=a%2Fb", "data=a_b", "data=a%252Fb"]
    cells = grid_cells(['set.betas="0.9,0.98","0.8,0.9"', "seed=0"])
    assert cells["set.betas=0.9%2C0.98,seed=0"] == {"set.betas": "0.9,0.98", "seed": "0"}
    assert len(cells) == 2
    with pytest.raises(InputError, match="every value once"):
        grid_cells(["seed=0,0"])


def test_grids() -> None:
    cells = grid_cells(["seed=0,1", "data=ab"])
    assert cells == {"seed=0,data=ab": {"seed": "0", "data": "ab"}, "seed=1,data=ab": {"seed": "1", "data": "ab"}}
    single = grid_cells(["seed=0"], ["schedule=cosine,linear", "set.norm_first=true"])
    assert list(single.values()) == [
        {"seed": "0"},
        {"seed": "0", "schedule": "cosine"},
        {"seed": "0", "schedule": "linear"},
        {"seed": "0", "set.norm_first": "true"},
    ]
    for wrong in (["seed"], ["=1"], ["seed=1,,2"], ["seed=0", "seed=1"]):
        with pytest.raises(InputError, match="with every option once"):
            grid_cells(wrong)


def test_a_script_that_is_not_there(tmp_path) -> None:
    done = sweep(tmp_path, "--out", "out", "--grid", "seed=0", "--", "none.py")
    assert done.code == 2
    assert "none.py does not exist. Put -- before it" in done.err
    assert not (tmp_path / "out").exists()
    done = sweep(tmp_path, "--out", "out", "--grid", "seed=0", "translate_de_en", "--steps", "1")
    assert "unrecognized arguments: --steps 1 (put -- before the script" in done.err
    assert sweep(tmp_path, "--out", "out", "--grid", "seed=0", "--", "translate_de_en", "--nonsense").code == 2
    assert "unrecognized arguments: --nonsense" in (tmp_path / "out" / "seed=0.log").read_text()
