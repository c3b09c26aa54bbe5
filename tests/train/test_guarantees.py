"""docs/training.md names the test behind each promise; the tests must be there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_the_page_names_exists() -> None:
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    names = set(re.findall(r"`(test_\w+|Test\w+)`", page))
    assert len(names) > 25
    for name in names:
        kind = "def" if name.startswith("test_") else "class"
        assert any(re.search(rf"\b{kind} {name}\b", source) for source in sources.values()), name
    for path in re.findall(r"`(tests/[\w/.]+)`", page):
        assert ROOT / path in sources, path
