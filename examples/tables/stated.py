"""What the tables share: the figures that the reports state, ablations, and writing tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import read_json
from ...train.cells import markdown_table
from ...train.runs.folder import RunFolder
from ...train.tasks.task import Task

#: Rows, and the columns of `markdown_table` that show them.
Table = tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]
#: The figures that the reports state, by table.
STATED = read_json(Path(__file__).with_name("reports.json"))
#: The field of the preset for each ablation, and its values in the table.
ABLATIONS = {"heads": ("nhead", (1, 4, 8, 16)), "layers": ("layers", (1, 2, 4, 6))}


def write_tables(run: RunFolder, tables: Mapping[str, Table]) -> str:
    """Write the run's tables with all their rows, and return them as Markdown, one below the other."""
    text = "\n\n".join(markdown_table(*table) for table in tables.values())
    run.write_table(text, **{name: rows for name, (rows, _) in tables.items()})
    return text


def ablation_cells(name: str, task: Task[Any, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the task's own cell, and the tasks of the other cells by their names.

    Numbers of heads must divide d_model. For other tables, such as "attention", the name is "" and there are no cells.
    """
    if name not in ABLATIONS:
        return "", {}
    field, values = ABLATIONS[name]
    own, width = getattr(task.preset, field), task.preset.d_model
    others = [n for n in values if n != own and (field != "nhead" or width % n == 0)]
    return numbered(own, name[:-1]), {numbered(n, name[:-1]): task.with_preset(**{field: n}) for n in others}


def numbered(count: float, thing: str) -> str:
    """Write a number with its noun: 1 head, 2 heads."""
    return f"{count} {thing}{'s' if count > 1 else ''}"
