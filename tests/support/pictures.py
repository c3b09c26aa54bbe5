"""Replacements for drawing functions, for runs whose pictures no test needs."""

from pathlib import Path
from typing import Any

from handloom.files import atomic_file


def plot_nothing(metrics: Any, out_png: str | Path, **options: Any) -> None:
    """Replace `plot_losses`: write the file in the same way, but draw nothing."""
    save_nothing(None, out_png)


def save_nothing(figure: Any, out_png: str | Path) -> None:
    """Replace `plots._save`: the figure is composed, but not drawn."""
    with atomic_file(out_png) as file:
        file.write(b"no picture")
