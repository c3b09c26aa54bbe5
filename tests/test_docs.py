"""Run the ```python blocks of README, CONTRIBUTING and docs in order, and the examples in docstrings.

A block marked ```python no-run does not run.
"""

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_links import PAGES, ROOT

BLOCK = re.compile(r"^```python[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each block to run."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(1)), match.group(1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "example"}
    for line, code in blocks(page):
        exec(compile("\n" * line + code, str(page), "exec"), names)  # tracebacks show the page and its line


def test_blocks_are_found() -> None:
    assert sum(1 for page in PAGES for _ in blocks(page)) >= 10
    for page in PAGES:
        marks = re.findall(r"^```python\b(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(marks) <= {"", " no-run"}, f"{page.name}: a python block is marked {marks}"


def test_the_examples_in_docstrings_run() -> None:
    failed = []
    for part in ("autograd", "nn", "models", "tokenizer", "train", "cli"):
        for path in sorted((ROOT / part).rglob("*.py")):
            if ">>>" in path.read_text(encoding="utf-8"):
                name = ".".join(("handloom", *path.relative_to(ROOT).with_suffix("").parts))
                if doctest.testmod(importlib.import_module(name.removesuffix(".__init__"))).failed:
                    failed.append(name)
    assert failed == []


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    path = text.partition("## Read\n")[2].partition("\n## ")[0]
    assert re.findall(r"^(\d)\. \[", path, re.MULTILINE) == list("1234567")
