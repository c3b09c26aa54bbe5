"""Tables of runs. Each cell is a run, which is trained after the others; finished cells are kept."""

import inspect
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import short
from ..files import make_folder, write_text
from ..kinds import checked
from .callbacks import History
from .distributed import ProcessGroup, find_process_group, run_of_group
from .runs.folder import SAVES, RunFolder, jsonable, read_metrics
from .runs.progress import TrainingStopped
from .runs.results import code_digest
from .runs.saves import SavedStates

Row = dict[str, Any]
FINISHED = "cells.jsonl"


@checked
def grid(
    values: Mapping[str, Sequence[Any]], changes: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the options of each combination of `values`, by its name: {"lr": [1e-3, 1e-4], "seed": [0, 1]} gives four.
    Raises TypeError for values that are no list.

    With `changes`, which have the same form, the cells are each combination without a change and with each single one.
    """
    for name, each in [*values.items(), *(changes or {}).items()]:
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise TypeError(f"grid: the values of {name} are {short(each)}, but they must be a list")
    bases = [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]
    single = [{}, *({name: value} for name, each in (changes or {}).items() for value in each)]
    escapes = {ord(letter): f"%{ord(letter):02X}" for letter in "%/\\,"}  # each value has a folder of its own
    cells = [base | change for base in bases for change in single]
    return {",".join(f"{name}={str(value).translate(escapes)}" for name, value in cell.items()): cell for cell in cells}


def _show(name: str, row: Row | None) -> None:
    numbers = {} if row is None else {key: value for key, value in row.items() if isinstance(value, int | float)}
    print(f"{name}: {', '.join(f'{key} {value:.4g}' for key, value in numbers.items()) or 'failed'}", flush=True)


@checked
def compare(
    make: Callable[..., Any],
    cells: Mapping[str, Mapping[str, Any]],
    out: str | Path | None = None,
    *,
    made: Mapping[str, Any] | None = None,
    over: Callable[..., Any] = map,
    note: Callable[[str, Row | None], None] = _show,
) -> list[Row]:
    """Train a model for each cell of a table, and return a row of figures for each cell, in order.

    Args:
        make: function of a cell's options, as keywords, that trains a model and returns its figures: a dict, a History,
            or a fitted estimator. None leaves the cell out. If the function has the parameters `out` or `resume`, they
            are the folder of the cell, and whether it has a save from which the training can be resumed.
        cells: the options of each cell, by its name; `grid` returns all combinations.
        out: a folder whose cells.jsonl keeps the rows: a second call makes only the cells that are missing, or whose
            options, function or version of handloom have changed.
        made: for each cell, JSON values on which its row depends, instead of these.
        over: a function like `map`, which may call `make` in other processes.
        note: called with each cell's name and row when it is finished; prints the row by default.

    Each row also has "cell" and "seconds". Raises TypeError if `make` returns something else.
    """
    if made is None:
        code = [code_digest()]
        with suppress(OSError, TypeError):
            code.append(inspect.getsource(make))
        made = {name: {"options": repr(dict(options)), "code": code} for name, options in cells.items()}
    folder = None if out is None else make_folder(out)
    return finish_cells(folder, cells, partial(_make_cell, make, folder), made, over=over, note=note)


def _make_cell(make: Callable[..., Any], folder: Path | None, name: str, options: Mapping[str, Any]) -> Row | None:
    own = None if folder is None else folder / name
    places = {"out": own, "resume": own is not None and bool(SavedStates(own / SAVES).steps())}
    wanted = {key: value for key, value in places.items() if key in inspect.signature(make).parameters}
    start = time.perf_counter()
    found = make(**wanted, **options)
    history = getattr(found, "history", found)
    if isinstance(history, History):
        losses = [row["loss"] for row in history.rows if row.get("loss") is not None]
        found = {"loss": losses[-1] if losses else None, "best": history.best, "best_step": history.best_step}
    if not isinstance(found, Mapping | None):
        kind = type(found).__name__
        raise TypeError(f"compare: make returned {kind}, but it must return a dict, a History or a fitted estimator")
    return None if found is None else {**found, "seconds": round(time.perf_counter() - start, 1)}


def finish_cells(
    folder: Path | None,
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
            the missing cells. None: nothing is kept.
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
    rows: dict[str, Row] = group.from_first(lambda: {} if folder is None else cell_rows(folder))
    known = {name for name, row in rows.items() if "begun" not in row and row.get("made") == made.get(name, "")}
    waiting = [name for name in cells if name not in known]

    def write() -> None:
        if group.first and waiting and folder is not None:
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
