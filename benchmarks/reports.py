"""List the experiments of docs/reports with their cost, or repeat them, beginning with the cheapest.

    python -m benchmarks.reports                  list: results file, minutes of one core, command
    python -m benchmarks.reports --run            run all in runs/reports; the same command resumes
    python -m benchmarks.reports --run news_cost  run some of them

The commands come from the results files. A command that needs the output of another command comes after that command.
If the cost is blank, it was not recorded. `make reports` runs all; `make -n reports` lists all.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import processor_time
from handloom.arguments import Parser
from handloom.train.cells import markdown_table
from handloom.train.runs.folder import SAVES
from handloom.train.runs.saves import SavedStates

RESULTS = Path(__file__).parent / "results" / "reports"
OUT = Path("runs") / "reports"
COLUMNS = {"cell": "results", "minutes": "minutes:.0f", "command": "command"}


def experiments() -> list[dict[str, Any]]:
    """Return a row for each command of each results file, sorted by cost; rows of unknown cost come last."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        command, minutes = found["command"], found.get("processor_minutes")
        for part, text in (command if isinstance(command, dict) else {"": command}).items():
            cost = minutes[part] if isinstance(minutes, dict) else minutes
            rows.append({"cell": f"{path.stem} {part}".strip(), "minutes": cost, "command": text})
    return sorted(rows, key=lambda row: (row["minutes"] is None, *_cost(row, rows), row["cell"]))


def folder_of(row: dict[str, Any]) -> Path:
    return OUT / row["cell"].replace(" ", "_").replace(",", "")


def _cost(row: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[float, int]:
    """Return the minutes of an experiment and all experiments that it needs, and the number of experiments."""
    words = shlex.split(row["command"].replace("=", " "))
    needed = [_cost(other, rows) for other in rows if other is not row and str(folder_of(other)) in words]
    return (row["minutes"] or 0) + sum(minutes for minutes, _ in needed), 1 + sum(number for _, number in needed)


def command_line(command: str, folder: Path) -> list[str]:
    """Return the command, changed so that its output is in `folder` and a stopped training is resumed."""
    words = [sys.executable, *shlex.split(command)[1:]]
    if words[1] == "-m":  # the command of a sweep contains its folder
        return words if "--out" in words else [*words, "--json", str(folder / "results.json")]
    if SavedStates(folder / SAVES).steps():
        return [*words[:2], "--resume", str(folder)]
    return [*words, "--out", str(folder), *(["--overwrite"] if folder.exists() else [])]


def main() -> int:
    parser = Parser(prog="python -m benchmarks.reports", description=__doc__)
    parser.add_argument("--run", nargs="*", metavar="NAME", help="run these experiments, or all if none is named")
    options = parser.parse_args()
    rows = experiments()
    if unknown := sorted({*(options.run or [])} - {row["cell"] for row in rows}):
        parser.error(f"unknown: {', '.join(unknown)}. Without options, the program lists the names.")
    print(markdown_table(rows, COLUMNS))
    chosen = [row for row in rows if not options.run or row["cell"] in options.run]
    waiting = [row for row in chosen if not (folder_of(row) / "results.json").exists()]
    hours = sum(row["minutes"] or 0 for row in waiting) / 60
    print(f"\n{len(rows)} experiments; {len(waiting)} to run, in about {hours:.1f} hours of one core", flush=True)
    failed = []
    for row in waiting if options.run is not None else []:
        print(f"\n{row['cell']}: {row['command']}", flush=True)
        before = processor_time()
        status = subprocess.call(command_line(row["command"], folder_of(row)))
        print(f"{row['cell']}: {(processor_time() - before) / 60:.1f} minutes of one core", flush=True)
        failed += [row["cell"]] if status else []
    print(*[f"failed: {name}" for name in failed], sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
