"""Training each report's example with mpirun -n 2 gives the numbers of one process with --accumulate 2."""

import json
import sys
from pathlib import Path

import pytest

from ..support.examples import Example, small_data
from ..support.ranks import MPIRUN, assert_close_runs, needs_mpi, run

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ("translate_de_en", "translate_en_fr", "paraphrase_coco", "summarize_news")
EXAMPLES = (*PAIRS, "generate_text", "classify_news")
#: The tables whose cells the processes train.
TABLES = {"classify_news": "layers", "generate_text": "baselines"}

pytestmark = needs_mpi


def options(name: str, folder: Path) -> list[str]:
    """Write small data, and return the options of a training run with four updates on this data."""
    if name == "paraphrase_coco":
        pairs = small_data("translate_en_fr", folder).read_text(encoding="utf-8").splitlines()
        lines = [f"{i}\t{caption}\n" for i, pair in enumerate(pairs) for caption in (pair.split("\t")[0], f"Look {i}.")]
        data = folder / "captions.tsv"
        data.write_text("".join(lines), encoding="utf-8")
    else:
        data = small_data("classify_news" if name == "summarize_news" else name, folder)
    given = ["--data", str(data), "--preset", "smoke", "--steps", "4", "--log-every", "2", "--set", "dropout=0.1"]
    given += ["--set", "test_size=2", "--set", "tokens_per_batch=128", "--beam", "1"] if name in PAIRS else []
    given += ["--set", "max_length=96"] if name == "summarize_news" else []
    given += ["--length", "5", "--set", "batch_size=4"] if name == "generate_text" else []
    return given + (["--table", TABLES.get(name, "none")] if name not in ("translate_de_en", "paraphrase_coco") else [])


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    """Run each example in two processes, and return the folder of the runs."""
    folder = tmp_path_factory.mktemp("two")
    lines = [[f"{name}.py", *options(name, folder), "--out", str(folder / name)] for name in EXAMPLES]
    (folder / "commands.json").write_text(json.dumps(lines), encoding="utf-8")
    module = [sys.executable, "-m", "tests.support.examples_in_turn", str(folder / "commands.json")]
    done = run([str(MPIRUN), "-n", "2", *module], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds the model") == len(EXAMPLES), "only the first process prints"
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_two_processes_equal_one_with_twice_the_batches(name: str, two: Path, tmp_path: Path) -> None:
    example = Example(f"{name}.py", tmp_path, pictures=False)
    table = ["--table", "none"] if name in TABLES else []
    example.succeeds(*options(name, tmp_path), *table, "--accumulate", 2, "--out", "one")
    assert_close_runs(tmp_path / "one", two / name)
    for file in ("samples.txt", "table.md", "tokenizer.json", "config.json"):
        assert (two / name / file).exists()


def rows(folder: Path) -> list[dict]:
    """Return the finished cells of a run's table, without their seconds."""
    lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


def test_the_processes_train_each_cell_together(two: Path, tmp_path: Path) -> None:
    given = [*options("classify_news", tmp_path), "--accumulate", 2, "--out", "one"]
    Example("classify_news.py", tmp_path, pictures=False).succeeds(*given)
    names = [row["cell"] for row in rows(two / "classify_news")]
    assert names == [row["cell"] for row in rows(tmp_path / "one")]
    assert len(names) == 3, "the fourth row of the table is the run itself"
    for name in names:
        assert_close_runs(tmp_path / "one/cells" / name, two / "classify_news/cells" / name)
    cells = [row["cell"] for row in rows(two / "generate_text")]
    assert cells == ["Random", "Bigram", "6-gram", "RNN", "LSTM", "GRU"], "the cells have the order of the table"
