"""Options that all examples of the reports have."""

from __future__ import annotations

import re

import pytest

from ..support.examples import Example, small_data

pytestmark = pytest.mark.slow

EXAMPLES = (
    "translate_de_en", "translate_en_fr", "paraphrase_coco", "summarize_news", "generate_text", "classify_news",
)  # fmt: skip
COMMON = """
--data --preset --out --overwrite --seed --steps --device --resume --stop-at --set --optimizer --schedule --lr
--weight-decay --accumulate --precision --graphs --pad-to --checkpoint-activations --ema --patience --monitor
--curriculum --teacher --prefetch --interactive --checkpoint
"""
SEARCHING = "--beam --nbest --length-penalty --temperature --top-k --top-p --repetition-penalty --no-repeat-ngram"
#: Every model option at once; --teacher is an earlier run of the same script.
EVERYTHING = """
--set norm_first=true --set activation=swiglu --set positions=relative --set pattern=local:4 --set label_smoothing=0.1
--set weight_decay=0.01 --optimizer adamw --schedule cosine --lr 1e-3 --accumulate 2 --checkpoint-activations
--curriculum 1 --prefetch 2 --ema 0.9 --patience 3
"""


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_flags(name: str, tmp_path) -> None:
    known = set(re.findall(r"--[a-z-]+", Example(f"{name}.py", tmp_path).starts("--help")))
    assert known >= set(COMMON.split())
    if name != "classify_news":  # which generates nothing
        assert known >= set(SEARCHING.split())
    if name not in ("classify_news", "generate_text"):  # there is a source to cover
        assert "--coverage-penalty" in known


@pytest.mark.parametrize("name", ["translate_en_fr", "generate_text", "classify_news"])
def test_everything_at_once(name: str, tmp_path) -> None:
    """One example for each of the three tasks; the others call the same functions."""
    example = Example(f"{name}.py", tmp_path, pictures=False)
    options = ["--data", small_data(name, tmp_path), "--preset", "smoke", "--steps", 4, "--table", "none"]
    options += ["--beam", 1] if name not in ("classify_news", "generate_text") else []
    example.succeeds(*options, *EVERYTHING.split(), "--out", "teacher")
    strided = EVERYTHING.replace("local:4", "strided:3").split()
    example.succeeds(*options, *strided, "--teacher", "teacher", "--out", "run")
    odd = ["head_dim=15", "positions=rotary"] if name == "generate_text" else ["d_model=7"]
    told = example.fails(*options, *(part for one in odd for part in ("--set", one)), "--out", "wrong")
    assert "This model can't be built: " in told
    assert not (tmp_path / "wrong").exists()


def test_a_run_of_another_example_is_not_resumed(tmp_path) -> None:
    writer = Example("summarize_news.py", tmp_path, pictures=False)
    options = ["--data", small_data("classify_news", tmp_path), "--preset", "smoke", "--set", "max_length=96"]
    writer.succeeds(*options, "--steps", 2, "--beam", 1, "--out", "run")
    told = Example("paraphrase_coco.py", tmp_path).fails("--resume", "run")
    assert "run is a run of summarize_news.py, not of paraphrase_coco.py: resume it with summarize_news.py" in told


def test_numbers_out_of_range(tmp_path) -> None:
    example = Example("classify_news.py", tmp_path)
    assert "'nan': it must be a number above 0" in example.fails("--lr", "nan")
    told = example.fails("--preset", "smoke", "--ema", 2, "--out", "run")
    assert told.splitlines()[0] == "error: argument --ema: '2': it must be a number from 0 to below 1"
    assert not (tmp_path / "run").exists()


def test_augmentation_by_way_of_french(tmp_path) -> None:
    names = ("translate_en_fr", "generate_text")
    translate, write = (Example(f"{name}.py", tmp_path, pictures=False) for name in names)
    pairs, text = (small_data(name, tmp_path) for name in names)
    smoke = ["--data", pairs, "--preset", "smoke", "--beam", 1, "--steps", 150, "--set", "test_size=5"]
    translate.succeeds(*smoke, "--table", "none", "--out", "forth")
    translate.succeeds(*smoke, "--table", "none", "--reverse", "--out", "back")
    out = translate.succeeds("--checkpoint", "back", "--beam", 1, "Le chien dort.")
    assert len(out.splitlines()) == 1
    options = ["--data", text, "--preset", "smoke", "--steps", 5, "--length", 20, "--augment", "forth", "back"]
    out = write.succeeds(*options, "--augment-share", 0.5, "--table", "none", "--out", "run")
    assert "sentences came back from two translations" in out
    table = (tmp_path / "run/table.md").read_text(encoding="utf-8")
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        "Transformer, without augmentation", "Transformer, with augmentation",
    ]  # fmt: skip
