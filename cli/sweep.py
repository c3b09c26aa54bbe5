"""Train over a grid of options, sequentially or in parallel over MPI, and compare the runs in a table and a picture.

handloom sweep --out sweeps/a --grid seed=0,1 --grid set.dropout=0,0.1,0.3 -- translate_de_en --preset laptop
mpirun -n 5 handloom sweep ...                    four cells at a time; the fifth process distributes them

--change NAME=VALUE,... changes one option at a time, to find out which of many changes helps. The table is also
written as results.json.

Each combination is a cell: the script with `--seed 0 --set dropout=0.1 --out sweeps/a/CELL` added. A sweep
that is started again skips finished cells and resumes the others.
"""

import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ..arguments import OptionError, path
from ..errors import InputError
from ..files import folder_lock, make_folder, write_text
from ..train.cells import finish_cells, markdown_table
from ..train.distributed import find_process_group
from ..train.runs.folder import RunFolder
from ..train.runs.plots import plot_lines
from ..train.runs.results import write_results
from ..train.runs.saves import SavedStates
from .command_line import run_main
from .options import OptionParser
from .report import compare, summary

#: The folder of the programs of `handloom train`.
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def grid_cells(grids: Sequence[str], changes: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Return all combinations of NAME=VALUE,VALUE,...: the options of each cell, by its name.

    With changes, which have the same form, the cells are each combination without a change and with each single change.

    Raises InputError for a grid that is not of this form, or names an option twice.
    """
    axes: dict[str, list[str]] = {}
    for grid in (*grids, *changes):
        name, equals, values = grid.partition("=")
        if not name or not equals or not all(values.split(",")) or name in axes:
            raise InputError(f"--grid {grid}: write NAME=VALUE,VALUE,... with every option once, such as seed=0,1,2.")
        axes[name] = values.split(",")
    names = list(axes)[: len(grids)]
    bases = [dict(zip(names, values, strict=True)) for values in itertools.product(*(axes[name] for name in names))]
    single: list[dict[str, str]] = [{}, *({name: value} for name in list(axes)[len(grids) :] for value in axes[name])]
    cells = [base | change for base in bases for change in single]
    return {",".join(f"{name}={value}".replace("/", "_") for name, value in cell.items()): cell for cell in cells}


def cell_command(script: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
    """Return the command that starts a cell, or resumes one that has a save."""
    if SavedStates(folder / "checkpoints").steps():
        return [sys.executable, script[0], "--resume", str(folder)]
    given: list[str] = []
    for name, value in options.items():
        given += ["--set", f"{name[4:]}={value}"] if name.startswith("set.") else [f"--{name}", value]
    return [sys.executable, *script, *given, "--out", str(folder), "--overwrite"]


def run_cell(script: Sequence[str], out: Path, name: str, options: Mapping[str, str]) -> dict[str, Any] | None:
    """Run a cell in a process that logs to NAME.log. Return its options and best value, or None if it failed."""
    # The cell runs as a single process, even if mpirun started this one.
    launcher = ("PMI", "OMPI", "MPI_", "MV2")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(launcher)}
    start, folder = time.perf_counter(), out / name
    with open(f"{folder}.log", "a", encoding="utf-8") as log:
        command = cell_command(script, folder, options)
        done = subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
    if done.returncode:
        return None
    return {**options, **summary(RunFolder.open(folder)), "seconds": round(time.perf_counter() - start, 1)}


def run_sweep(out: Path, cells: Mapping[str, Mapping[str, str]], script: Sequence[str]) -> tuple[list[dict], list[str]]:
    """Run the cells that are not yet finished in `out`; see `finish_cells`.

    Returns the rows of all finished cells, best first, and the names of failed cells. Of several processes, all except
    the first return empty lists.
    """
    with _executor() as executor:
        if executor is None:
            return [], []
        rows = finish_cells(out, cells, partial(run_cell, list(script), out), over=executor, note=_note)
    failed = cells.keys() - {row["cell"] for row in rows}
    return sorted(rows, key=lambda row: row["valid_loss"]), [name for name in cells if name in failed]


def _note(name: str, row: Mapping[str, Any] | None) -> None:
    print(f"{name}: failed" if row is None else f"{name}: loss {row['valid_loss']:.4f}", flush=True)


@contextmanager
def _executor() -> Iterator[Any]:
    """Yield a function like `map` that uses the other processes of mpirun; yield None in those processes."""
    if find_process_group().size == 1:
        yield map
        return
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    workers: Any = MPICommExecutor(MPI.COMM_WORLD, root=0)
    with workers as pool:
        yield None if pool is None else pool.map


def write_table(out: Path, rows: Sequence[Mapping[str, Any]], options: Sequence[str]) -> str:
    """Write table.md, results.json and comparison.png of the finished cells, and return the table."""
    columns = {name: name for name in options}
    columns |= {"valid_loss": "best validation loss:.4f", "best_step": "at step:,"}
    columns |= {"valid_accuracy": "accuracy there:.4f", "seconds": "seconds:.0f"}
    table = markdown_table(rows, columns)
    write_text(out / "table.md", table + "\n")
    write_results(out / "results.json", {"command": shlex.join(["python", *sys.orig_argv[1:]])}, {"cells": rows})
    lines = compare([out / row["cell"] for row in rows])[1]
    plot_lines(lines, out / "comparison.png", x_label="step (updates)", y_label="validation loss (nats)")
    return table


class _Parser(OptionParser):
    def refusal(self, message: str) -> OptionError:
        if message.startswith("unrecognized") and "--" not in sys.argv:
            message += " (put -- before the script, and the script's options after it)"
        return super().refusal(message)


def main() -> None:
    parser = _Parser(
        prog="handloom sweep",
        description=__doc__,
        usage="handloom sweep --out FOLDER --grid NAME=VALUE,... [--grid ...] -- SCRIPT [OPTION ...]",
    )
    parser.add_argument("--out", type=path, required=True, help="folder for the cells, table.md and comparison.png")
    grid = "an option and its values, separated by commas; set.X means --set X; repeat --grid for more options"
    parser.add_argument("--grid", action="append", required=True, metavar="NAME=VALUE,...", help=grid)
    single = "change one option at a time: one cell for each value, and one cell without a change; can be repeated"
    parser.add_argument("--change", action="append", default=[], metavar="NAME=VALUE,...", help=single)
    words = "script, or program of `handloom train`, followed by the options that all cells share"
    parser.add_argument("script", nargs="+", help=words)
    arguments = parser.parse_args()
    cells = grid_cells(arguments.grid, arguments.change)
    name, *options = arguments.script
    script = next((file for file in (Path(name), EXAMPLES / f"{name}.py") if file.is_file()), None)
    if script is None:
        raise InputError(f"The script {name} does not exist. Put -- before it, its options last.")
    with folder_lock(make_folder(arguments.out)) if find_process_group().first else nullcontext():
        rows, failed = run_sweep(arguments.out, cells, [str(script), *options])
        if rows:
            varied = list(dict.fromkeys(name for cell in cells.values() for name in cell))
            print(f"\n{write_table(arguments.out, rows, varied)}")
            print(f"\n{arguments.out} holds table.md and comparison.png")
    if failed:
        counts = f"{len(failed)} of {len(cells)} cells failed: {', '.join(failed)}"
        raise InputError(f"{counts}. {arguments.out}/CELL.log says why. Mend it, and start the sweep again.")


if __name__ == "__main__":
    run_main(main, several_processes=True)
