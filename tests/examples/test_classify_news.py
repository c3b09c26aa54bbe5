"""The news classifier as a user runs it."""

from __future__ import annotations

import pytest

from ..support.examples import Example, small_data


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Example:
    example = Example("classify_news.py", tmp_path_factory.mktemp("classify"))
    out = example.succeeds("--preset", "smoke", "--out", "run", "--steps", 60)
    assert out.index("| always POLITICS") < out.index("| Transformer")
    return example


def test_the_run_leaves_tables_pictures_and_errors(trained: Example) -> None:
    names = {path.name for path in (trained.folder / "run").iterdir()}
    assert names >= {"loss.png", "confusion.png", "encoder_heads.png", "table.md", "samples.txt"}
    assert names >= {"model.safetensors", "tokenizer.json"}
    assert "actual > predicted" in (trained.folder / "run/samples.txt").read_text(encoding="utf-8")


def test_the_model_with_other_heads(tmp_path) -> None:
    example = Example("classify_news.py", tmp_path, pictures=False)
    options = ["--data", small_data("classify_news", tmp_path), "--preset", "smoke", "--steps", 4]
    out = example.succeeds(*options, "--table", "heads", "--out", "run")
    offsets = [out.index(f"| {name}") for name in ("always ", "Transformer", "1 head ", "8 heads")]
    assert offsets == sorted(offsets)


def test_classifying_arguments_and_standard_input(trained: Example) -> None:
    headline = "Goalkeeper Wins Title Match in Norwick"
    out = trained.succeeds("--checkpoint", "run", headline, "Storm Hits Coast")
    assert len(out.splitlines()) == 2
    assert out.startswith("SPORTS "), out
    assert trained.succeeds("--checkpoint", "run", stdin=headline.encode()) == out.splitlines()[0] + "\n"


def test_what_is_refused(trained: Example) -> None:
    assert "neither a known set" in trained.fails("--data", "newz")
    assert "add --checkpoint" in trained.fails("Storm Hits Coast")
    assert "for training" in trained.fails("--checkpoint", "run", "--steps", 3, "Storm")
    assert "exists already" in trained.fails("--preset", "smoke", "--out", "run")
