"""Pages of docs/ name the test behind each promise; the tests must be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("name", "least"), [("training.md", 25), ("generation.md", 20)])
def test_every_test_that_the_page_names_exists(name: str, least: int) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    names = set(re.findall(r"`(test_\w+|Test\w+)`", page))
    assert len(names) > least
    for test in names:
        kind = "def" if test.startswith("test_") else "class"
        assert any(re.search(rf"\b{kind} {test}\b", source) for source in sources.values()), test
    for path in re.findall(r"`(tests/[\w/.]+)`", page):
        assert ROOT / path in sources, path
