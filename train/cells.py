"""Tables of runs. Each cell is a run, which is trained after the others; finished cells are kept."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import write_text
from ..kinds import checked
from .distributed import ProcessGroup, find_process_group, run_of_group
from .runs.folder import SAVES, RunFolder, jsonable, read_metrics
from .runs.progress import TrainingStopped
from .runs.results import code_digest
from .runs.saves import SavedStates

Row = dict[str, Any]
FINISHED = "cells.jsonl"


def finish_cells(
    folder: Path,
    cells: Mapping[str, Any],
    make: Callable[[str, Any], Row | None],
    made: Mapping[str, Any],
    *,
    over: Callable[..., Any] = map,
    note: Callable[[str, Row | None], None] = lambda name, row: None,
    group: ProcessGroup | None = None,
) -> list[Row]:
    """Make the cells that `folder` does not have yet, and return the rows of all finished cells, in order.

    Args:
        folder: its `cells.jsonl` receives a row for each cell as soon as it is finished, so a second call makes only
            the missing cells.
        cells: the options of each cell, by its name.
        make: function of name and options that returns the cell's row as JSON values, or None if it failed.
        made: for each cell, JSON values that describe everything on which its row depends. A cell whose row was made
            with other values is made again.
        over: a function like `map`, which may call `make` in other processes.
        note: called in this process with each cell's name and row when it is finished.
        group: the processes that call this function together, of which the first writes; None for this one alone.

        Each row also contains the cell's name as "cell".
    """
    group = group or ProcessGroup()
    made = json.loads(json.dumps(made))
    rows = group.from_first(lambda: cell_rows(folder))
    known = {name for name, row in rows.items() if "begun" not in row and row.get("made") == made.get(name, "")}
    waiting = [name for name in cells if name not in known]

    def write() -> None:
        if group.first and waiting:
            write_text(folder / FINISHED, "".join(json.dumps(row) + "\n" for row in rows.values()))

    for name in cells:
        if name in known:
            print(f"{name}: made before")
    rows |= {name: {"cell": name, "begun": True, "made": made[name]} for name in waiting}
    write()
    for name, row in zip(waiting, over(make, waiting, [cells[name] for name in waiting]), strict=True):
        note(name, row)
        if row is not None:
            known.add(name)
            rows[name] = {"cell": name, **{key: jsonable(value) for key, value in row.items()}, "made": made[name]}
            write()
    return [{key: value for key, value in rows[name].items() if key != "made"} for name in cells if name in known]


def cell_rows(folder: Path) -> dict[str, Row]:
    """Return the rows of `finish_cells` in `folder`, by the cell's name. A row with "begun" has no figures yet."""
    file = folder / FINISHED
    return {row["cell"]: row for row in (read_metrics(file, "cell") if file.exists() else [])}


def run_cells(
    run: RunFolder, cells: Mapping[str, Any], make: Callable[[RunFolder, Any, bool], Mapping[str, Any]]
) -> list[Row]:
    """Finish the cells of a table that belongs to `run`; see `finish_cells`.

    A cell that was made with other options of the run, such as --steps, or with other code of handloom, is continued
    from its last save with the present ones, as the run itself is.

    The processes that mpirun started make each cell together, like the run's own model; the first one writes the rows.

    Args:
        run: its folder `cells` receives a run folder for each cell. An interrupted table resumes its unfinished cells
            from their last saves.
        cells: the options of each cell, by its name, which must be valid as the name of a folder.
        make: function of a run folder, options, and whether to resume the run in the folder. It returns the cell's
            figures; "seconds" are added for a cell that was not interrupted.

    Raises TrainingStopped as `make` does, with a message on how to resume the table.
    """
    group, numbers = find_process_group(), {name: number for number, name in enumerate(cells, 1)}

    def cell(name: str, options: Any) -> Row:
        print(f"\n{name} ({numbers[name]} of {len(cells)})")
        start, path = time.perf_counter(), run.cell_path(name)
        resume = group.from_first(lambda: bool(SavedStates(path / SAVES).steps()))

        with run_of_group(path, {"cell": name}, resume=resume, overwrite=True) as own:
            try:
                figures = make(own, options, resume)
            except TrainingStopped as stop:
                message = f"stopped at step {stop.step:,} of {name}, all saved. {run.continuation}"
                raise TrainingStopped(message, stop.step, stop.signal) from None
        return {**figures, "seconds": None if resume else round(time.perf_counter() - start, 1)}

    options = {name: value for name, value in run.config.get("options", {}).items() if name not in ("device", "table")}
    made = {"options": options, "code": code_digest()}
    return finish_cells(run.path, cells, cell, dict.fromkeys(cells, made), group=group)


@checked
def markdown_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Format rows as a Markdown table with aligned columns.

    Args:
        rows: the rows; a missing value leaves its cell empty.
        columns: the title of each key, with a format after a colon: {"loss": "validation loss:.3f"}; a column without
            any value is left out.
    """
    shown = []
    for key, title in columns.items():
        values = [row.get(key) for row in rows]
        if all(value is None for value in values):
            continue
        title, _, form = title.partition(":")
        cells = ["" if value is None else format(value, form) for value in values]
        width = max(2, *map(len, [title, *cells]))
        rule = "-" * (width - 1) + (":" if form else "-")
        shown.append([cell.rjust(width) if form else cell.ljust(width) for cell in (title, rule, *cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*shown, strict=True))
