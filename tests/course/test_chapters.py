"""Checks of each chapter: its text, its pictures, and each of its exercises."""

import re
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from handloom.autograd import manual_seed
from handloom.course.chapter import FOLDER, IMAGES, LIVE, ROOT, VIEWS, Chapter, chapters, definition, with_links
from handloom.course.drawing import DPI, WIDTH, save
from handloom.course.exercise import Exercise, judged, known, same
from handloom.course.trial import load, run
from handloom.explorer.exporting import VIEWS as EXPORTED

CHAPTERS = chapters()
EXERCISES = [(chapter, exercise) for chapter in CHAPTERS for exercise in chapter.exercises]
of_each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
of_each_exercise = pytest.mark.parametrize(
    ("chapter", "exercise"), EXERCISES, ids=[f"{chapter.stem}-{exercise.name}" for chapter, exercise in EXERCISES]
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outcome(chapter: Chapter, exercise: Exercise, answer) -> tuple[str, str]:
    verdict = judged(exercise, answer)
    return verdict.state, verdict.text


# -- the text ------------------------------------------------------------------------------------------------------


@of_each_chapter
def test_the_text_has_its_parts(chapter) -> None:
    headings = re.findall(r"^## (.*)$", chapter.text, re.MULTILINE)
    assert chapter.text.startswith(f"# {chapter.number}. ")
    assert chapter.title.endswith("?")
    assert headings[0] == "The question"
    assert headings[-3:] == ["Build it", "Compare", "Exercises"]
    questions, answers = chapter.text.partition("## Exercises")[2].split("<details><summary>Answers</summary>\n")
    assert len(re.findall("^- ", questions, re.MULTILINE)) == len(re.findall("^- ", answers, re.MULTILINE)) >= 3
    assert len(headings) > 4, "the text lacks a derivation"
    assert "$" not in chapter.text, "formulas are plain text"
    for exercise in chapter.exercises:
        assert f"`{exercise.name}" in chapter.text, f"the text does not name {exercise.name}"
    assert f"course check {chapter.number}`" in chapter.text
    assert all(len(line) <= 120 for line in chapter.text.split("\n") if not line.startswith("!["))


@of_each_chapter
def test_links_lead_somewhere(chapter) -> None:
    sources = re.findall(r"\{source\}`([^`]+)`", chapter.text)
    assert sources
    for name in [*sources, *(exercise.source for exercise in chapter.exercises)]:
        definition(name)
    assert set(chapter.views) <= set(VIEWS)
    assert "{source}" not in with_links(chapter.text)
    assert set(re.findall(r"!\[[^\]]{20,}\]\(images/(\S+)\)", chapter.text)) == set(chapter.drawings)


@of_each_chapter
def test_the_code_of_the_text_runs(chapter, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, chapter.stem, chapter.solution)
    blocks = BLOCK.findall(chapter.text)
    assert blocks
    assert len(blocks) == chapter.text.count("```") // 2
    manual_seed(0)
    names = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, f"{chapter.stem}.md", "exec"), names)


@of_each_chapter
def test_pictures_are_as_they_are_drawn(chapter, tmp_path) -> None:
    """The sizes are equal, and the pixels differ at most by the shapes of letters."""
    if not matplotlib.__version__.startswith("3.11."):
        pytest.skip(f"drawn with matplotlib 3.11; {matplotlib.__version__} draws letters of other sizes")
    assert chapter.drawings
    for name, draw in chapter.drawings.items():
        figure = draw()
        save(figure, tmp_path / name)
        assert (IMAGES / name).stat().st_size < 60_000
        assert figure.get_size_inches()[0] == WIDTH
        drawn, kept = (imread(folder / name)[..., :3] for folder in (tmp_path, IMAGES))
        assert drawn.shape == kept.shape
        assert drawn.shape[1] == round(WIDTH * DPI)
        assert np.abs(drawn - kept).mean() < 0.02, f"draw it again: python -m handloom.course.draw {chapter.number}"


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in IMAGES.iterdir()} == {name for chapter in CHAPTERS for name in chapter.drawings}


def test_the_explorer_has_these_views() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "explorer" / "static").glob("*.js")]
    found = re.findall(r'export const id = "(\w+)";\nexport const name = "([^"]+)";', "\n".join(sources))
    assert dict(found) == VIEWS


def test_each_file_belongs_to_a_chapter() -> None:
    kinds = (".md", ".py", "_exercises.txt", "_solution.py", "_pictures.py")
    assert {path.name for path in FOLDER.glob("c*.*")} == {c.stem + kind for c in CHAPTERS for kind in kinds}
    assert [chapter.number for chapter in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))


@of_each_chapter
def test_each_part_of_the_file_of_mistakes_belongs_to_an_exercise(chapter) -> None:
    text = (FOLDER / f"{chapter.stem}_exercises.txt").read_text(encoding="utf-8")
    parts = re.findall(r"^# (?:planted in )?(\w+):", text, re.MULTILINE)
    assert set(parts) == {exercise.name for exercise in chapter.exercises}


#: The words of papers, and the chapter that derives what they mean.
WORDS = {
    "c01_gradient": ["backpropagation"],
    "c02_shapes": ["Jacobian"],
    "c06_head": ["scaled dot-product attention", "self-attention"],
    "c07_heads": ["positional encoding"],
    "c08_depth": ["residual connection", "vanishing gradients", "pre-norm"],
    "c09_translate": ["teacher forcing", "exposure bias", "cross-attention", "autoregressive"],
    "c10_learn": ["bias correction"],
    "c12_cache": ["KV cache"],
}


def test_the_words_of_papers_are_in_the_chapter_that_derives_them() -> None:
    questions = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    for stem, words in WORDS.items():
        text = next(chapter.text for chapter in CHAPTERS if chapter.stem == stem)
        assert [word for word in words if f"*{word}*" not in " ".join(text.split())] == []
        assert [word for word in words if word not in questions] == []
    assert "(docs/questions.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\*\*[^*]+\?\*\*", questions, re.MULTILINE)) >= 17


def test_the_pages_of_chapters_link_to_the_exported_explorer() -> None:
    assert LIVE == EXPORTED
    page = with_links("{explorer}`head` and {explorer}`graph`", "../..")
    assert '<a href="../explorer_live/index.html#head">One head</a>' in page
    assert page.count("<a") == 1


# -- the exercises -------------------------------------------------------------------------------------------------


@of_each_chapter
def test_the_solution_passes_and_the_stub_teaches(chapter, tmp_path) -> None:
    """Both are run as a learner's files; the exercises of the stub are judged one by one."""
    path = tmp_path / f"{chapter.stem}.py"
    path.write_text(chapter.solution_source.replace("from ...", "from handloom."), encoding="utf-8")
    names = [exercise.name for exercise in chapter.exercises]
    states = [(name, verdict.state) for name, verdict in run(chapter, path) if verdict is not None]
    assert states == [(name, "passed") for name in names]

    path.write_text(chapter.stub.text, encoding="utf-8")
    given = load(path)
    messages = []
    for exercise in chapter.exercises:
        state, text = outcome(chapter, exercise, getattr(given, exercise.name))
        assert state == "unwritten", f"{exercise.name}: {text}"
        messages.append(text)
    assert len(set(messages)) == len(names)
    assert set(messages) <= set(chapter.stub.messages)
    assert all(len(message) > 60 for message in chapter.stub.messages), "each message of the stub explains the exercise"
    assert 0 < chapter.stub.lines <= 80
    assert "your turn" not in chapter.stub.text + "".join(chapter.solution_of(name) for name in names)
    compile(chapter.stub.text, path, "exec")


@of_each_exercise
def test_a_right_answer_passes(chapter, exercise) -> None:
    for answer in (exercise.real, exercise.solution):
        assert outcome(chapter, exercise, answer) == ("passed", "")


@of_each_exercise
def test_a_mistake_is_answered_by_its_own_hint_and_no_other(chapter, exercise) -> None:
    assert len(exercise.mistakes) >= 3
    found = [known(exercise.probe, mistake.answer) for mistake in exercise.mistakes]
    for mistake, outcome_of_it in zip(exercise.mistakes, found, strict=True):
        assert outcome(chapter, exercise, mistake.answer) == ("mistake", mistake.message), mistake.answer.__name__
        assert sum(same(outcome_of_it, other, exercise.rtol) for other in found) == 1, mistake.answer.__name__
    assert len({mistake.message for mistake in exercise.mistakes}) == len(exercise.mistakes)


@of_each_exercise
def test_probes_are_the_same_each_time(chapter, exercise) -> None:
    first, second = (known.__wrapped__(exercise.probe, exercise.real) for _ in range(2))
    assert same(first, second, 0.0)
    assert Path(definition(exercise.source)[0]).is_file()


@of_each_exercise
def test_hints_ask_then_show_a_number_then_give_code(chapter, exercise) -> None:
    question, number, code = exercise.hints
    assert "?" in question
    assert not re.search(r"np\.|\w\(|\w\[|@|\*\*", question)
    assert re.search(r"\d|picture", number)
    assert "np." not in number
    assert re.search(r"\w\(|\w\[|\*\*| = |@", code)
