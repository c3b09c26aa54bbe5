"""The news classifier as a user runs it."""

import json

import pytest

from ..support.examples import Example, small_data


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Example:
    example = Example("classify_news.py", tmp_path_factory.mktemp("classify"))
    out = example.succeeds("--preset", "smoke", "--out", "run", "--steps", 60)
    assert out.index("\n| always POLITICS") < out.index("\n| Transformer")
    return example


def test_the_run_leaves_tables_pictures_and_errors(trained: Example) -> None:
    names = {path.name for path in (trained.folder / "run").iterdir()}
    assert names >= {"loss.png", "confusion.png", "encoder_heads.png", "table.md", "samples.txt"}
    assert names >= {"model.safetensors", "tokenizer.json"}
    assert "actual > predicted" in (trained.folder / "run/samples.txt").read_text(encoding="utf-8")
    tables = json.loads((trained.folder / "run/results.json").read_text(encoding="utf-8"))["tables"]
    assert {row["epoch"]: row.get("report_valid") for row in tables["epochs"]}[20] == 0.678
    assert [row["report"] for row in tables["samples"]] == ["BUSINESS", "WELLNESS", "SPORTS", "ARTS & CULTURE"]


def test_the_model_with_other_heads(tmp_path) -> None:
    example = Example("classify_news.py", tmp_path, pictures=False)
    options = ["--data", small_data("classify_news", tmp_path), "--preset", "smoke", "--steps", 4]
    out = example.succeeds(*options, "--table", "heads", "--out", "run")
    offsets = [out.index(f"\n| {name}") for name in ("always ", "2 heads", "1 head ", "8 heads")]
    assert offsets == sorted(offsets)
    assert "67.8%" not in out, "the report's accuracy is of other data"
    results = json.loads((tmp_path / "run/results.json").read_text(encoding="utf-8"))["tables"]
    assert "samples" not in results
    assert not any("report_valid" in row for row in results["epochs"])


def test_what_the_heads_look_at_and_what_layers_cost(tmp_path) -> None:
    example = Example("classify_news.py", tmp_path)
    options = ["--data", small_data("classify_news", tmp_path), "--preset", "smoke", "--steps", 2, "--descriptions"]
    more = ("--set", "word_vectors=true", "--set", "consistency=1")
    assert "word vectors from" in example.succeeds(*options, *more, "--table", "attention", "--out", "run")
    tables = json.loads((tmp_path / "run/results.json").read_text(encoding="utf-8"))["tables"]
    assert [row["cell"] for row in tables["heads"]] == ["layer 1, head 1", "layer 1, head 2", "uniform attention"]
    assert all(row["first"] + row["content"] + row["function"] == pytest.approx(1) for row in tables["first_token"])
    assert (tmp_path / "run/head_shares.png").stat().st_size
    out = example.succeeds("--resume", "run", "--table", "cost")
    assert " multiply-adds |" in out


def test_classifying_arguments_and_standard_input(trained: Example) -> None:
    headline = "Goalkeeper Wins Title Match in Norwick"
    out = trained.succeeds("--checkpoint", "run", headline, "Storm Hits Coast")
    assert len(out.splitlines()) == 2
    assert out.startswith("SPORTS "), out
    assert trained.succeeds("--checkpoint", "run", stdin=headline.encode()) == out.splitlines()[0] + "\n"
