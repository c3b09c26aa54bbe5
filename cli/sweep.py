"""Train over a grid of options, sequentially or in parallel over MPI, and compare the runs in a table and a picture.

handloom sweep --out sweeps/a --grid seed=0,1 --grid set.dropout=0,0.1,0.3 -- translate_de_en --preset laptop
mpirun -n 5 handloom sweep ...                    four cells at a time; the fifth process distributes them

--change NAME=VALUE,... changes one option at a time, to find out which of many changes helps. The table is also
written as results.json. A value with a comma is quoted: --grid 'set.betas="0.9,0.98","0.8,0.9"'

Each combination is a cell: the script with `--seed 0 --set dropout=0.1 --out sweeps/a/CELL` added. A sweep
that is started again skips finished cells and resumes the others. It is refused if options, files, the
script or handloom have changed since a cell was made; with --overwrite such cells are made again.
"""

import csv
import ctypes
import glob
import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from ..arguments import OptionError, path
from ..errors import InputError
from ..files import folder_lock, make_folder, write_text
from ..train.cells import cell_rows, compare, grid, markdown_table
from ..train.distributed import find_process_group
from ..train.runs.folder import CONFIG, SAVES, RunFolder
from ..train.runs.plots import plot_lines
from ..train.runs.results import code_digest, write_results
from ..train.runs.saves import SavedStates
from .command_line import run_main
from .options import OptionParser
from .report import compared, summary

#: The folder of the programs of `handloom train`.
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def grid_cells(grids: Sequence[str], changes: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Return the cells of `train.grid` for texts of the form NAME=VALUE,VALUE,...

    Raises InputError for a grid that is not of this form, or names an option twice.
    """
    axes: dict[str, list[str]] = {}
    for given in (*grids, *changes):
        name, equals, text = given.partition("=")
        values = next(csv.reader([text]), [])
        if not name or not equals or not all([*values, values]) or name in axes or len({*values}) < len(values):
            cure = "write NAME=VALUE,VALUE,... with every option once and every value once, such as seed=0,1,2"
            raise InputError(f"--grid {given}: {cure}.")
        axes[name] = values
    return grid(dict(list(axes.items())[: len(grids)]), dict(list(axes.items())[len(grids) :]))


def cell_inputs(script: Sequence[str], cells: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return what each cell's row depends on: its options, and digests of handloom, the script, the modules next to the
    script, and the files that the options name. Of a folder, the names, sizes and times of its files count.
    """
    imports = ModuleFinder([str(Path(script[0]).parent)])
    with suppress(SyntaxError):
        imports.run_script(script[0])
    modules = [Path(file) for module in imports.modules.values() if (file := getattr(module, "__file__", None))]

    def of(words: Sequence[str]) -> dict[str, str]:
        parts = [part for word in words for value in (word, word.partition("=")[2]) for part in value.split("+")]
        named = [Path(part) for part in (*parts, os.environ.get("HANDLOOM_DATA", "")) if part.strip("./")]
        beside = [file for part in named for file in part.parent.glob(f"{glob.escape(part.name)}.*")]  # such as PATH.de
        files = {str(path): _digest(path) for path in (*named, *beside, *modules) if path.exists()}
        return {**files, "options": shlex.join(words), "handloom": code_digest()}

    return {name: of([*script[1:], *_given(options)]) for name, options in cells.items()}


@cache
def _digest(path: Path) -> str:
    if path.is_file():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    found = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(path))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def changed_cells(out: Path, inputs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the cells in `out`, finished or interrupted, that were made with other inputs; each with a description."""
    found = {}
    for name, row in cell_rows(out).items():
        now, before = inputs.get(name, {}), row.get("made") or {}
        if other := [key for key in sorted({*before, *now}) if now and before.get(key) != now.get(key)]:
            options = f"`{before.get('options')}`, not `{now['options']}`"
            found[name] = options if "options" in other else f"another content of {', '.join(other)}"
            if "begun" in row and not _saved(out / name):
                del found[name]
    return found


def _saved(folder: Path) -> bool:
    return bool(SavedStates(folder / SAVES).steps())


def _given(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from ("--set", f"{name[4:]}={value}") if name.startswith("set.") else (f"--{name}={value}",)


def cell_command(script: Sequence[str], folder: Path, options: Mapping[str, str], *, anew: bool = False) -> list[str]:
    """Return the command that starts a cell, or resumes one that has a save, unless it is to be made `anew`."""
    if _saved(folder) and not anew:
        return [sys.executable, script[0], "--resume", str(folder)]
    return [sys.executable, *script, *_given(options), "--out", str(folder), "--overwrite"]


def run_cell(script: Sequence[str], anew: Container[str], out: Path, **options: str) -> dict[str, Any] | None:
    """Run the cell `out` in a process that logs to OUT.log. Return its options and the values of its model, or None if
    it failed or made no validation.
    """
    # The cell runs as a single process, even if mpirun started this one.
    launcher = ("PMI", "OMPI", "MPI_", "MV2")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(launcher)}
    command = cell_command(script, out, options, anew=out.name in anew)
    # On Linux, the cell saves and ends if this process is killed.
    ends: Any = partial(ctypes.CDLL(None).prctl, 1, signal.SIGTERM) if sys.platform == "linux" else None
    with open(f"{out}.log", "a", encoding="utf-8") as log:
        streams: Any = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, **streams, env=environment, preexec_fn=ends)
    if done.returncode or not (out / CONFIG).exists():  # such as --help
        return None
    found = summary(RunFolder.open(out))
    return {**options, **found} if "valid_loss" in found else None


def run_sweep(
    out: Path, cells: Mapping[str, Mapping[str, str]], script: Sequence[str], *, overwrite: bool = False
) -> tuple[list[dict], list[str]]:
    """Run the cells that are not yet finished in `out`; see `train.compare`.

    Returns the rows of all finished cells, best first, and the names of failed cells. Of several processes, all except
    the first return empty lists. Raises InputError, without `overwrite`, for cells that were made with other inputs,
    and for a cell that another process still trains.
    """
    with _executor() as executor:
        if executor is None:
            return [], []
        made = cell_inputs(script, cells)
        changed = changed_cells(out, made)
        for name, why in changed.items() if not overwrite else ():
            cure = "Choose a new --out, or make such cells again with --overwrite, which renames their runs"
            raise InputError(f"{out} holds the cell {name}, which was made with {why}. {cure}.")
        for name in cells:
            with folder_lock(out / name) if (out / name).is_dir() else nullcontext():
                pass
        make = partial(run_cell, list(script), frozenset(changed))
        rows = compare(make, cells, out, made=made, over=executor, note=_note)
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
    columns |= {"valid_loss": "validation loss:.4f", "valid_accuracy": "accuracy:.4f", "best_step": "at step:,"}
    columns |= {"seconds": "seconds:.0f"}
    table = markdown_table(rows, columns)
    write_text(out / "table.md", table + "\n")
    write_results(out / "results.json", {"command": shlex.join(["python", *sys.orig_argv[1:]])}, {"cells": rows})
    lines = compared([out / row["cell"] for row in rows])[1]
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
    values = "an option and its values, separated by commas; set.X means --set X; repeat --grid for more options"
    parser.add_argument("--grid", action="append", required=True, metavar="NAME=VALUE,...", help=values)
    single = "change one option at a time: one cell for each value, and one cell without a change; can be repeated"
    parser.add_argument("--change", action="append", default=[], metavar="NAME=VALUE,...", help=single)
    words = "make cells again that were made with other options, files or code; their runs are renamed to CELL.old-1"
    parser.add_argument("--overwrite", action="store_true", help=words)
    words = "script, or program of `handloom train`, followed by the options that all cells share"
    parser.add_argument("script", nargs="+", help=words)
    arguments = parser.parse_args()
    cells = grid_cells(arguments.grid, arguments.change)
    name, *options = arguments.script
    script = next((file for file in (Path(name), EXAMPLES / f"{name}.py") if file.is_file()), None)
    if script is None:
        raise InputError(f"The script {name} does not exist. Put -- before it, its options last.")
    with folder_lock(make_folder(arguments.out)) if find_process_group().first else nullcontext():
        rows, failed = run_sweep(arguments.out, cells, [str(script), *options], overwrite=arguments.overwrite)
        if rows:
            varied = list(dict.fromkeys(name for cell in cells.values() for name in cell))
            print(f"\n{write_table(arguments.out, rows, varied)}")
            print(f"\n{arguments.out} holds table.md and comparison.png")
    if failed:
        counts = f"{len(failed)} of {len(cells)} cells failed or made no validation: {', '.join(map(repr, failed))}"
        raise InputError(f"{counts}. {arguments.out}/CELL.log says why. Mend it, and start the sweep again.")


if __name__ == "__main__":
    run_main(main, several_processes=True)
