"""Replacements for drawing functions, for runs whose pictures no test needs."""

from pathlib import Path
from typing import Any

from handloom.files import atomic_file
from handloom.train.runs.plots import plot_losses


def plot_nothing(metrics: Any, out_png: str | Path | None = None, **options: Any) -> Any:
    """Replace `plot_losses`: write a file in the same way, but draw nothing into it."""
    return plot_losses(metrics, **options) if out_png is None else save_nothing(None, out_png)


def save_nothing(figure: Any, out_png: str | Path | None) -> Any:
    """Replace `plots._saved`: the figure is composed, but not drawn."""
    if out_png is not None:
        with atomic_file(out_png) as file:
            file.write(b"no picture")
    return figure
