"""The shipped models: they work without training, match their model cards, and their training can be repeated."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from benchmarks import letters, outside
from handloom.models.shipped import MODELS, TRANSLATORS, min_log_probability, model_name, model_path
from handloom.train.data.translation import load_translation_data
from handloom.train.runs.checkpoints import load_checkpoint
from handloom.train.tasks.metrics import bleu
from handloom.train.tasks.translation import Translator
from tests.support.examples import EXAMPLES, Example

UPDATES = 3  # repeated updates of each training run; the third depends on moments of two gradients
# Runs command lines, given as JSON. Reads the pairs of "everyday" once for both directions, and draws no losses.
ONE_AFTER_THE_OTHER = """
import contextlib, functools, json, runpy, sys
from handloom.train.data import translation
from handloom.train.runs import plots

plots.plot_losses = lambda metrics, out_png, **options: None
read = functools.cache(functools.partial(translation.load_everyday, "de", "en"))
both = lambda source, target: read() if source == "de" else read().reversed()
translation.SETS["everyday"] = both, translation.SETS["everyday"][1]
for sys.argv in json.load(sys.stdin):
    with contextlib.suppress(SystemExit):
        runpy.run_path(sys.argv[0], run_name="__main__")
"""
FOLDER = MODELS["everyday-de-en"]
FIGURES = {name: json.loads((folder / "figures.json").read_text(encoding="utf-8")) for name, folder in MODELS.items()}
CONFIGS = {name: json.loads((folder / "config.json").read_text(encoding="utf-8")) for name, folder in MODELS.items()}
each_model = pytest.mark.parametrize("name", MODELS)
needs_data = pytest.mark.skipif(
    not os.environ.get("HANDLOOM_DATA"), reason="HANDLOOM_DATA names no folder with real data"
)


def test_a_sentence_is_translated_without_a_run(tmp_path: Path) -> None:
    done = Example("translate_de_en.py", tmp_path).run("Wo ist der Bahnhof?", "Ich habe keine Zeit.")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["Where is the station?", "I don't have time."]
    assert "everyday-de-en, which comes with handloom" in done.err
    assert not list(tmp_path.iterdir())


def test_lines_of_standard_input_are_translated_for_a_dash(tmp_path: Path) -> None:
    """An example never looks at standard input to decide: a pipe may be open and silent, as in a job of a scheduler."""
    example = Example("translate_de_en.py", tmp_path)
    done = example.run("--beam", 1, "-", stdin=b"Wo ist der Bahnhof?\n\nHallo.")
    assert done.out.splitlines() == ["Where is the station?", "", "Hello."]
    (tmp_path / "mine.txt").touch()
    read, write = os.pipe()
    command = [sys.executable, EXAMPLES / "translate_de_en.py", "--preset", "smoke", "--out", "."]
    done = subprocess.run(command, cwd=tmp_path, stdin=read, capture_output=True, text=True, timeout=300)
    os.close(read)
    os.close(write)
    assert "not empty" in done.stderr


@pytest.mark.parametrize("options", ["", "--beam 1", "--sample", "--coverage-penalty 0.1", "--min-length 12"])
def test_what_the_model_does_not_know_is_said(options: str, tmp_path: Path) -> None:
    """The results of `benchmarks.outside` contain the hit rate on 200 sentences."""
    sentences = ("WO IST DER BAHNHOF?", "Xqzw vlorf pft.", "The weather is nice.")
    done = Example("translate_de_en.py", tmp_path).run(*options.split(), *sentences)
    unlike, direction = [line for line in done.err.splitlines() if line.startswith("note: ")]
    assert unlike.endswith(f"the translation is a guess: {sentences[1]!r}")
    assert direction.endswith("looks like English: it is translated into German; --to en rules this out")
    known = min_log_probability("everyday-de-en")
    assert min_log_probability("runs/other") == min_log_probability(None) == -math.inf < known
    rows = json.loads(outside.RESULTS.read_text(encoding="utf-8"))
    assert rows["bound"] == min_log_probability(FOLDER) == known
    counts = {kind: len(some) for kind, some in outside.sentences().items()}
    assert counts == {kind: rows["rows"][kind]["sentences"] for kind in counts}
    assert sum(counts[kind] for kind in outside.KNOWN) == 125 == sum(counts.values()) - 75


def test_options_of_training_are_refused_beside_a_sentence(tmp_path: Path) -> None:
    done = Example("translate_de_en.py", tmp_path).run("--steps", "3", "Wo ist der Bahnhof?")
    assert done.code == 2
    assert "unrecognized arguments: Wo ist der Bahnhof?" in done.err
    done = Example("translate_de_en.py", tmp_path).run("--steps", "3", "--checkpoint", "everyday-de-en")
    assert "--init MODEL trains further" in done.err


def test_a_folder_comes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_path("everyday-de-en") == FOLDER
    Path("everyday-de-en").mkdir()
    assert model_path("everyday-de-en") == Path("everyday-de-en")
    assert model_path("runs/x") == Path("runs/x")
    assert (model_name(FOLDER), model_name(Path("runs/x"))) == ("everyday-de-en", str(Path("runs/x")))


@each_model
def test_the_weights_are_small_and_of_8_bits(name: str) -> None:
    path = MODELS[name] / "model.safetensors"
    assert path.stat().st_size <= 9_600_000
    with safe_open(path, "numpy") as file:
        tensors = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118 - not a dict
    assert {tensor.dtype.name for tensor in tensors if tensor.ndim == 2} == {"int8"}
    assert {tensor.dtype for tensor in load_checkpoint(path).tensors.values()} == {np.dtype(np.float32)}


@each_model
def test_the_card_quotes_the_figures_and_the_attribution(name: str) -> None:
    card = " ".join((MODELS[name] / "README.md").read_text(encoding="utf-8").split())  # ignores line breaks
    for figure, score in FIGURES[name].items():
        if isinstance(score, float):
            assert f"{score:.2f}" in card, figure
    options, notes = CONFIGS[name]["options"], str(CONFIGS[name]["notes"])
    for setting in options["set"]:
        assert f"--set {setting}" in card
    assert f"--data {options['data']}" in card
    of_sentences = ["33ea84699477be85", "tatoeba.org", "www.manythings.org/anki", "CC BY 2.0"]
    of_others = {"news42": ["arXiv 2209.11429", "HuffPost"], "gutenberg": ["Project Gutenberg", "38bf052d002003d4"]}
    needed = of_others.get(options["data"], of_sentences)
    assert [word for word in needed if word not in card] == []
    assert "33ea84699477be85" in notes or "33ea84699477be85" not in needed


@needs_data
def test_a_translator_s_score_on_200_sentences() -> None:
    data = load_translation_data("tatoeba", source="de", target="en")
    for name, test in (("everyday-de-en", data.test), ("everyday-en-de", data.reversed().test)):
        test = test[:: len(test) // 200]
        sources = [source for source, _ in test]
        found = Translator.load(MODELS[name]).translate(sources, too_long="truncate", split=False)
        score = bleu(found, [target for _, target in test]).value
        assert score == pytest.approx(FIGURES[name]["tatoeba, beam 5, 200 sentences"], abs=0.1), name


@needs_data
@pytest.mark.parametrize("compiled", [True, False])
def test_the_first_updates_of_a_training_can_be_repeated(compiled: bool, tmp_path: Path) -> None:
    """Logs are equal bit for bit with the original libraries and kind of processor; with others, up to rounding.

    One process repeats the training runs with compiled loops, and another process repeats the runs without.
    """
    names = [name for name in MODELS if bool(CONFIGS[name].get("compiled_loops")) == compiled]
    avx512 = all("AVX512_SKX" in FIGURES[name]["simd"] for name in names) and _has_avx512()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment |= {"HANDLOOM_MKL": "0", "HANDLOOM_COMPILED": str(int(compiled))}
    environment["HANDLOOM_DATA"] = str(Path(environment["HANDLOOM_DATA"]).resolve())
    environment.pop("OPENBLAS_CORETYPE", None)
    if avx512:
        (environment["OPENBLAS_CORETYPE"],) = {FIGURES[name]["OPENBLAS_CORETYPE"] for name in names}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ONE_AFTER_THE_OTHER], input=json.dumps(list(map(_command, names))),
        env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=900,
    )  # fmt: skip
    assert (done.stdout + done.stderr).count("stopped after step") == len(names), done.stderr
    for name in names:
        expected = [json.loads(line) for line in (MODELS[name] / "first_updates.jsonl").read_text().splitlines()]
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        losses, recorded = ([row["loss"] for row in them] for them in (rows, expected[:UPDATES]))
        loops = json.loads((tmp_path / name / "config.json").read_text())["compiled_loops"]
        if avx512 and np.__version__ == FIGURES[name]["numpy"] and loops == CONFIGS[name].get("compiled_loops"):
            assert rows == expected[:UPDATES]
        np.testing.assert_allclose(losses, recorded, rtol=1e-3)


def _command(name: str) -> list[str]:
    """Return the command line that trained a model, changed to stop after `UPDATES` updates."""
    options = CONFIGS[name]["options"]
    wanted = ("data", "tokenizer", "table", "steps", "schedule", "lr", "init")
    given = {option: options[option] for option in wanted if options.get(option)}
    flags = [f"--{option}" for option in ("descriptions", "reverse") if options.get(option)]
    return [
        str(EXAMPLES / CONFIGS[name]["program"]), *flags,
        *(f"--{option}={value}" for option, value in given.items()), *(f"--set={one}" for one in options["set"]),
        "--log-every", "1", "--stop-at", str(UPDATES), "--out", name,
    ]  # fmt: skip


def _has_avx512() -> bool:
    from numpy._core._multiarray_umath import __cpu_features__

    return bool(__cpu_features__.get("AVX512_SKX"))


def test_the_numbers_of_sentences_and_the_spellings_of_texts_that_have_been_measured() -> None:
    """The results of `benchmarks.letters`: of 100 sentences at most 10 differ, and spellings make no difference."""
    result = json.loads(letters.RESULTS.read_text(encoding="utf-8"))
    rows = [result[name] for name in TRANSLATORS.values()]
    assert [row["sentences"] for row in rows] == [len(letters.sentences()[code]) for code in ("de", "en")] == [50, 50]
    assert sum(row["numbers differ"] for row in rows) <= 10
    for row in rows:
        assert len({row[f"BLEU, {spelling}"] for spelling in letters.SPELLINGS}) == 1
        assert row["BLEU, lines"] >= row["BLEU, lines of sentences translated alone"] - 1
