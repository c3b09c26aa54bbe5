"""Comparing a learner's attention and beam search with handloom's: equal results, and the first difference."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.course.chapter import chapters
from handloom.errors import InputError
from handloom.explorer import check, yours
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
        ("head", "return 1 / 0  #", "raises ZeroDivisionError: division by zero"),
        ("head", "return e  #", None),
        ("head", "return e[:, :2]  #", "returns an array of shape"),
        ("head", "raise NotImplementedError('Which score?')  #", "of c06_head.py is not written yet. Which score?"),
        ("head", "while True: pass  #", "`masked_attend` of c06_head.py: after 1 s of computing line 40 is still run"),
        ("head", "import os; os._exit(3)  #", "or ended its process"),
        ("beam", "raise SystemExit  #", "`beam_search` of c11_beam.py: The file ends the program"),
        ("beam", "return [], 0.0  #", "`beam_search` returns a result, but it never calls `next_log_p`."),
        ("beam", "next_log_p([])  #", "needs the words so far, beginning with bos"),
        ("beam", "return next_log_p([bos])  #", "returns ndarray instead of the pair (ids, score)."),
    ],
)
def test_what_a_file_raises_is_said(
    run_folder: Path, tmp_path: Path, view: str, new: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yours, "SECONDS", 1)
    old = {"head": "return e / np.where", "beam": "sentences, finished ="}[view]
    problem = answer(run_folder, tmp_path, view, old, new)["yours"].get("problem")
    assert problem is None if said is None else said in problem


def test_a_waiting_function_blocks_no_other_view(run_folder: Path, tmp_path: Path) -> None:
    """The learner's function waits until another view has been computed."""
    source = SOLUTIONS["c06_head.py"].replace(
        "import numpy as np", "import time\nfrom pathlib import Path\n\nimport numpy as np"
    )
    wait = f"while not Path({str(tmp_path / 'go')!r}).exists():\n        time.sleep(0.01)\n    return e / np.where"
    (tmp_path / "c06_head.py").write_text(source.replace("return e / np.where", wait), encoding="utf-8")
    session = Session(run_folder, tmp_path)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(session.answer, "head", {"text": SENTENCE, "head": 0, "query": 0})
        session.answer("translate", {"text": SENTENCE})
        assert not waiting.done()
        (tmp_path / "go").touch()
        assert "weights" in waiting.result()["yours"]


def test_a_measurement_of_gradients_blocks_no_other_view(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, checked, go = Session(run_folder), check.checked, threading.Event()

    def slow(call: Any, seed: int, choose: Any) -> Any:
        if choose.__name__ != "none":  # the measurement, not the rule's gradients
            assert go.wait(60)
        return checked(call, seed, choose)

    monkeypatch.setattr(check, "checked", slow)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(session.answer, "check", {"text": SENTENCE, "call": 0})
        session.answer("translate", {"text": SENTENCE})
        assert not waiting.done()
        go.set()
        assert waiting.result()["ok"]


def test_a_folder_without_the_course_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no course in"):
        Yours(tmp_path)
