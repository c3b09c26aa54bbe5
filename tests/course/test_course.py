"""The commands of the course: the learner's folder, errors in the learner's file, hints, progress, watching."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handloom.autograd import no_grad
from handloom.course import __main__ as command
from handloom.course import checking
from handloom.course.chapter import BUILT, ROOT, chapters, definition
from handloom.course.checking import check
from handloom.course.comparing import difference
from handloom.course.exercise import Verdict, differing
from handloom.course.folder import Folder, digest, start
from handloom.course.translator import as_translator, save_translator
from handloom.course.trial import run
from handloom.errors import InputError
from handloom.explorer.yours import BUILT as SHOWN
from handloom.files import atomic_file, temporary_name, write_json
from handloom.train.data.grammar import build_corpus
from handloom.train.tasks.translation import Translator

FIRST = chapters()[0]


@pytest.fixture
def folder(tmp_path) -> Folder:
    start(tmp_path / "course")
    return Folder(tmp_path / "course")


def solution() -> str:
    return FIRST.solution_source.replace("from ...", "from handloom.")


def write(folder: Folder, body: str) -> None:
    """Write the learner's file with this body of `multiply`; the rest stays as in the stub."""
    text = FIRST.stub.text
    begin, end = text.index("    raise NotImplementedError"), text.index("def tanh")
    folder.file(FIRST).write_text(f"{text[:begin]}    {body}\n\n\n{text[end:]}", encoding="utf-8")


def call(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["course", *arguments])
    code = 0
    try:
        command.main()
    except SystemExit as done:
        code = done.code
    return code, capsys.readouterr().out


# -- the folder ----------------------------------------------------------------------------------------------------


def test_start_adds_what_is_missing_and_overwrites_nothing(folder) -> None:
    names = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}
    assert {"README.md", "progress.json", "c01_gradient.md", "c01_gradient.py", "images/c01_tanh.png"} <= names
    folder.file(FIRST).write_text("mine", encoding="utf-8")
    (folder.path / "README.md").unlink()
    written, kept = start(folder.path)
    assert written == ["README.md"]
    assert set(kept) == names - {"README.md", "progress.json"}
    assert folder.file(FIRST).read_text(encoding="utf-8") == "mine"


def test_start_refuses_what_is_no_course(tmp_path) -> None:
    (tmp_path / "diary.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="already holds other files"):
        start(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        start(tmp_path / "diary.txt")
    with pytest.raises(InputError, match="no course in"):
        Folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]
    (tmp_path / "progress.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"progress\.json is damaged"):
        Folder(tmp_path)


# -- errors in a file ----------------------------------------------------------------------------------------------

FILES = {
    "return None": "multiply(x, y) returned None instead of a Scalar: is a `return` missing?",
    "return 7": "multiply(x, y) returned 7, of the type int, instead of a Scalar",
    "return x.value": "raises AttributeError: 'Scalar' object has no attribute 'value'",
    "return multiply(x, y)": "It calls itself without an end",
    "raise SystemExit(3)": "The file ends the program (exit code 3)",
    "return input()": "do without input()",
    "return 3 +* 4": "Python can't read line 32, `return 3 +* 4`: invalid syntax",
    "pass\nmultiply = 3": "`multiply` should be a function",
    "pass\ndef multiply(x): pass": "`multiply` takes (x); it is called with (x, y)",
    "pass\ndel multiply": "There is no `multiply` in the file",
    "pass\n1 / 0": "`1 / 0`, raises ZeroDivisionError",
    "return Scalar(x.data * y.data, (x, y), lambda g: (9.0, g))": "of x in five products: got 9 at [0], expected 0.9",
    "return Scalar(x.data * y.data, (x, y), lambda g: (g, g * x.data))": "This is the rule of the sum.",
    "return Scalar(x.data * y.data, (y, x), lambda g: (g, g))": "its `inputs` should be the 2 Scalars",
}


@pytest.mark.parametrize("body", FILES)
def test_what_goes_wrong_is_told_in_one_message(folder, body, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    write(folder, body)
    *_, (_, verdict) = run(FIRST, folder.file(FIRST))
    assert FILES[body] in verdict.text
    assert not verdict.passed
    assert len(verdict.text) < 300


def test_prints_are_shown_apart_and_what_ends_the_process_is_told(folder, capsys) -> None:
    write(folder, "import os\n    print('hello')\n    os._exit(4 + getattr(os, 'getpgrp', os.getpid)() - os.getpid())")
    report = check(FIRST, folder.file(FIRST))
    assert "ended itself (exit code 4" in report.verdicts["multiply"].text
    write(folder, "print('hello' * 10_000)")
    report = check(FIRST, folder.file(FIRST))
    assert report.output.startswith("hello")
    assert len(report.output) <= 2000
    checking.show(report, folder)
    assert "your file prints:\n  | hello" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize(
    "body", ["os.mkfifo(file)", "os.symlink('/dev/zero', file)", "os.mkdir(file)", "open(file, 'w').write('x\\n' * 9)"]
)
def test_results_that_the_file_replaced_are_not_read(folder, body: str) -> None:
    write(folder, f"import os, sys; file = sys.argv[3]; os.unlink(file); {body}; os._exit(0)")
    report = check(FIRST, folder.file(FIRST))
    assert report.verdicts == {"": Verdict("stopped", "The file changed the results of its check.")}


def test_a_long_error_is_cut(folder) -> None:
    write(folder, "raise ValueError('x' * 10_000_000)")
    (verdict,) = check(FIRST, folder.file(FIRST)).verdicts.values()
    assert len(verdict.text) <= 2000


def gone(folder: Folder, helper: Path) -> None:
    helper.unlink()


def changed(folder: Folder, helper: Path) -> None:
    helper.write_text(helper.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def file_gone(folder: Folder, helper: Path) -> None:
    folder.file(FIRST).unlink()


def other_version(folder: Folder, helper: Path) -> None:
    folder.progress["chapters"][FIRST.stem]["version"] = "0"


@pytest.mark.parametrize("change", [gone, changed, file_gone, other_version])
def test_a_chapter_is_done_only_as_long_as_everything_it_used_is_unchanged(folder, change, monkeypatch, capsys) -> None:
    helper = folder.path / "helper.py"
    helper.write_text(solution(), encoding="utf-8")
    folder.file(FIRST).write_text("from helper import *\n", encoding="utf-8")
    assert call(monkeypatch, capsys, "check", "1", "--dir", str(folder.path))[0] == 0
    folder = Folder(folder.path)
    assert folder.is_done(FIRST)
    change(folder, helper)
    assert not folder.is_done(FIRST)
    assert change is not file_gone or folder.passed(FIRST) == []


def test_files_named_as_modules_do_not_replace_them(folder) -> None:
    """`python -m` puts the learner's folder first in the path."""
    for name in ("random", "numpy", "json", "typing", "re", "argparse", "tokenize", "tqdm", "tempfile", "select"):
        (folder.path / f"{name}.py").write_text("raise SystemExit('a file of the learner')\n", encoding="utf-8")
    command = [sys.executable, "-m", "handloom.course", "check", "1"]
    done = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Not written yet" in done.stdout


@pytest.mark.parametrize("done", range(4))
def test_start_that_was_killed_goes_on(tmp_path, monkeypatch, done: int) -> None:
    left = [None] * done

    def write_file(path, *value):
        if not left:
            (path.parent / temporary_name(path.name)).touch()
            raise KeyboardInterrupt
        left.pop()
        return write_json(path, *value) if value else atomic_file(path)

    monkeypatch.setattr("handloom.course.folder.atomic_file", write_file)
    monkeypatch.setattr("handloom.course.folder.write_json", write_file)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path)
    monkeypatch.undo()
    start(tmp_path)
    assert Folder(tmp_path).file(FIRST).exists()


def test_what_waits_is_stopped(folder) -> None:
    write(folder, "import time; time.sleep(1000)")
    report = check(FIRST, folder.file(FIRST), wait=3)
    assert "There was no result for 3 s" in next(iter(report.verdicts.values())).text


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="without setitimer the waiting process stops it")
def test_an_endless_loop_is_stopped_and_its_line_told(folder, monkeypatch) -> None:
    """Even a loop that catches every exception is stopped. Half a second of processor time is enough to find it."""
    body = "while True:\n        try:\n            x = x\n        except BaseException:\n            pass"
    write(folder, body)
    code = "import handloom.course.trial as trial; trial.SECONDS = 0.5; trial.main()"
    results = folder.path / "results"
    command = [sys.executable, "-P", "-c", code, "1", str(folder.file(FIRST)), str(results)]
    subprocess.run(command, check=True, timeout=300)
    assert "of your file is still running: does a loop there end?" in results.read_text(encoding="utf-8")


def test_chapter_15_takes_what_passed_from_the_learner(folder) -> None:
    ten, fifteen = chapters()[9], chapters()[14]
    text = ten.solution_source.replace("from ...", "from handloom.")
    folder.file(ten).write_text(text, encoding="utf-8")
    for passed, whose in (([], "from handloom"), (["adam", "noam"], "yours")):
        folder.keep(ten, passed, "")
        report = check(fifteen, folder.file(fifteen))
        assert f"chapter 10: adam, noam: {whose}" in report.output
        assert report.verdicts["matmul"].state == "unwritten"


# -- the commands --------------------------------------------------------------------------------------------------


def test_from_the_first_stub_to_a_chapter_that_is_done(folder, monkeypatch, capsys) -> None:
    at = ("--dir", str(folder.path))
    code, out = call(monkeypatch, capsys, "check", *at)
    assert code == 1
    assert "now   multiply\n        Not written yet. Look at `add` above." in out
    assert "Continue with chapter 1: read c01_gradient.md" in out

    for count in (1, 2, 3, 4, 4):
        _, out = call(monkeypatch, capsys, "hint", "1", *at)
        assert sum(hint[:30] in out for hint in FIRST.exercises[0].hints) == min(count, 3)
        assert ("The solution:" in out) == (count == 4)

    folder.file(FIRST).write_text(solution(), encoding="utf-8")
    code, out = call(monkeypatch, capsys, "check", "1", *at)
    assert code == 0
    assert "[###] 3 of 3" in out
    assert "Continue with chapter 2" in out
    path, _, line = definition("autograd.ops.trigonometric.tanh")
    assert f"{path}:{line} (tanh)" in out
    assert "`python -m handloom.explorer --view graph`, the view Graph" in out
    assert "is done" in call(monkeypatch, capsys, "hint", "1", *at)[1]

    monkeypatch.setattr(
        command, "check", lambda chapter, path: checking.Report(chapter)
    )  # a file that passed is not run again
    code, out = call(monkeypatch, capsys, "check", *at)
    assert code == 1
    assert "1. What is a gradient?                      [###] 3 of 3" in out
    assert f"Continue with chapter {chapters()[1].number}:" in out
    assert Folder(folder.path).is_done(FIRST)
    folder.file(FIRST).write_text("changed", encoding="utf-8")
    assert not Folder(folder.path).is_done(FIRST)


def test_the_explorer_gets_what_the_learner_built(folder, capsys) -> None:
    assert {f"{stem}.py": view for stem, view in BUILT.items()} == {file: view for view, (file, _) in SHOWN.items()}
    sixth = chapters()[5]
    passed = {exercise.name: Verdict("passed") for exercise in sixth.exercises}
    checking.show(checking.Report(sixth, passed), folder)
    out = capsys.readouterr().out
    assert f"--view head --yours {shlex.quote(str(folder.path))}`, the view One head" in out
    assert "--view translate`" in out


def test_help_and_wrong_words(monkeypatch, capsys, folder) -> None:
    assert "watch" in call(monkeypatch, capsys)[1]
    assert f"cd '{folder.path}/a b'\n" in call(monkeypatch, capsys, "start", f"{folder.path}/a b")[1]
    assert call(monkeypatch, capsys, "hint", "1", "--exercise", "nothing", "--dir", str(folder.path))[0] == 2
    with pytest.raises(InputError, match="There is no course in "):
        call(monkeypatch, capsys, "check", "--dir", str(folder.path.parent))


def test_watching_sees_what_is_saved(folder) -> None:
    chapter, other = chapters()[:2]
    looks = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            folder.file(other).unlink()  # as an editor does while it replaces the file
        if len(looks) == 3:
            folder.file(other).write_text("saved, other", encoding="utf-8")
        if len(looks) == 4:
            folder.file(chapter).write_text("saved", encoding="utf-8")

    watching = command.saved(folder, chapters(), pause)
    assert next(watching) is other
    assert len(looks) == 3
    assert next(watching) is chapter
    assert len(looks) == 4


# -- comparing results ---------------------------------------------------------------------------------------------


def test_how_results_differ() -> None:
    import numpy as np

    two = np.array([1.0, np.nan])
    assert difference([1.0, np.nan], two, 1e-9) is None
    assert difference(two + 1e-12, two, 1e-9) is None
    assert "got 2 at [0], expected 1 (1 of 2" in difference([2, np.nan], two, 1e-9)
    three = np.array([1.0, 2.0, -4.0])
    assert difference(-three, three, 1e-9).endswith("All signs are reversed.")
    assert difference(three / 4, three, 1e-9).endswith("All numbers are 0.25 times the right ones.")
    assert difference(three - 1, three, 1e-9).endswith("All numbers are too small by the same amount.")
    assert "in the wrong places" in difference(three[::-1], three, 1e-9)
    assert "NaN comes from" in difference(three * np.nan, three, 1e-9)
    assert difference(three**2, three, 1e-9).endswith("(2 of 3 numbers differ).")
    assert difference(np.ones((2, 3)), np.ones((3, 2)), 1e-9).endswith("It is transposed.")
    assert "got the shape (2, 1), expected the shape (2,)" in difference(two[:, None], two, 1e-9)
    assert "is a `return` missing?" in difference(None, two, 1e-9)
    assert "got a single number, expected the shape (2,)" in difference(1.0, two, 1e-9)
    assert "got 1.0000000001, expected 1.0." in difference(1 + 1e-10, 1.0, 1e-12)
    assert "got the type str, expected numbers" in difference("text", two, 1e-9)
    assert "got the type Chapter" in difference(np.array([FIRST]), two, 1e-9)
    assert "expected True and False" in difference([1, 0], np.array([True, False]), 1e-9)
    assert difference((3, "a"), (3, "a"), 1e-9) is None
    assert "got 1, expected True" in difference(1, True, 1e-9)
    long = list(range(100))
    assert "got 0 at [99], expected 99" in difference([*long[:99], 0], long, 1e-9)
    assert "got 99 items, expected 100" in difference(long[:99], long, 1e-9)
    ones = dict.fromkeys([*"abcde", "a row"], 1)
    assert differing(ones | {"a row": 2}, ones, 0) == "A row: got 2, expected 1.\nAlready right: a; b; c; and 2 more."


# -- the page about the course -------------------------------------------------------------------------------------


def test_the_session_of_the_page_is_real(folder, monkeypatch, capsys) -> None:
    page = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    at = ("--dir", str(folder.path))
    spoken = [call(monkeypatch, capsys, "check", "1", *at)[1]]
    for answer in re.findall(r"^    (return Scalar.*)$", page, re.MULTILINE):
        write(folder, answer)
        spoken += [call(monkeypatch, capsys, *command, *at)[1] for command in (("check", "1"), ("hint", "1"))]
    assert len(spoken) == 5
    assert all(text.rstrip("\n") in page for text in spoken[:4])
    for chapter in chapters():
        assert f"| {chapter.number} | {chapter.title} |" in page


def test_a_teachers_program_gets_a_line_of_json_for_each_exercise(folder, monkeypatch, capsys) -> None:
    write(folder, "return Scalar(x.data * y.data, (x, y), lambda g: (g * y.data, g * x.data))")
    call(monkeypatch, capsys, "hint", "1", "--dir", str(folder.path))
    code, said = call(monkeypatch, capsys, "check", "1", "--json", "--dir", str(folder.path))
    rows = [json.loads(line) for line in said.splitlines()]
    assert code == 1
    assert [(row["chapter"], row["exercise"], row["passed"], row["state"], row["hints"]) for row in rows] == [
        (1, "multiply", True, "passed", 1),
        (1, "tanh", False, "unwritten", 0),
        (1, "backward", False, "open", 0),
    ]
    assert {row["digest"] for row in rows} == {digest(folder.file(FIRST))}
    assert Folder(folder.path).passed(FIRST) == ["multiply"]
    folder.file(FIRST).write_text("1 +", encoding="utf-8")
    _, said = call(monkeypatch, capsys, "check", "1", "--json", "--dir", str(folder.path))
    assert [json.loads(line)["state"] for line in said.splitlines()] == ["error"] * 3


# -- solutions are no answers, and chapter 15's translator ------------------------------------------------------------

TAKEN = {
    "from handloom.course.chapters.c01_gradient_solution import *": "c01_gradient.py imports the solutions.",
    "from handloom.course.chapter import chapters\nmultiply = chapters()[0].exercises[0].real": "imports the sol",
    "import helper": "helper.py imports the solutions.",
    "import sys\nmultiply = sys.modules['handloom.course.chapters.c01_gradient_solution'].multiply": "is the one of",
}


@pytest.mark.parametrize("code", TAKEN)
def test_a_solution_is_no_answer(folder, code) -> None:
    (folder.path / "helper.py").write_text(
        "from handloom.course.chapters import c01_gradient_solution", encoding="utf-8"
    )
    folder.file(FIRST).write_text(f"{FIRST.stub.text}\n\n{code}\n", encoding="utf-8")
    report = check(FIRST, folder.file(FIRST))
    assert report.passed == []
    assert TAKEN[code] in "".join(verdict.text for verdict in report.verdicts.values())


@pytest.fixture(scope="module")
def together() -> tuple:
    """Return chapter 15's solution, an untrained translator of it, and sentences."""
    solution = chapters()[14].solution
    pairs = build_corpus(train_size=60, valid_size=2, test_size=2).train
    tokens = solution.Tokens([text for pair in pairs for text in pair], 40)
    return solution, solution.MyTranslator(solution.new_weights(3 + len(tokens.bytes)), tokens), pairs


def test_the_saved_translator_of_chapter_15_is_the_learners(together, folder, monkeypatch, capsys) -> None:
    solution, mine, pairs = together
    model, tokenizer = as_translator(mine.weights, *mine.tokens.parts(), solution.HEADS)
    for text in [text for pair in pairs for text in pair]:
        assert tokenizer.encode(text) == mine.tokens.encode(text)
    source, target = np.array([[*tokenizer.encode(pairs[0][0]), 2]]), np.array([[1, *tokenizer.encode(pairs[0][1])]])
    with no_grad():
        np.testing.assert_allclose(model.eval()(source, target).data, mine.logits(source, target), atol=1e-4)
    code, _ = call(monkeypatch, capsys, "start", str(folder.path))
    with pytest.raises(InputError, match="no trained translator"):
        call(monkeypatch, capsys, "ask", "x", "--dir", str(folder.path))
    save_translator(folder.path / "translator", [2.0, 1.0], mine.weights, *mine.tokens.parts(), solution.HEADS)
    code, said = call(monkeypatch, capsys, "ask", pairs[0][0], "--dir", str(folder.path))
    assert (code, said) == (0, Translator.load(folder.path / "translator").translate([pairs[0][0]])[0] + "\n")


def test_chapter_15_notices_a_decoder_that_sees_the_words_to_predict(together, monkeypatch) -> None:
    solution, mine, pairs = together
    ids = [np.array([mine.tokens.encode(text)]) for text in pairs[0]]
    assert not mine.looks_ahead(*ids)
    attend = solution.attend
    monkeypatch.setattr(solution, "attend", lambda q, k, v, mask: attend(q, k, v, True))
    assert mine.looks_ahead(*ids)


def test_the_least_loss_is_that_of_the_smoothed_targets(together) -> None:
    solution, _, _ = together
    targets = np.full((1, 659), 0.1 / 659) + 0.9 * (np.arange(659) == 5)
    assert solution.least_loss(659) == pytest.approx(float(solution.smoothed(np.log(targets), np.array([5]), 0.1)))
    assert solution.least_loss(659) == pytest.approx(0.97, abs=0.005)
