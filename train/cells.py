"""Tables of runs: one cell after another, each in a folder of its own, and none twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .run_folder import RunFolder


def run_cells(
    run: RunFolder,
    cells: Mapping[str, Any],
    make: Callable[[RunFolder, Any], Mapping[str, Any]],
    *,
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Make the cells that `run` does not have yet, and return the rows of all, in the order of `cells`.

    Args:
        run: its `cells.jsonl` receives a row for each finished cell, and its folder `cells` their run folders. A table
            that was interrupted goes on with the cell that it was at, from that cell's start.
        cells: name -> options; a name must serve as that of a folder.
        make: (run folder, options) -> the cell's figures, anything JSON can hold.

    Each row holds "cell", the figures and "seconds".
    """
    for number, (name, options) in enumerate(cells.items(), 1):
        if name in {row["cell"] for row in run.cells()}:
            say(f"{name}: made before")
            continue
        say(f"\n{name} ({number} of {len(cells)})")
        start = time.perf_counter()
        with RunFolder.create(run.cell_path(name), {"cell": name}, overwrite=True) as own:
            figures = make(own, options)
        run.add_cell({"cell": name, **figures, "seconds": round(time.perf_counter() - start, 1)})
    rows = {row["cell"]: row for row in run.cells()}
    return [rows[name] for name in cells]


def markdown_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Rows as a Markdown table with aligned columns.

    Args:
        rows: what to show; a missing value leaves its place empty.
        columns: key -> title, with a format after a colon: {"loss": "validation loss:.3f"}.
    """
    titles, formats = [], []
    for title in columns.values():
        name, _, format_ = title.partition(":")
        titles.append(name)
        formats.append(format_)
    body = [
        ["" if row.get(key) is None else format(row[key], form) for key, form in zip(columns, formats, strict=True)]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(titles, *body, strict=True)]
    numbers = [bool(form) for form in formats]
    lines = [titles, ["-" * (width - 1) + ":" if n else "-" * width for width, n in zip(widths, numbers, strict=True)]]
    return "\n".join(
        "| "
        + " | ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for cell, width, n in zip(line, widths, numbers, strict=True)
        )
        + " |"
        for line in [*lines, *body]
    )
