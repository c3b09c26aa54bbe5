"""Check that docs/defects.md names an existing test, by file and name, for each defect."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROW = re.compile(r"^\| .+ \| `([\w/]+\.py)::(\w+)` \|$")


def test_every_defect_has_its_test() -> None:
    page = (TESTS.parent / "docs" / "defects.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| defect")]
    assert len(rows) > 50
    found = [ROW.match(row) for row in rows]
    assert [row for row, match in zip(rows, found, strict=True) if match is None] == []
    gone = [
        match[0]
        for match in found
        if match and f"def {match[2]}(" not in (TESTS / match[1]).read_text(encoding="utf-8")
    ]
    assert gone == []
