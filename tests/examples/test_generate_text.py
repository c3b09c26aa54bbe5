"""The language model example as a user runs it."""

import dataclasses
import json

import pytest

from ..support.examples import Example


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Example:
    example = Example("generate_text.py", tmp_path_factory.mktemp("generate"))
    out = example.succeeds("--preset", "smoke", "--out", "run", "--length", 40)
    (example.folder / "output.txt").write_text(out, encoding="utf-8")
    return dataclasses.replace(example, pictures=False)


def test_the_default_leaves_a_table_pictures_and_samples(trained: Example) -> None:
    run = trained.folder / "run"
    names = {path.name for path in run.iterdir()}
    assert names >= {"loss.png", "accuracy.png", "comparison.png", "processor_time.png", "table.md", "results.json"}
    table = (run / "table.md").read_text(encoding="utf-8")
    assert table in (trained.folder / "output.txt").read_text(encoding="utf-8") + "\n"
    models = ["Random", "Bigram", "6-gram", "RNN", "LSTM", "GRU", "Transformer"]
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == models
    titles = [title.strip() for title in table.splitlines()[0].split("|")]
    assert titles[-4:-1] == ["report's parameters", "report's loss", "report's accuracy"]
    assert [row.get("updates") for row in json.loads((run / "results.json").read_text())["tables"]["models"]] == [
        None, None, None, 15, 15, 15, 30,
    ]  # fmt: skip
    samples = (run / "samples.txt").read_text(encoding="utf-8").split("\n\n----\n\n")
    assert [sample[: sample.index(":\n\nThis is a")] for sample in samples] == models


def test_writing_with_a_checkpoint(trained: Example) -> None:
    first = trained.succeeds("--checkpoint", "run", "--length", 50, "This is a")
    assert first.startswith("This is a")
    assert len(first) == len("This is a") + 50 + 1
    assert trained.succeeds("--checkpoint", "run", "--length", 50, stdin=b"This is a\n") == first
    assert trained.succeeds("--checkpoint", "run", "--length", 50, "--seed", 1, "This is a") != first
    assert "no token" in trained.fails("--checkpoint", "run", "\u4e2d")


def test_a_model_to_begin_with_is_tested_within_its_own_context(trained: Example) -> None:
    """The model takes at most 32 tokens, so windows of the preset's 64 tokens would be too long."""
    options = ["--preset", "smoke", "--steps", 2, "--table", "none", "--length", 5, "--set", "length=64"]
    assert "| Transformer |" in trained.succeeds("--init", "run", *options, "--out", "from_short")


def test_an_interrupted_table_goes_on(trained: Example) -> None:
    run, cells = trained.folder / "run", trained.folder / "run" / "cells.jsonl"
    before = [json.loads(line) for line in cells.read_text().splitlines()]
    cells.write_text("".join(json.dumps(row) + "\n" for row in before[:-1]))
    out = trained.succeeds("--resume", "run")
    assert out.count("made before") == 5
    after = [json.loads(line) for line in cells.read_text().splitlines()]
    assert {k: v for k, v in after[-1].items() if k != "seconds"} == {
        k: v for k, v in before[-1].items() if k != "seconds"
    }
    assert (run / "table.md").exists()


def test_subwords_and_own_text(trained: Example) -> None:
    text = "The cat sat on the mat. The dog ran to the old house by the river.\n" * 200
    (trained.folder / "own.txt").write_text(text, encoding="utf-8")
    options = ["--data", "own.txt", "--preset", "smoke", "--tokenizer", "bpe", "--table", "sizes", "--out", "bpe"]
    out = dataclasses.replace(trained, pictures=True).succeeds(*options)
    names = [line.split("|")[1].strip() for line in out.splitlines() if line.startswith("| ")]
    assert names[2:] == ["report's, characters", "report's, BPE", "GPT-3 Medium", "Transformer"]
    assert {path.name for path in (trained.folder / "bpe").glob("*.png")} == {
        "loss.png", "comparison.png", "accuracy.png",
    }  # fmt: skip
