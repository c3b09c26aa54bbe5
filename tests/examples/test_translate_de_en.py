"""The German-English example as a user runs it: a small training run, and translating with its model."""

import json
import re
import shutil
from pathlib import Path

import pytest

from ..support.examples import Example


def run(*arguments: object, folder: Path, stdin: bytes = b"") -> str:
    """Run the example, check that it succeeds, and return its standard output."""
    return Example("translate_de_en.py", folder).succeeds(*arguments, stdin=stdin)


def refused(*arguments: object, folder: Path) -> str:
    return Example("translate_de_en.py", folder).fails(*arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Return a folder with a user's small data set, data.tsv, and a run trained on this data."""
    folder = tmp_path_factory.mktemp("example")
    nouns = {"Hund": "dog", "Vogel": "bird", "Fisch": "fish", "Mann": "man", "Baum": "tree", "Ball": "ball"}
    colours = {"rote": "red", "blaue": "blue", "kleine": "small", "alte": "old", "neue": "new"}
    verbs = {"ist hier": "is here", "ist da": "is there", "ist weg": "is gone", "schläft": "sleeps"}
    lines = [
        f"Der {a} {n} {v}.\tThe {b} {m} {w}."
        for n, m in nouns.items() for a, b in colours.items() for v, w in verbs.items()
    ]  # fmt: skip
    (folder / "data.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = run("--data", "data.tsv", "--preset", "smoke", "--out", "run", "--seed", 3, folder=folder)
    (folder / "output.txt").write_text(out, encoding="utf-8")
    return folder


def test_training_leaves_a_whole_run_folder(trained: Path) -> None:
    names = {path.name for path in (trained / "run").iterdir()}
    assert names >= {"config.json", "metrics.jsonl", "loss.png", "attention.png", "samples.txt"}
    assert names >= {"model.safetensors", "tokenizer.json"}
    assert json.loads((trained / "run/config.json").read_text())["options"]["seed"] == 3
    output = (trained / "output.txt").read_text(encoding="utf-8")
    assert output.splitlines()[-1].startswith("BLEU = ")
    assert "Worst translations" in output
    assert "13a" in output, "the output contains the metric's signature"
    assert "Best and worst of a random batch\n" in output
    assert "the report" not in output, "its figures are of other data"
    tables = json.loads((trained / "run/results.json").read_text(encoding="utf-8"))["tables"]
    assert [row["report"] for row in tables["batch"]] == [None, None]
    assert "note: 108 pairs are far too few to learn a language from; start from" in output
    assert "--init everyday-de-en" in output
    rows = (trained / "run/metrics.jsonl").read_text().splitlines()
    losses = [json.loads(row)["loss"] for row in rows if '"loss"' in row]
    assert losses[-1] < losses[0] - 0.5


def test_other_languages_and_a_number_of_steps_that_fits_the_data(trained: Path) -> None:
    """A resumed run keeps the number."""
    rows = (trained / "data.tsv").read_text(encoding="utf-8")
    (trained / "es.tsv").write_text("Spanish\tEnglish\n" + rows, encoding="utf-8")
    assert "other languages: --from en --to es" in refused("--data", "es.tsv", folder=trained)
    assert "given together" in refused("--data", "es.tsv", "--from", "es", folder=trained)
    options = ["--data", "es.tsv", "--from", "es", "--to", "en", "--out", "es", "--set", "d_model=32"]
    options += [f"--set={name}" for name in ("layers=1", "nhead=2", "dim_feedforward=32", "vocab_size=300")]
    options += ["--set=tokens_per_batch=9000", "--set=test_size=2", "--beam=1", "--set=validate_every=60"]
    run(*options, "--stop-at", 3, folder=trained)
    said = run("--resume", "es", folder=trained)
    assert "30 steps instead of 4,000: 30 epochs of these data; --steps N sets another number" in said
    assert "es.tsv, es-en: 108 training" in said
    assert "note:" not in said, "the advice is for the beginning"


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files of a run that depend only on its options and data (see docs/training.md)."""
    names = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def test_the_same_seed_gives_the_same_files_byte_for_byte(trained: Path) -> None:
    for out, seed in [("again", 3), ("other", 4)]:
        run("--data", "data.tsv", "--preset", "smoke", "--out", out, "--seed", seed, folder=trained)
    first, again = files_of(trained / "run"), files_of(trained / "again")
    assert first.keys() == again.keys()
    assert len(first) == 15
    assert [name for name, data in first.items() if data != again[name]] == []
    assert first["metrics.jsonl"] != (trained / "other/metrics.jsonl").read_bytes()


def test_translating_arguments_and_standard_input(trained: Path) -> None:
    first, second = run(
        "--checkpoint", "run", "Der rote Hund ist hier.", "Der alte Mann schläft.", folder=trained
    ).splitlines()
    lines = "Der rote Hund ist hier.\n\nDer alte Mann schläft.".encode()
    piped = run("--checkpoint", "run", folder=trained, stdin=lines)
    assert piped.splitlines() == [first, "", second]
    said = refused("--checkpoint", "run", "Ein Hund.", "DerHund" * 100, folder=trained)
    assert "The sentence 'DerHundDerHund" in said, "the error quotes the sentence instead of its number in the batch"


def test_asking_in_the_terminal(trained: Path) -> None:
    lines = f"Der rote Hund.\n{'Der Hund ' * 100}\nDer alte Mann.\n".encode()
    options = ("--interactive", "--nbest", "2", "--max-length", "5", "--show-attention")
    shown = run("--checkpoint", "run", *options, folder=trained, stdin=lines)
    out = shown.replace("> ", "").splitlines()
    assert out[0] == "Type sentences; Ctrl-D ends."
    assert "takes at most" in shown, "the program reports the sentence that is too long, and asks for the next"
    scores = [float(line.split()[0]) for line in out if line.lstrip().startswith("-")]
    assert len(scores) == 4
    assert scores[0] >= scores[1]
    assert scores[2] >= scores[3]
    drawn = run("--checkpoint", "run", "--sample", "--top-k", "5", "--seed", "3", "Der rote Hund.", folder=trained)
    again = run("--checkpoint", "run", "--sample", "--top-k", "5", "--seed", "3", "Der rote Hund.", folder=trained)
    assert drawn == again


def test_too_long_test_sentences_do_not_end_a_trained_run(trained: Path) -> None:
    for part, repeat in [("valid", 1), ("test", 100)]:
        lines = [f"{'Der rote Hund ' * repeat}{i}.\t{'The red dog ' * repeat}{i}." for i in range(4)]
        (trained / f"long.{part}.tsv").write_text("\n".join(lines), encoding="utf-8")
    shutil.copy(trained / "data.tsv", trained / "long.tsv")
    options = ["--preset", "smoke", "--set", "max_length=24", "--steps", "2"]  # longer sentences make large pictures
    example = Example("translate_de_en.py", trained, warnings="always")
    done = example.run("--data", "long.tsv", *options, "--out", "long", PYTHONIOENCODING="ascii")
    assert done.code == 0, done.err
    assert "BLEU = " in done.out.splitlines()[-1]
    assert "warning: Sentence" in done.err or "warning: The sentence" in done.err


def test_a_stopped_run_goes_on_and_ends_like_the_other(trained: Path) -> None:
    options = ("--data", "data.tsv", "--preset", "smoke", "--out", "k", "--seed", 3, "--stop-at", 7)
    done = Example("translate_de_en.py", trained).run(*options)
    assert done.code == 0, done.err
    assert "stopped after step 7 of 30, all saved. Continue with --resume k" in done.err
    assert "--seed can't be changed" in refused("--resume", "k", "--seed", 4, folder=trained)
    out = run("--resume", "k", folder=trained)
    resumed, straight = files_of(trained / "k"), files_of(trained / "run")
    assert [name for name in straight | resumed if straight.get(name) != resumed.get(name)] == []
    assert out.splitlines()[-1] == (trained / "output.txt").read_text(encoding="utf-8").splitlines()[-1]


def test_back_translation_distillation_and_other_ways_to_train(trained: Path) -> None:
    train = ["--data", "data.tsv", "--preset", "smoke", "--steps", "4"]
    assert "en-de" in run(*train, "--reverse", "--out", "reverse", folder=trained)
    known = [line.split("\t")[1].upper() for line in (trained / "data.tsv").read_text(encoding="utf-8").splitlines()]
    (trained / "english.txt").write_text("\n\n".join([*known, "The cow is here."]) + "\n", encoding="utf-8")
    ways = ["--accumulate", "2", "--checkpoint-activations", "--ema", "0.9", "--curriculum", "1"]
    further = ["--back-translate", "reverse", "english.txt", "--clean", "--teacher", "run", "--set", "dropout=0.1"]
    out = run(*train, "--out", "all", *ways, *further, folder=trained)
    counts = re.search(r"(\d+) additional training pairs by back-translation; left out (\d+) sentences", out)
    assert counts is not None
    assert int(counts[1]) + int(counts[2]) == len(known) + 1
    assert int(counts[2]) > 0
    assert (trained / "all/tokenizer.json").read_bytes() == (trained / "run/tokenizer.json").read_bytes()
    assert '"valid_accuracy": ' in (trained / "all/metrics.jsonl").read_text()
    assert "add --lr" in refused(*train, "--schedule", "cosine", folder=trained)
