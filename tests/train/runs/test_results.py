"""The results file of a run contains the measurements and the conditions that they depend on."""

import dataclasses
import json
import subprocess
from typing import Any

from handloom.train.data.news import Article
from handloom.train.runs import results
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.results import checksum


@dataclasses.dataclass
class Data:
    train: Any
    valid: Any = ""
    test: Any = ""
    name: str = ""


def test_the_checksum_is_of_the_texts_alone() -> None:
    assert checksum(Data("a text")) == checksum(Data("a text", name="another name"))
    pairs = Data([("ein Hund", "a dog")])
    assert len({checksum(Data("a", "b")), checksum(Data("b", "a")), checksum(Data("ab")), checksum(pairs)}) == 4
    assert checksum(Data([["ein Hund", "a dog"]])) == checksum(pairs)
    assert checksum(Data([Article("SPORTS", "h", "d")])) != checksum(Data([Article("MONEY", "h", "d")]))


def test_results_hold_rows_and_origin(tmp_path) -> None:
    config = {"command": "python examples/x.py", "options": {"seed": 3}, "data": "few", "data_sha256": "12"}
    with RunFolder.create(tmp_path / "run", config) as run:
        run.write_table("| a table |", models=[{"cell": "RNN", "loss": 1.5, "accuracy": float("nan")}])
        found = json.loads((run.path / "results.json").read_text(encoding="utf-8"))
    assert found["tables"] == {"models": [{"cell": "RNN", "loss": 1.5, "accuracy": None}]}
    assert (found["command"], found["seed"]) == ("python examples/x.py", 3)
    assert found["data"] == {"summary": "few", "notes": None, "sha256": "12"}
    assert found["machine"]["cpu"]
    assert found["versions"]["numpy"]


def test_the_revision_is_of_this_code_and_not_of_a_project_around_it(tmp_path, monkeypatch) -> None:
    inner = tmp_path / "lib/handloom"
    inner.mkdir(parents=True)
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(results, "PACKAGE", inner)
    assert results.revision().startswith("version ")
    monkeypatch.setattr(results, "PACKAGE", tmp_path.resolve())
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert results.revision() == commit
    monkeypatch.setenv("PATH", "")
    assert results.revision().startswith("version ")
