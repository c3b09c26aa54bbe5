"""Replacements for drawing, for runs whose pictures no test looks at."""

from pathlib import Path
from typing import Any

from handloom.files import atomic_file


def plot_nothing(metrics: Any, out_png: str | Path, **options: Any) -> None:
    """Replaces `plot_losses`: the file is written in the same way, but nothing is drawn."""
    save_nothing(None, out_png)


def save_nothing(figure: Any, out_png: str | Path) -> None:
    """Replaces `plots._save`: the figure is composed, but not drawn."""
    with atomic_file(out_png) as file:
        file.write(b"no picture")
