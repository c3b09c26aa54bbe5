"""Test the command `handloom` and `handloom.load` as a user of the installed package runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import handloom
from handloom import InputError
from handloom.__main__ import COMMANDS, PROGRAMS
from handloom.models.shipped import MODELS
from handloom.train.runs.folder import RunFolder

from .support.examples import EXAMPLES, small_data

PACKAGE = Path(handloom.__file__).parent


def handloom_command(folder: Path, *words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *filter(None, sys.path)])}
    line = [sys.executable, "-W", "error", "-m", "handloom", *map(str, words)]
    return subprocess.run(
        line, cwd=folder, input=stdin, capture_output=True, encoding="utf-8", env=environment, check=False
    )


@pytest.mark.skipif(os.name != "posix", reason="the exit code of Ctrl-C on Windows is another one")
def test_ctrl_c_while_modules_are_imported_is_one_line() -> None:
    """NumPy's import turns an exception within it into an ImportError."""
    code = """
import signal, handloom.__main__ as command
def interrupted(*names):
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        raise ImportError("Error importing numpy") from error
command.importlib.import_module = interrupted
command.main()
"""
    done = subprocess.run([sys.executable, "-c", code, "translate"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nstopped\n")


def test_the_table_names_everything_and_imports_nothing(tmp_path) -> None:
    code = "import sys, numpy; before = set(sys.modules); from handloom.__main__ import run; run([]); "
    code += "print([name for name in sys.modules if name.startswith('handloom.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *table, modules = done.stdout.splitlines()
    assert modules == "['handloom.lazy', 'handloom.__main__']"
    assert [line.split()[0] for line in table if line.startswith("  ")] == list(COMMANDS)
    assert "HANDLOOM_DATA" in done.stdout
    reports = {path.stem for path in EXAMPLES.glob("*_*.py") if "example_run" in path.read_text(encoding="utf-8")}
    assert PROGRAMS.keys() - {"translate"} == reports


@pytest.mark.parametrize("words", [["handloom", "translate", "Hallo"], ["handloom.doctor"]])
def test_a_wrong_environment_variable_is_one_line(words: list[str], monkeypatch) -> None:
    monkeypatch.setenv("HANDLOOM_PLAIN", "2")
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    said = "error: HANDLOOM_PLAIN is '2': set it to 0 for quick implementations too, or to 1 for plain ones only.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_gets(unbuffered: str) -> None:
    """A full disk is an error. A pipe that its reader has closed, as `head` does, is not an error."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUNBUFFERED": unbuffered}
    read, gone = os.pipe()
    os.close(read)
    full = "error: No space left on device. Make room on the disk, or choose another folder.\n"
    for stream, code, said in [(os.open("/dev/full", os.O_WRONLY), 2, full), (gone, 141, "")]:
        line = [sys.executable, "-m", "handloom"]
        done = subprocess.run(line, stdout=stream, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        os.close(stream)
        assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trnslate"], "Did you mean translate?"),
        (["train", "translate_en"], "Did you mean translate_en_fr?"),
        (["train", "x"], "handloom train --help lists the choices."),
        (["summarize", "A"], "No model for this command comes with handloom: add --model"),
        (["translate", "--to", "de", "--model", "run", "A"], "leave out --model, or --to"),
        (["translate", "--to", "fr", "A"], "--to"),
        (["classify", "--model", "tatoeba-de-en", "A"], "tatoeba-de-en can't classify: its task is translate."),
        (["translate", "--model", "tatoeba", "A"], f"a model that comes with handloom: {', '.join(MODELS)}."),
        (["translate", ""], "Text 1 is empty."),
        (["translate", "--model", "", "A"], "The name of the model is empty."),
        (["export", "tatoeba-de-en", "."], "are not overwritten"),
    ],
)
def test_what_is_refused_in_a_line(words, says, tmp_path) -> None:
    (tmp_path / "mine.txt").touch()
    done = handloom_command(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_translations_into_german_and_classes_need_no_options_of_a_model(tmp_path) -> None:
    done = handloom_command(tmp_path, "translate", "--to", "de", "Where is the station?")
    assert done.stdout == "Wo ist der Bahnhof?\n"
    done = handloom_command(tmp_path, "classify", "Senate Passes Budget Bill")
    assert done.stdout.startswith("POLITICS ")


def test_a_run_of_the_command_is_used_and_exported(tmp_path) -> None:
    data = small_data("classify_news", tmp_path)
    options = ["--data", data, "--preset", "smoke", "--steps", 2, "--out", "run"]
    done = handloom_command(tmp_path, "train", "classify_news", *options, "--stop-at", 1)
    assert done.returncode == 0, done.stderr
    done = handloom_command(tmp_path, "train", "classify_news", "--resume", "run", "--steps", 3)
    assert done.returncode == 0, done.stderr
    for name in ("config", "results"):
        command = json.loads((tmp_path / f"run/{name}.json").read_text(encoding="utf-8"))["command"]
        assert command == f"handloom train classify_news --data={data} --preset=smoke --steps=3"
    done = handloom_command(tmp_path, "classify", "--model", "run", stdin="Team wins the cup\n\n")
    first, blank = done.stdout.splitlines()
    shares = handloom.load(tmp_path / "run", "classify").classify(["Team wins the cup"])[0]
    assert first.startswith(f"{next(iter(shares))} ")
    assert blank == ""
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)


def test_load_returns_the_object_for_the_task(tmp_path) -> None:
    model = handloom.load("tatoeba-de-en")
    assert model.translate(["Wo ist der Bahnhof?"]) == ["Where is the station?"]
    with pytest.raises(InputError, match="can't generate: its task is translate"):
        handloom.load("tatoeba-de-en", "generate")
    for unusable in ("x" * 300, "a\0b", "nothing"):
        with pytest.raises(InputError, match=r"There is no model (x{80}|a\0b|nothing)\. Give"):
            handloom.load(unusable)
    with pytest.raises(InputError, match="no task 'sing'"):
        handloom.load("tatoeba-de-en", "sing")
    with RunFolder.create(tmp_path / "run", {}), pytest.raises(InputError, match=r"holds no model.* with resume=True"):
        handloom.load(tmp_path / "run")
