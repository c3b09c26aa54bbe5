"""Fill the tables of docs with the figures of the results files.

    python -m benchmarks.pages          say which rows differ from their file
    python -m benchmarks.pages --write  write the figures of the files into these rows

A comment above such a table names the files, of benchmarks/results/reports, and has a row of formats:

    <!-- results: kth_table1.json
    | {cell} | {valid_loss:.2f} | | -->

Each row of the table must be that row, filled in from one object in these files. Rows whose first cell is "the report"
state its figures, which must be in examples/tables/reports.json; rows that begin with † have no results file. A figure
with a decimal point in a cell without a format must be in reports.json or in some results file.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reports"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reports").glob("*.md")])
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*\.\d+")
TABLE = re.compile(r"<!-- results: ([^\n]+)\n(\|[^\n]+\|) -->\n((?:\|[^\n]*\n)+)")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON value, at any depth."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from objects(part)


def shown(form: str, row: dict[str, Any]) -> str:
    """Return the text of a cell. It is empty if the object has no such figure, or has a text of that name."""
    try:
        return form.format_map(row)
    except (KeyError, TypeError, ValueError):
        return ""


def filled(formats: str, row: str, found: list[dict[str, Any]]) -> str | None:
    """Return the row, filled in from the object that has most of its names, then most of its cells; None if no object
    has any of them.
    """
    forms, values = cells(formats), cells(row)
    plain = [value.replace("**", "") for value in values]
    if plain[0].startswith("†") or of_report(plain):
        return row

    def agreement(made: list[str]) -> tuple[bool, int, int]:
        agree = [bool(form and new) and new == old for form, new, old in zip(forms, made, plain, strict=True)]
        names = sum(same for form, same in zip(forms, agree, strict=True) if ":" not in form)
        return made == plain, names, sum(agree)

    made = [[shown(form, each) if form else value for form, value in zip(forms, plain, strict=True)] for each in found]
    best = max(made, key=agreement, default=None)
    if best is None or not any(agreement(best)):
        return None
    if best == plain:
        return row
    new_cells = (old if new == bare else new for old, bare, new in zip(values, plain, best, strict=True))
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in new_cells)


def of_report(plain: list[str]) -> bool:
    """Return whether a row states the figures of a report."""
    return plain[0].partition(",")[0] == "the report"


def numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a JSON value, at any depth, and those in its texts."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, str):
        yield from (float(figure.replace(",", "")) for figure in FIGURE.findall(value))
    elif isinstance(value, int | float):
        yield float(value)


def unknown_figures(formats: str, row: str, stated: set[float], measured: set[float]) -> list[str]:
    """Return the figures in cells without a format, or in a report's row, that are in no results file."""
    forms, plain = cells(formats), [value.replace("**", "") for value in cells(row)]
    if plain[0].startswith("†"):
        return []
    own = of_report(plain)
    texts = plain if own else [value for form, value in zip(forms, plain, strict=True) if not form]
    figures = [figure for text in texts if "no results file" not in text for figure in FIGURE.findall(text)]
    return [figure for figure in figures if not any(
        f"{factor * number:,.{len(figure.partition('.')[2])}f}" == figure
        for number in (stated if own else stated | measured) for factor in (1, 100, 1e-3, 1e-6)
    )]  # fmt: skip


def tables(page: Path) -> Iterator[tuple[str, str, list[str], list[dict[str, Any]]]]:
    """Yield the names of the files, the formats, the rows and the objects of each table of a page."""
    for files, formats, table in TABLE.findall(page.read_text(encoding="utf-8")):
        found = [row for name in files.split() for row in objects(json.loads((RESULTS / name).read_text("utf-8")))]
        yield files, formats, table.splitlines()[2:], found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--write", action="store_true", help="write the figures into the pages")
    options = parser.parse_args()
    wrong = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for _, formats, rows, found in tables(page):
            for row in rows:
                if (new := filled(formats, row, found)) == row:
                    continue
                print(f"{page.name}\n- {row}\n+ {new or 'no object of the files has such a row'}")
                text = text.replace(row, new or row, 1)
                wrong += not options.write or new is None
        if options.write:
            page.write_text(text, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
