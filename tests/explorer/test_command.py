"""The command line of the explorer, and --explore in the examples."""

import socket
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from handloom.cli import examples
from tests.support.examples import Example


def refused(folder: Path, *arguments: str) -> str:
    return Example("handloom.explorer", folder).fails("--no-browser", *arguments)


def test_a_folder_without_a_run_is_an_error_of_one_line(tmp_path: Path) -> None:
    assert "nothing is not a run: it holds no config.json" in refused(tmp_path, "nothing")


@pytest.mark.parametrize("options", [("--view", "heads?head=1"), ("--export", "site", "--view", "head")])
def test_a_view_that_is_none_or_has_no_effect_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert "--view" in refused(tmp_path, *options)
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_an_error_of_one_line(run_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra `explorer` is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = refused(tmp_path, str(run_folder), "--port", str(taken.getsockname()[1]))
    assert "Omit --port" in said


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace `Popen`, and return the list of commands that would have been started."""
    commands: list[list[str]] = []
    monkeypatch.setattr(examples.subprocess, "Popen", lambda command: commands.append(command))
    monkeypatch.setattr(examples.atexit, "register", lambda wait: None)
    return commands


def test_an_example_shows_its_run_while_it_trains(tmp_path: Path, started: list[list[str]]) -> None:
    options = {"resume": None, "out": tmp_path / "run", "overwrite": False, "options": {}, "typed": "", "given": set()}
    for explore in (True, False):
        arguments = Namespace(explore=explore, **options)
        data = SimpleNamespace(summary=lambda: "none", notes=[], train=[], valid=[], test=[])
        with examples.start_run(arguments, data) as made:
            assert "explore" not in made.config["options"]
        options = {**options, "out": tmp_path / "other"}
    assert started == [[sys.executable, "-m", "handloom.explorer", str(tmp_path / "run")]]
