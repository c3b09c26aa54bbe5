"""Fill the tables of docs with the figures of the results files.

    python -m benchmarks.pages          say which rows differ from their file
    python -m benchmarks.pages --write  write the figures of the files into these rows

A comment above such a table names the files, of benchmarks/results/reports, and has a row of formats:

    <!-- results: kth_table1.json
    | {cell} | {valid_loss:.2f} | | -->

Each row of the table must be that row, filled in from one object in these files. In rows whose first cell is "the
report", and in cells without a format, each cell with a decimal point has a line of its own below the formats, in the
order of the table. The line names the figure's place in any results file, or in examples/tables/reports.json:

    {multi30k_de_en[tables][scores][0][value]:.2f}, the report's {stated[news_headline_writer][bleu]}

Rows that begin with †, and cells with the words "no results file", have none.
"""

import argparse
import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reports"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reports").glob("*.md")])
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*\.\d+")
TABLE = re.compile(r"<!-- results: ([^\n]+)\n(\|[^\n]+\|)((?:\n[^\n]+)*?) -->\n((?:\|[^\n]*\n)+)")


class Table(NamedTuple):
    """A table of a page, with what its comment says about it."""

    files: str
    formats: str
    sources: list[str]  # of the cells that `needs_source`, in reading order
    rows: list[str]
    found: list[dict[str, Any]]  # the objects of the files

    def filled(self) -> list[str | None]:
        """Return the rows with the figures of the files; None for a row that no object has."""
        return [filled(self.formats, row, self.found) for row in self.sourced()]

    def sourced(self) -> list[str]:
        """Return the rows with each cell that needs a source as its source says.

        Raises:
            ValueError: there are more such cells than sources, or fewer.
        """
        rows = list(self.rows)
        places = [(i, j) for i, row in enumerate(self.rows) for j in needs_source(self.formats, row)]
        if len(places) != len(self.sources):
            raise ValueError(f"{self.files}: {len(places)} cells need a source; the comment has {len(self.sources)}")
        for (i, j), source in zip(places, self.sources, strict=True):
            line = cells(rows[i])
            if (new := source.format_map(by_name())) != line[j].replace("**", ""):
                rows[i] = written([*line[:j], new, *line[j + 1 :]])
        return rows


@functools.cache
def by_name() -> dict[str, Any]:
    """Return the contents of the results files by their names, and as "stated" what the reports state."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    return files | {"stated": json.loads((ROOT / "examples/tables/reports.json").read_text(encoding="utf-8"))}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def written(line: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in line)


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
    return written(old if new == bare else new for old, bare, new in zip(values, plain, best, strict=True))


def of_report(plain: list[str]) -> bool:
    """Return whether a row states the figures of a report."""
    return plain[0].partition(",")[0] == "the report"


def needs_source(formats: str, row: str) -> list[int]:
    """Return the columns of the cells of a row whose figures no format fills in."""
    forms, plain = cells(formats), [value.replace("**", "") for value in cells(row)]
    if plain[0].startswith("†"):
        return []
    return [
        column
        for column, (form, value) in enumerate(zip(forms, plain, strict=True))
        if FIGURE.search(value) and "no results file" not in value and (not form or of_report(plain))
    ]


def tables(page: Path) -> Iterator[Table]:
    for files, formats, sources, table in TABLE.findall(page.read_text(encoding="utf-8")):
        found = [row for name in files.split() for row in objects(by_name()[name.removesuffix(".json")])]
        yield Table(files, formats, sources.split("\n")[1:], table.splitlines()[2:], found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--write", action="store_true", help="write the figures into the pages")
    options = parser.parse_args()
    wrong = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for table in tables(page):
            try:
                filled_rows = table.filled()
            except (LookupError, ValueError) as error:
                print(f"{page.name}: {error}")
                wrong += 1
                continue
            for row, new in zip(table.rows, filled_rows, strict=True):
                if new == row:
                    continue
                print(f"{page.name}\n- {row}\n+ {new or 'no object of the files has such a row'}")
                text = text.replace(row, new or row, 1)
                wrong += not options.write or new is None
        if options.write:
            page.write_text(text, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
