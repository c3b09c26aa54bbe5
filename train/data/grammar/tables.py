"""Reads the tables of words, which are text files in this folder."""

from __future__ import annotations

import re
from pathlib import Path

Rows = list[list[str]]


def read_tables(name: str) -> dict[str, Rows]:
    """Read the sections of a file: rows of cells by the name of the section.
    Two or more blanks separate cells; a lone "-" is an empty cell.
    """
    tables: dict[str, Rows] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(["" if cell == "-" else cell for cell in re.split(r"\s{2,}", line)])
    return tables


def sections(tables: dict[str, Rows], kind: str) -> dict[str, Rows]:
    """Return the sections that are called "kind: name", by name."""
    return {name.removeprefix(f"{kind}: "): rows for name, rows in tables.items() if name.startswith(f"{kind}: ")}
