"""Comparing a learner's attention and beam search with handloom's: equal results, and the first difference."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.course.chapter import chapters
from handloom.errors import InputError
from handloom.explorer.session import Session
from handloom.explorer.yours import BUILT, Yours
from tests.explorer.test_views import unpacked
from tests.support.explorer_run import SENTENCE

SOLUTIONS = {f"{chapter.stem}.py": chapter.solution_source for chapter in chapters()}


def answer(run: Path, folder: Path, view: str, old: str = "", new: str = "") -> Any:
    """Return the data for the page after replacing `old` by `new` in the learner's file."""
    file, _ = BUILT[view]
    assert old in SOLUTIONS[file]
    (folder / file).write_text(SOLUTIONS[file].replace(old, new), encoding="utf-8")
    asked = {"text": SENTENCE, "layer": "decoder.layers.1.self_attn", "head": 1, "query": 2, "width": 3, "alpha": 0.6}
    return Session(run, folder).answer(view, asked)


def test_right_functions_give_what_handlooms_give(run_folder: Path, tmp_path: Path) -> None:
    head = answer(run_folder, tmp_path, "head")
    np.testing.assert_allclose(unpacked(head["yours"]["weights"])[0, 2], unpacked(head["weights"]), atol=1e-5)
    beam = answer(run_folder, tmp_path, "beam")
    best = beam["yours"]
    assert best["differs"] is None
    assert best["text"] == beam["found"][0]["text"]
    assert best["score"] == pytest.approx(beam["found"][0]["score"], abs=1e-4)


def test_wrong_functions_are_shown_where_they_differ(run_folder: Path, tmp_path: Path) -> None:
    head = answer(run_folder, tmp_path, "head", "np.where(mask, q @ k.T", "np.where(True, q @ k.T")
    assert np.abs(unpacked(head["yours"]["weights"])[0, 2] - unpacked(head["weights"])).max() > 0.01
    beam = answer(run_folder, tmp_path, "beam", "going_on[:width]", "going_on[1 : width + 1]")
    differs = beam["yours"]["differs"]
    assert differs["step"] == 1
    assert len(differs["yours"]) == len(differs["handlooms"]) == 1


@pytest.mark.parametrize(
    ("view", "new", "said"),
    [
        ("head", "return 1 / 0  #", "`masked_attend` of c06_head.py raises ZeroDivisionError"),
        ("head", "return e  #", None),
        ("head", "return e[:, :2]  #", "returns an array of shape"),
        ("beam", "raise SystemExit  #", "`beam_search` of c11_beam.py raises SystemExit"),
    ],
)
def test_what_a_file_raises_is_said(run_folder: Path, tmp_path: Path, view: str, new: str, said: str | None) -> None:
    old = {"head": "return e / np.where", "beam": "sentences, finished ="}[view]
    problem = answer(run_folder, tmp_path, view, old, new)["yours"].get("problem")
    assert problem is None if said is None else said in problem


def test_a_folder_without_the_course_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no course in"):
        Yours(tmp_path)
