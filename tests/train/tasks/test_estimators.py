"""The estimators: fit, the verb of the task, score, save and load, as a person calls them in a notebook."""

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import handloom
from handloom.autograd import default_generator

WORDS = ["red", "green", "dog", "cat", "sleeps", "runs"]
TEXTS = [" ".join(WORDS[(i * k) % 6] for i in range(k, 2 * k)) + f" {k}" for k in range(2, 12)] * 4
PAIRS = [(text, text[::-1]) for text in TEXTS]
LABELLED = [(text, "short" if len(text) < 40 else "long") for text in TEXTS]
SMALL: dict[str, Any] = {"preset": "smoke", "d_model": 16, "dim_feedforward": 16}
#: For each class of estimators: further settings, training data, and a call of its verb.
ESTIMATORS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "Translator": ({"vocab_size": 290}, PAIRS, lambda made: made.translate(["red dog"], beam=1)),
    "Summarizer": ({"vocab_size": 290}, PAIRS, lambda made: made.summarize(["red dog"], beam=1)),
    "Paraphraser": ({"vocab_size": 290}, PAIRS, lambda made: made.paraphrase(["red dog"], beam=1)),
    "Classifier": ({}, LABELLED, lambda made: made.classify(["red dog"])),
    "Writer": ({"length": 12, "batch_size": 4}, "\n".join(TEXTS), lambda made: made.generate(["red"], 5)),
}
EVERY = pytest.mark.parametrize("kind", ESTIMATORS)


def estimator(kind: str, **settings: Any) -> Any:
    return getattr(handloom, kind)(**SMALL, **ESTIMATORS[kind][0], **settings)


def quiet(line: str) -> None:
    """Say nothing."""


@EVERY
def test_fit_without_a_folder_writes_nothing_and_changes_no_generator(kind, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, data, verb = ESTIMATORS[kind]
    made, before = estimator(kind), default_generator.get_state()
    assert "preset='smoke'" in repr(made)
    assert made.fit(data, steps=3, say=quiet) is made
    assert os.listdir(tmp_path) == []
    assert str(default_generator.get_state()) == str(before)
    assert verb(made)
    assert f"{made.model.parameter_count():,} parameters" in repr(made)
    assert [row["step"] for row in made.history.rows if "valid_loss" in row][-1] == 3


@EVERY
def test_a_saved_model_is_loaded_as_it_was(kind, tmp_path) -> None:
    _, data, verb = ESTIMATORS[kind]
    made = estimator(kind).fit(data, steps=3, say=quiet)
    made.save(tmp_path / "mine")
    found = handloom.load(tmp_path / "mine")
    assert type(found) is type(made)
    assert verb(found) == verb(made)
    assert found.score(data) == made.score(data)
    with pytest.raises(handloom.InputError, match="exists already"):
        made.save(tmp_path / "mine")


@EVERY
def test_fine_tuning_leaves_the_model_as_it_was(kind) -> None:
    _, data, _ = ESTIMATORS[kind]
    first = estimator(kind).fit(data, steps=3, say=quiet)
    weights = copy.deepcopy(first.model.state_dict())
    second = first.fit(data, steps=2, lr=1e-2, say=quiet)
    assert second is not first
    assert second.tokenizer.vocab_size == first.tokenizer.vocab_size
    assert all(np.array_equal(weights[name], array) for name, array in first.model.state_dict().items())
    assert not all(np.array_equal(weights[name], array) for name, array in second.model.state_dict().items())


@EVERY
def test_settings_of_fine_tuning_have_an_effect_or_are_refused(kind) -> None:
    _, data, _ = ESTIMATORS[kind]
    first = estimator(kind).fit(data, steps=1, say=quiet)
    for name, value in {"d_model": 32, "layers": 3, "positions": "none", "norm_first": True}.items():
        with pytest.raises(handloom.InputError, match=f"The setting {name} has no effect: the trained model"):
            first.fit(data, steps=1, say=quiet, **{name: value})
    second = first.fit(data, steps=1, dropout=0.75, say=quiet)
    assert (first.model.config.dropout == 0.75, second.model.config.dropout) == (False, 0.75)


@EVERY
def test_the_seed_determines_the_model_and_a_stopped_run_is_resumed_exactly(kind, tmp_path) -> None:
    _, data, _ = ESTIMATORS[kind]
    whole = estimator(kind).fit(data, steps=4, say=quiet)
    with pytest.raises(handloom.train.TrainingStopped):
        estimator(kind).fit(data, steps=4, out=tmp_path / "run", stop_at=2, say=quiet)
    resumed = estimator(kind).fit(data, steps=4, out=tmp_path / "run", resume=True, say=quiet)
    again = handloom.load(tmp_path / "run", {"Writer": "generate", "Translator": "translate"}.get(kind))
    for name, array in whole.model.state_dict().items():
        assert np.array_equal(array, resumed.model.state_dict()[name]), name
        assert np.array_equal(array, again.model.state_dict()[name]), name
    other = estimator(kind).fit(data, steps=4, seed=1, say=quiet)
    assert any(not np.array_equal(a, other.model.state_dict()[name]) for name, a in whole.model.state_dict().items())


@EVERY
def test_the_file_of_the_data_gives_the_same_model(kind, tmp_path) -> None:
    _, data, _ = ESTIMATORS[kind]
    path = tmp_path / ("data.txt" if kind == "Writer" else "data.tsv")
    rows = data if kind == "Writer" else "\n".join("\t".join(reversed(r) if kind == "Classifier" else r) for r in data)
    path.write_text(f"{rows}\n", encoding="utf-8")
    made, found = (estimator(kind).fit(each, data, steps=2, say=quiet) for each in (data, path))
    if kind == "Writer":  # a file ends with a line feed, which is a token too
        assert len(made.tokenizer.encode(data)) > 0
        return
    assert {name: array.shape for name, array in made.model.state_dict().items()} == {
        name: array.shape for name, array in found.model.state_dict().items()
    }


def rows_of(pairs: Any) -> str:
    return "".join("\t".join(pair) + "\n" for pair in pairs)


@pytest.mark.parametrize("kind", ["Translator", "Classifier"])
def test_the_test_file_of_a_file_is_scored_and_not_trained_on(kind, tmp_path) -> None:
    """Training, validation and test of a file or of a named data set were joined: the test set was trained on."""
    made, order = estimator(kind), -1 if kind == "Classifier" else 1
    data = [pair[::order] for pair in (LABELLED if kind == "Classifier" else PAIRS)]
    parts = {"": data, ".valid": data[2:5], ".test": [("short", "red sun")[::-order]]}
    for part, pairs in parts.items():
        (tmp_path / f"c{part}.tsv").write_text(rows_of(pairs), encoding="utf-8")
    task = made.task.of(made, tmp_path / "c.tsv", None, None)
    assert {pair[::order] for pair in task.valid} == set(data[2:5])
    assert not {pair[::order] for pair in task.train} & {*parts[".test"], *data[2:5]}
    assert "are left out" in "".join(task.notes)
    assert [pair[::order] for pair in made.task.items(made, tmp_path / "c.tsv").scored] == parts[".test"]
    alone = tmp_path / "alone.tsv"
    alone.write_text(rows_of(data), encoding="utf-8")
    assert sorted(pair[::order] for pair in made.task.items(made, alone).scored) == sorted(data)
    made = handloom.Translator(source="de", target="en", preset="smoke") if kind == "Translator" else made
    named = made.task.of(made, "embedded", None, None)
    assert not set(named.train) & set(made.task.items(made, "embedded").scored)


def test_validation_items_that_are_trained_on_and_unknown_classes_have_a_note() -> None:
    said: list[str] = []
    estimator("Translator").fit(PAIRS, PAIRS[:5], steps=1, say=said.append)
    assert "note: 5 of the 5 validation pairs have a text that is in training, too" in said
    estimator("Classifier").fit(LABELLED, [*LABELLED[:3], ("sun", "new")], steps=1, say=said.append)
    assert "note: validation leaves out the class 'new', which no training text has" in said


def test_blanks_and_the_composition_of_letters_make_no_classes() -> None:
    labels = ("ja", "ja ", "ne\u0301", "n\u00e9")
    made = estimator("Classifier").fit(
        [(f"{w} {i}", labels[i % 4]) for i in range(40) for w in WORDS], steps=1, say=quiet
    )
    assert made.labels == ["ja", "n\u00e9"]


WRONG = [
    (lambda: handloom.Translator("laptop"), "a preset is given as preset=NAME"),
    (lambda: handloom.Translator(preset="huge"), "There is no preset 'huge'"),
    (lambda: handloom.Translator(d_modell=16), "has no setting 'd_modell'. Did you mean d_model?"),
    (lambda: handloom.Translator(d_model=-1), "d_model"),
    (lambda: handloom.Writer(tokens="words"), "There are no tokens of the kind 'words'"),
    (lambda: estimator("Translator").fit(["a", "b"]), "Item 1 is 'a'. Give a list of pairs"),
    (lambda: estimator("Translator").fit([("a", 1)]), "Item 1 is"),
    (lambda: estimator("Translator").fit(7), "Give a list of pairs"),
    (lambda: estimator("Translator").fit([]), "0 different sentences"),
    (lambda: estimator("Translator").fit(PAIRS, []), "The validation data are empty"),
    (
        lambda: estimator("Classifier").fit([(f"a {i}", "xy"[i % 2]) for i in range(40)], []),
        "validation data are empty",
    ),
    (lambda: estimator("Translator").fit("nowhere.tsv"), "nowhere.tsv"),
    (lambda: estimator("Classifier").fit({"a": "b"}), "Give a list of pairs"),
    (lambda: estimator("Classifier").fit([(f"a {i}", "x") for i in range(40)]), "All texts have the class 'x'"),
    (lambda: estimator("Writer").fit("my/corpus.txt"), "There is no file my/corpus.txt"),
    (lambda: estimator("Writer").fit("\n".join(TEXTS), steps=1, say=quiet).score(""), "The text is empty"),
    (
        lambda: estimator("Writer").fit("see the sea " * 50, steps=1, say=quiet).fit("Zebra " * 50),
        "lacks more than 1 %",
    ),
    (lambda: estimator("Writer").fit(7), "Give a text"),
    (lambda: estimator("Writer").fit("short"), "tokens"),
    (lambda: estimator("Translator").fit(PAIRS, steps=0), "steps"),
    (lambda: estimator("Translator").fit(PAIRS, resume=True), "give out=FOLDER"),
    (lambda: estimator("Translator").translate(["a"]), "has no model yet: call fit"),
    (lambda: estimator("Writer").save("x"), "has no model yet: call fit"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words[:30] for _, words in WRONG])
def test_a_wrong_use_has_one_clear_error(call, words, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((handloom.InputError, AttributeError, TypeError)) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_teacher_is_learned_from(tmp_path) -> None:
    teacher = estimator("Translator").fit(PAIRS, steps=3, say=quiet)
    student, alone = (
        estimator("Translator", layers=1).fit(PAIRS, steps=3, teacher=other, say=quiet) for other in (teacher, None)
    )
    assert student.tokenizer is teacher.tokenizer
    names = [name for name in student.model.state_dict() if name in alone.model.state_dict()]
    assert any(not np.array_equal(student.model.state_dict()[name], alone.model.state_dict()[name]) for name in names)


def test_a_path_may_be_a_text_or_a_path_object(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    made = estimator("Translator", source="de", target="en").fit(str(tmp_path / "pairs.tsv"), steps=2, say=quiet)
    assert made.name == "translation from de to en"
    assert made.score(tmp_path / "pairs.tsv").keys() == {"BLEU", "chrF2"}
