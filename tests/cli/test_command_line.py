"""How programs end: messages and exit codes, also with closed or full streams."""

import argparse
import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.arguments import OptionError, Parser, in_options, path, positive, whole
from handloom.autograd.backend import GraphError
from handloom.cli.command_line import Terminated, results_folder, run_main
from handloom.cli.examples import _program, other_libraries, start_run
from handloom.errors import InputError, remedy
from handloom.train.runs.saves import SavedStates
from tests.support.examples import Example

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from handloom.cli.command_line import run_main
from handloom.cli.options import OptionParser

def main():
    parser = OptionParser(description="A program.")
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    for line in sys.stdin:
        print("read", line)
    if arguments.picture:
        from handloom.train.runs.plots import plot_lines
        plot_lines({"a": ([1, 2], [3, 4])}, arguments.picture, x_label="x", y_label="y")
    print("done")

run_main(main)
"""


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a shell command, in which `PROGRAM` is replaced by the command line of the program."""
    (folder / "program.py").write_text(PROGRAM)
    command = command.replace("PROGRAM", shlex.join([sys.executable, "-W", "error", str(folder / "program.py")]))
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell is needed")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("PROGRAM <&-", 0, "done"),
        ("PROGRAM >&-", 2, "error: Standard output or error is closed"),
        ("PROGRAM --nonsense", 2, "error: unrecognized arguments: --nonsense\nusage: program.py --help lists the "),
    ],
)
def test_closed_streams_and_wrong_options(command: str, code: int, said: str, tmp_path: Path) -> None:
    done = shell(command, tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert len((done.stdout + done.stderr).splitlines()) == said.count("\n") + 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("options", "unbuffered"), [("", ""), ("", "1"), ("--help", "1")])
def test_a_full_disk_is_reported_once(options: str, unbuffered: str, tmp_path: Path) -> None:
    done = shell(f"PROGRAM {options} > /dev/full </dev/null", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device. Make room on the disk, or choose another folder.\n"


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell is needed")
def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    done = shell("yes | PROGRAM | head -n 1; exit ${PIPESTATUS[1]}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (141, "read y\n", "")


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell is needed")
def test_a_backend_for_windows_is_not_wanted(tmp_path: Path) -> None:
    """The program ignores MPLBACKEND, since pictures go to files; matplotlib would refuse this name after training."""
    done = shell("PROGRAM --picture a.png </dev/null", tmp_path, MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.png").exists()


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Undo what `run_main` changes in this process."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr("warnings.showwarning", lambda *_, **__: None)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ends(main: Any, capsys: pytest.CaptureFixture) -> tuple[Any, str]:
    """Run a program, and return its exit code and its standard error."""
    with pytest.raises(SystemExit) as stop:
        run_main(main)
    return stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("No.\nNo \x1b[2J\u2028no \udcf6"), "error: No.\\nNo \\x1b[2J\\u2028no \\udcf6\n"),
        (OptionError("No", "x --help lists"), "error: No\nusage: x --help lists\n"),
        (OSError(errno.EACCES, "Permission denied", "a"), "error: a: Permission denied. Check the permissions there"),
        (OSError(errno.ENAMETOOLONG, "Name too long", "a"), "error: a: Name too long. Choose another path.\n"),
        (GraphError("it can't be captured"), "error: it can't be captured: leave out --graphs\n"),
        (MemoryError("big"), "error: there is not enough memory (big). Use a smaller preset, or close other"),
    ],
)
def test_an_error_is_one_line(error: Exception, said: str, capsys: pytest.CaptureFixture) -> None:
    code, err = ends(Mock(side_effect=error), capsys)
    assert code == 2
    assert err.startswith(said)
    assert len(err.splitlines()) == said.rstrip("\n").count("\n") + 1


def test_what_can_be_done_about_a_file() -> None:
    for number, advice in [
        (errno.ENOSPC, "Make room on the disk"), (errno.EDQUOT, "Make room on the disk"),
        (errno.EACCES, "Check the permissions"), (errno.EROFS, "Check the permissions"),
        (errno.EISDIR, "Choose another path"),
    ]:  # fmt: skip
        assert remedy(OSError(number, "")).startswith(advice)


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_during_evaluation_says_how_to_go_on(number, code, saved, tmp_path, capsys) -> None:
    """The trainer handles signals during training; during the later evaluation, a signal ends the program at once."""
    options = {"resume": None, "out": tmp_path / "run", "overwrite": False, "explore": False}
    arguments = SimpleNamespace(**options, options={}, typed="", given=set())
    data = SimpleNamespace(summary=lambda: "data", notes=(), train="", valid="", test="")

    def main() -> None:
        with start_run(arguments, data) as run:
            if saved:
                SavedStates(run.saves_path).save(3, {"w": np.ones(1)}, {})
            os.kill(os.getpid(), number)

    if number == signal.SIGINT:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    hint = f". Continue with --resume {tmp_path / 'run'}" if saved else ""
    assert ends(main, capsys) == (code, f"\nstopped{hint}\n")
    assert (tmp_path / "run").exists() == saved
    assert issubclass(Terminated, KeyboardInterrupt)


def test_results_never_come_into_a_folder_with_other_files(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    assert results_folder(tmp_path / "run", "x") == tmp_path / "run"
    (tmp_path / "run/tokenizer.json").write_text("precious")
    with pytest.raises(InputError, match="is not empty: choose a new folder for --out"):
        results_folder(tmp_path / "run", "x")


@pytest.mark.parametrize("text", ["0", "00", "-1", "x", "", "1.5", "\u0660", "9" * 5000, "1_0", " 1", "\u00b2"])
def test_counts(text: str) -> None:
    for low, kind in enumerate((whole, positive)):
        if low or set(text) != {"0"}:
            with pytest.raises(argparse.ArgumentTypeError, match=f"is not a whole number from {low} to "):
                kind(text)
        else:
            assert kind(text) == 0


def test_paths() -> None:
    assert (path("a b"), path("~")) == (Path("a b"), Path.home())
    with pytest.raises(argparse.ArgumentTypeError, match="empty"):
        path("")


@pytest.mark.parametrize(("typed", "hint"), [("--bean=3", "; did you mean --beam?"), ("--nothing-like", ""), ("x", "")])
def test_an_unknown_option_is_one_line_with_the_most_similar_one(typed, hint, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["handloom x"])  # then messages show its commands, not the examples
    parser = Parser(prog="python -m handloom.x", description="python examples/x.py A")
    assert parser.description == "handloom x A"
    parser.add_argument("--beam")
    with pytest.raises(SystemExit) as stop:
        parser.parse_args([typed])
    said = f"error: unrecognized arguments: {typed}{hint}\nusage: handloom x --help lists the options\n"
    assert (stop.value.code, capsys.readouterr().err) == (2, said)


ONE_LINE = {
    "handloom.autograd.gradcheck": ("--seed -1", "--samples 0", "--op x", "--nothing"),
    "handloom.gpu_check": ("--nothing", "--out="),
    "handloom.doctor": ("--nothing",),
    "handloom.course": ("start", "check 99", "--nothing"),
    "handloom.explorer": ("--port -1",),
    "train_by_hand.py": ("--steps -1", "--nothing"),
    "compare_attention.py": ("--steps 999999999999", "--lengths 999999999999", "--out="),
    "explore_tokenizer.py": ("--vocab-size -5", "--out="),
}  # fmt: skip


@pytest.mark.parametrize("program", ONE_LINE)
def test_wrong_options_of_every_program_are_one_line(program: str) -> None:
    for typed in ONE_LINE[program]:
        lines = Example(program, ROOT).fails(*typed.split()).splitlines()
        assert (lines[0][:7], lines[1][:7], len(lines)) == ("error: ", "usage: ", 2), lines


def test_a_run_that_goes_on_with_other_libraries_says_so() -> None:
    here = {"compiled_loops": None, "mkl": "mkl 2026.2.0"}
    assert not list(other_libraries({}, here))  # an old run without this record
    assert not list(other_libraries(here, here))
    assert "another version of handloom's code" in next(other_libraries({"code": "a", **here}, {"code": "b", **here}))
    said = list(other_libraries({"compiled_loops": "numba 0.61", "mkl": None}, here))
    assert [line.partition(":")[0] for line in said] == [
        "This run began with loops compiled by numba 0.61 and continues with no compiled loops",
        "This run began with NumPy's products and continues with mkl 2026.2.0",
    ]


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("Continue with resume=True, out='my runs/a'", "Continue with --resume 'my runs/a'"),
        ("or rename the old run, or add copy=True", "or use --overwrite to rename the old run, or add --set copy=true"),
        ("give at least steps=30; stop_at=7: the run", "give at least --steps 30; --stop-at 7: the run"),
        ("start from load('everyday-de-en')", "start from --init everyday-de-en"),
        ("languages: source=de, target=es.", "languages: --from de --to es."),
        ("--set lr=x: 'lr=3' failed, seed=1,lr=2", "--set lr=x: 'lr=3' failed, seed=1,lr=2"),
        ("dropout=1.5 is not a probability", "dropout=1.5 is not a probability"),
    ],
)
def test_a_command_prints_its_options_where_the_library_names_arguments(python: str, command: str) -> None:
    assert in_options(python) == command


@pytest.mark.parametrize(
    "started", ["examples/translate_de_en.py", "handloom train translate_de_en", "handloom train translate"]
)
def test_a_run_belongs_to_its_program_by_each_of_its_names(started: str, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", [started])
    assert _program() == "translate_de_en.py"
