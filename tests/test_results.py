"""Tables of docs that were made from results files have their figures.

A comment above such a table names the files, of benchmarks/results/reports, and has a row of formats:

    <!-- results: kth_table1.json
    | {cell} | {valid_loss:.2f} | | -->

Each row of the table must be that row, filled in from one object in these files. A cell without a format is free. Rows
that begin with "the report" state its figures; those that begin with † were kept in no results file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reports"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reports").glob("*.md")])
TABLE = re.compile(r"<!-- results: ([^\n]+)\n(\|[^\n]+\|) -->\n((?:\|[^\n]*\n)+)")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from objects(part)


def shown(form: str, row: dict[str, Any]) -> str:
    """The cell; empty where the object has no such figure, or a text of that name."""
    try:
        return form.format_map(row)
    except (KeyError, TypeError, ValueError):
        return ""


def unbacked(formats: str, rows: list[str], found: list[dict[str, Any]]) -> list[str]:
    """The rows that no object gives."""
    forms = cells(formats)
    known = [[shown(form, row) if form else None for form in forms] for row in found]
    missing = []
    for row in rows:
        values = cells(row.replace("**", ""))
        same = ([b if a is None else a for a, b in zip(made, values, strict=True)] == values for made in known)
        if not values[0].startswith(("the report", "†")) and not any(same):
            missing.append(row)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_of_a_page_are_those_of_its_results_files(page) -> None:
    for files, formats, table in TABLE.findall(page.read_text(encoding="utf-8")):
        found = [row for name in files.split() for row in objects(json.loads((RESULTS / name).read_text("utf-8")))]
        assert unbacked(formats, table.splitlines()[2:], found) == [], f"{page.name}, {files}"


def test_each_results_file_is_shown() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert text.count("<!-- results:") == len(TABLE.findall(text))
    named = {name for files, _, _ in TABLE.findall(text) for name in files.split()}
    assert named == {path.name for path in RESULTS.glob("*.json")}
