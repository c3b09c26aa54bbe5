"""Check that the link targets, commands and flags in README, CONTRIBUTING and docs/ exist."""

import argparse
import importlib
import importlib.util
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handloom.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
# The pages of the repository, without the pages that `make docs` generates.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/reports/*.md")])
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
PROGRAMS = ("handloom", "python", "python3", ".venv/bin/python", "make", "mpirun", "pip")


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the link anchors of a page's headings, in the form that GitHub and MyST generate."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}, which does not exist"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}, but the heading does not exist"


def test_files_that_are_named_exist() -> None:
    """Every path in backticks that begins with a folder of the repository exists."""
    folders = {path.parent.name for path in ROOT.glob("*/*.py")} | {"tests"}
    for page in PAGES:
        for name in re.findall(r"`([\w./-]+/[\w./-]*\w)`", prose(page)):
            if name.split("/")[0] in folders:
                assert (ROOT / name).exists(), f"{page.name} names {name}, which does not exist"


def test_tests_that_are_named_exist() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    defined = set(re.findall(r"\b(?:def|class) ((?:test_|Test)\w+)", "\n".join(sources)))
    for page in PAGES:
        missing = set(re.findall(r"`((?:test_|Test)\w+)`", prose(page))) - defined - {"test_2016_flickr"}
        assert not missing, f"{page.name} names tests that don't exist: {sorted(missing)}"


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of each command in shell blocks, in indented lines and in backticks."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")  # join the lines of a command
        lines = [line for language, block in FENCED.findall(text) if language == "sh" for line in block.splitlines()]
        lines += re.findall(r"^    (python .*)$", text, re.MULTILINE)
        lines += [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose(page))]
        for line in lines:
            words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else []
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                words.pop(0)
            if words and words[0] in PROGRAMS and len(words) > 1:
                yield page.name, words


class Stop(BaseException):
    """Raised with the parser as argument, instead of parsing the command line."""


def parser_of(program: str, trains: bool, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser | None:
    """Return the argument parser of a script (a path) or a module (a dotted name), or None if it uses no parser.

    If a script has separate parsers for training and for using a model, `trains` selects the parser for training.
    """

    def stop(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise Stop(parser)

    is_script = program.endswith(".py")
    path = ROOT / program if is_script else importlib.util.find_spec(program).origin  # type: ignore[union-attr]
    if Path(path).name == "__init__.py":
        return parser_of(f"{program}.__main__", trains, monkeypatch)
    if "parse" not in Path(path).read_text(encoding="utf-8"):
        return None
    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        patch.setattr(sys, "argv", [program])
        try:
            if is_script:
                found = runpy.run_path(str(path), run_name="script")
                found["parse_arguments" if trains and "parse_arguments" in found else "main"]()
            else:
                importlib.import_module(program).main()
        except Stop as stopped:
            return stopped.args[0]
    return None


@pytest.fixture(scope="module")
def parsers() -> dict[str, Any]:
    return {}


def check_arguments(program: str, arguments: list[str], parsers: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    trains = "--checkpoint" not in arguments and all(word.startswith("-") for word in arguments[:1])
    if (program, trains) not in parsers:
        parsers[program, trains] = parser_of(program, trains, monkeypatch)
    parser = parsers[program, trains]
    if parser is None or "--help" in arguments or "..." in arguments:
        return

    def error(message: str) -> None:
        raise AssertionError(f"{program} {' '.join(arguments)}: {message}")

    monkeypatch.setattr(parser, "error", error)
    arguments = arguments[: arguments.index("<")] if "<" in arguments else arguments
    parser.parse_args([word.removesuffix("...") for word in arguments])


def test_commands_exist_and_take_their_flags(parsers, monkeypatch) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    seen = set()
    for page, words in commands():
        where = f"{page}: {' '.join(words)}"
        if words[0] == "mpirun":
            words = words[next(i for i, word in enumerate(words) if "python" in word or word == "handloom") :]
        if words[0] == "handloom":
            if words[1] == "train" and words[2] != "NAME":
                name = "translate_de_en" if words[2] == "translate" else words[2]
                words = ["python", f"examples/{name}.py", *words[3:]]
            else:
                assert words[1] in COMMANDS, where
                module, _, function = COMMANDS[words[1]][0].partition(":")
                if function != "main" or not words[2:]:
                    continue
                words = ["python", "-m", f"handloom.{module}", *words[2:]]
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= targets, where
        elif words[0] == "pip" or words[1:3] == ["-m", "pip"]:
            for extra in re.findall(r"\[([\w,-]+)\]", where):
                assert set(extra.split(",")) <= set(extras), where
        elif words[1:3] == ["-m", "pytest"]:
            for path in (word for word in words[3:] if "/" in word):
                assert (ROOT / path.partition("::")[0]).exists(), where
        elif words[1] == "-m" and words[2].split(".")[0] in ("handloom", "benchmarks", "tests"):
            if words[2] != "benchmarks.NAME":
                assert importlib.util.find_spec(words[2]), where
                check_arguments(words[2], words[3:], parsers, monkeypatch)
        elif words[1] != "-m" and not words[1].endswith("..."):
            assert (ROOT / words[1]).is_file(), where
            check_arguments(words[1], words[2:], parsers, monkeypatch)
        seen.add(tuple(words))
    assert len(seen) > 50
    assert sum(parser is not None for parser in parsers.values()) > 12
