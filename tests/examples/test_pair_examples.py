"""The examples for headlines, paraphrases and English-French, as a user runs them."""

import pytest

from handloom.train.data.translation import load_translation_data

from ..support.examples import Example

COPY = ("--set", "copy=true", "--set", "coverage_loss=0.5", "--set", "title_case=true")
# For each example: a part of its output, an input text, and options.
SCRIPTS = {
    "summarize_news": ("nearest article's", "The storm from Norwick hit the coast on Monday, officials said.", COPY),
    "paraphrase_coco": ("A dig sitting on the", "A dog sitting on the grass.", ()),
    "translate_en_fr": ("sinusoidal", "The boy finds the key.", ("--positions", "rotary", "--steps", 8)),
}


@pytest.fixture(scope="module", params=SCRIPTS)
def trained(request, tmp_path_factory) -> tuple[Example, str]:
    drawn = request.param == "summarize_news"  # it has all kinds of pictures; the others write empty pictures
    example = Example(f"{request.param}.py", tmp_path_factory.mktemp(request.param), pictures=drawn)
    out = example.succeeds("--preset", "smoke", "--beam", 2, "--out", "run", *SCRIPTS[request.param][2])
    assert SCRIPTS[request.param][0] in out
    (example.folder / "output.txt").write_text(out, encoding="utf-8")
    return example, request.param


def test_the_run_leaves_tables_pictures_and_samples(trained) -> None:
    run = trained[0].folder / "run"
    assert (run / "copied.png").exists() == (COPY in SCRIPTS[trained[1]])
    assert {path.name for path in run.iterdir()} >= {
        "config.json", "metrics.jsonl", "loss.png", "attention.png", "encoder_heads.png", "decoder_heads.png",
        "cross_heads.png", "table.md", "samples.txt", "model.safetensors", "tokenizer.json",
    }  # fmt: skip


def test_using_the_model_again(trained) -> None:
    example, name = trained
    text = SCRIPTS[name][1]
    out = example.succeeds("--checkpoint", "run", "--beam", 2, text)
    assert len(out.splitlines()) == 1
    assert example.succeeds("--checkpoint", "run", "--beam", 2, stdin=f"{text}\n".encode()) == out


@pytest.mark.parametrize("trained", ["translate_en_fr"], indirect=True)
def test_positions_are_compared_and_pairs_are_added(trained) -> None:
    table = (trained[0].folder / "run/table.md").read_text(encoding="utf-8")
    assert table in (trained[0].folder / "output.txt").read_text(encoding="utf-8")
    kinds = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert kinds == ["rotary", "sinusoidal", "learned", "relative", "alibi", "none"]
    assert "| layer 1, head 2 " in trained[0].succeeds("--resume", "run", "--table", "attention")
    held_out = load_translation_data("embedded", source="fr", target="en").test[-1][1]  # not in the first 5
    (trained[0].folder / "english.txt").write_text(f"The cow is here.\n{held_out}\n", encoding="utf-8")
    options = ["--preset", "smoke", "--steps", 2, "--beam", 1, "--table", "none", "--set", "test_size=5", "--reverse"]
    options += ["--clean", "--back-translate", "run", "english.txt"]
    out = trained[0].succeeds(*options, "--keep-long", "--out", "back")
    assert "1 additional training pairs by back-translation; left out 1 sentences" in out
    assert "add --keep-long" in trained[0].fails(*options)


def test_headlines_in_words(tmp_path) -> None:
    example = Example("summarize_news.py", tmp_path, pictures=False)
    options = ["--preset", "smoke", "--steps", 2, "--beam", 1, "--set", "test_size=5", "--set", "words=true"]
    example.succeeds(*options, "--out", "run")
    written = example.succeeds("--checkpoint", "run", "The Storm reached Norwick's coast!")
    assert written == written.lower()
    assert "needs subwords" in example.fails(*options, "--table", "attention")


def test_memory_with_and_without_mixed_precision(tmp_path) -> None:
    example = Example("paraphrase_coco.py", tmp_path, pictures=False)
    options = ["--preset", "smoke", "--steps", 2, "--beam", 1, "--set", "tokens_per_batch=120", "--set", "test_size=5"]
    out = example.succeeds(*options, "--table", "memory", "--out", "run")
    rows = [line.split("|") for line in out.splitlines() if line.startswith(("| fp32", "| fp16"))]
    assert float(rows[0][3]) == float(rows[1][3]), "weights, gradients and moments are float32 in both precisions"
    assert float(rows[1][4]) < float(rows[0][4])
    assert float(rows[2][4]) < float(rows[0][4]), "the third row recomputes activations"
    assert rows[1][7].strip() == "40%", "the row shows the report's saving"
    assert "A bench sitting on a lush green field." in (tmp_path / "run/table.md").read_text(encoding="utf-8")
