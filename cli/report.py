"""Compare runs in one picture and one table: handloom report RUN..."""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_text
from ..train.cells import markdown_table
from ..train.runs.checkpoints import read_config
from ..train.runs.folder import RunFolder, read_metrics
from ..train.runs.plots import AVERAGED, line_of, plot_lines
from .command_line import run_main
from .options import OptionParser

_COLUMNS = {
    "steps": "updates:,",
    "loss": "training loss:.4f",
    "valid_loss": "validation loss:.4f",
    "valid_accuracy": "accuracy:.4f",
    "best_step": "at step:,",
    "speed": "tokens/s:,.0f",
}


def summary(run: RunFolder) -> dict[str, Any]:
    """Summarise the log of a run: the number of updates, the last training loss, the validation of the saved model
    (loss, accuracy, step), or else that with the lowest loss, and median tokens/s.
    """
    rows = run.metrics()
    trained = [row for row in rows if row.get("loss") is not None]
    found: dict[str, Any] = {"steps": max((row["step"] for row in rows), default=0)}
    if trained:
        found["loss"] = trained[-1]["loss"]
    valid = [row for row in rows if row.get("valid_loss") is not None]
    if valid and run.model_path.exists():
        saved = read_config(run.path)
        valid = [row for row in valid if row["step"] == saved.get("step")] or valid
        valid = [row for row in valid if row.get("averaged", 0) == saved.get("averaged", 0)] or valid
    if valid:
        best = min(valid, key=lambda row: row["valid_loss"])
        found |= {"valid_loss": best["valid_loss"], "best_step": best["step"]}
        found["valid_accuracy"] = best.get("valid_accuracy")
    timings = read_metrics(run.timings_path) if run.timings_path.exists() else []
    speeds = [row["tokens_per_second"] for row in timings if row.get("tokens_per_second")]
    if speeds:
        found["speed"] = statistics.median(speeds)
    return found


def compared(folders: Sequence[str | Path]) -> tuple[str, dict[str, tuple[list[float], list[float]]]]:
    """Return a Markdown table with a row for each run, and plot the validation losses of the runs over the steps.

    A run whose weights were averaged at the end has a second entry for the average. Each option that all runs have and
    in which they differ has a column, and so have their data and handloom's code if these differ.
    """
    opened = [RunFolder.open(folder) for folder in folders]
    runs = [run for run in opened if run.metrics()]
    for run in opened if runs else []:
        if run not in runs:
            print(f"note: {run.path} has logged nothing yet, so it is left out", file=sys.stderr)
    if not runs:
        raise InputError("No run has logged anything yet, so there is nothing to compare. Wait for the first rows.")
    names = [run.path.name or str(run.path) for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in runs]
    digests = [{name: str(run.config.get(name, ""))[:8] for name in ("data_sha256", "code")} for run in runs]
    options = [run.config.get("options", {}) | own for run, own in zip(runs, digests, strict=True)]
    differing = sorted(  # options that all of the runs have
        name for name in set(options[0]).intersection(*options[1:]) if len({str(own[name]) for own in options}) > 1
    )
    rows, lines = [], dict[str, tuple[list[float], list[float]]]()
    for name, run, own in zip(names, runs, options, strict=True):
        given = {f"option {option}": str(own.get(option, "")) for option in differing}
        rows.append({"run": name, **given, **summary(run)})
        for ending in ("", AVERAGED):
            line = line_of([row for row in run.metrics() if bool(row.get("averaged")) == bool(ending)], "valid_loss")
            lines |= {f"{name}{ending}": line} if line[0] or not ending else {}
    columns = {"run": "run", **{f"option {option}": option for option in differing}, **_COLUMNS}
    return markdown_table(rows, columns), lines


def main() -> None:
    parser = OptionParser(prog="handloom report", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of finished or unfinished runs")
    words = "file to write the picture to (default: comparison.png)"
    parser.add_argument("--picture", default="comparison.png", help=words)
    parser.add_argument("--table", help="also write the table to this file, in Markdown")
    arguments = parser.parse_args()
    table, lines = compared(arguments.runs)
    print(table)
    if arguments.table:
        write_text(arguments.table, table + "\n")
    if any(line[0] for line in lines.values()):
        plot_lines(lines, arguments.picture, x_label="step (updates)", y_label="validation loss (nats)")
        print(f"\n{arguments.picture} holds the validation losses")
    else:
        print("\nno run has validated yet: there is no picture")


if __name__ == "__main__":
    run_main(main)
