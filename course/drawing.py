"""Shared code of the chapters' pictures: colours, panels and arrows, without a display or global state.

python -m handloom.course.draw 1        redraws the pictures of chapter 1 in chapters/images
"""

from pathlib import Path
from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, RED, GREY, PALE = "#2f6db3", "#e07b2a", "#3a8f5a", "#c0392b", "#6b7280", "#e5e7eb"
DARK = "#111827"  # of texts
WIDTH = 7.2  # width of every picture in inches
DPI = 110


def new_figure(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """Return a figure of width WIDTH and of height `height`, in inches, and its axes; see `Figure.subplots`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def new_diagram(height: float, right: float, top: float) -> tuple[Any, Any]:
    """Return a figure, and axes for boxes and arrows: x from 0 to `right`, y from 0 to `top`, and nothing else."""
    figure, axes = new_figure(height)
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.axis("off")
    return figure, axes


def plain(axes: Any, title: str = "", x: str = "", y: str = "") -> Any:
    """Return `axes` with a light grid, a small font, the labels `x` and `y`, and only the left and bottom spines."""
    label(axes, title, x, y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=GREY)
    return axes


def label(axes: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Write a title at the left, and the labels `x` and `y`."""
    axes.set_title(title, fontsize=10, loc="left", color=DARK)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)


def centred(axes: Any, x: float, y: float, text: str, fontsize: float = 9, color: str = DARK, **options: Any) -> None:
    """Write a text around the point (x, y)."""
    axes.text(x, y, text, ha="center", va="center", fontsize=fontsize, color=color, **options)


def rectangle(axes: Any, x: float, y: float, width: float, height: float, **style: Any) -> None:
    """Draw a rectangle with the corner (x, y)."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), width, height, **style))


def rounded(axes: Any, x: float, y: float, width: float, height: float, radius: float, **style: Any) -> None:
    """Draw a box with round corners; (x, y) is its lower left corner."""
    from matplotlib.patches import FancyBboxPatch

    boxstyle = f"round,pad=0,rounding_size={radius}"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=boxstyle, **style))


def box(
    axes: Any, x: float, y: float, text: str, *, width: float = 1.2, height: float = 0.6, colour: str = BLUE
) -> None:
    """Draw a rounded box with a text around the point (x, y); a line break in the text begins a new line."""
    style = {"facecolor": "white", "edgecolor": colour, "linewidth": 1.4}
    rounded(axes, x - width / 2, y - height / 2, width, height, 0.08, **style)
    centred(axes, x, y, text)


def arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], text: str = "", colour: str = GREY, bend: float = 0
) -> None:
    """Draw an arrow from one point to another, with a text next to its middle."""
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3, "connectionstyle": f"arc3,rad={bend}"}
    axes.annotate("", end, start, arrowprops=style)
    if text:
        note(axes, text, np.add(start, end) / 2, (0, 7), colour, ha="center")


def note(
    axes: Any, text: str, point: Any, shift: tuple[float, float] = (0, 0), colour: str = ORANGE, **options: Any
) -> None:
    """Write a text next to a point, moved by `shift`, in printer's points."""
    options = {"fontsize": 8.5, "color": colour, **options}
    axes.annotate(text, point, xytext=shift, textcoords="offset points", **options)


def cells(axes: Any, x: float, y: float, texts: Any, colours: Any, size: float, fontsize: float = 9) -> None:
    """Draw a table of texts in coloured square cells. (x, y) is the upper left corner of the table."""
    for (i, j), text in np.ndenumerate(np.asarray(texts)):
        left, top = x + j * size, y - (i + 1) * size
        rectangle(axes, left, top, size, size, facecolor=colours[i][j], edgecolor=GREY, linewidth=0.9)
        centred(axes, left + size / 2, top + size / 2, text, fontsize)


def heat(
    axes: Any, array: Any, *, rows: Any, columns: Any, title: str = "", numbers: str = "{:.2f}", top: Any = None,
    x: str = "", y: str = "",
) -> None:  # fmt: skip
    """Draw a matrix in shades of blue with its numbers. NaN is hatched. The number `top` has the darkest blue."""
    array = np.asarray(array, dtype=float)
    shown = np.ma.masked_invalid(array)
    top = float(shown.max()) if top is None else top
    axes.imshow(shown, cmap="Blues", vmin=0 if shown.min() >= 0 else None, vmax=top * 1.15 or 1)
    for (i, j), value in np.ndenumerate(array):
        if np.isnan(value):
            hatched = {"facecolor": "#f3f4f6", "edgecolor": "#cbd5e1", "hatch": "///", "linewidth": 0}
            rectangle(axes, j - 0.5, i - 0.5, 1, 1, **hatched)
        elif numbers:
            centred(axes, j, i, numbers.format(value), 8, "white" if value > 0.6 * top else DARK)
    named(axes, rows, columns)
    label(axes, title, x, y)


def named(axes: Any, rows: Any, columns: Any, fontsize: float = 8.5) -> None:
    """Write the names of an image's rows and columns next to it, without ticks and frame."""
    axes.set_xticks(range(len(columns)), columns, fontsize=fontsize)
    axes.set_yticks(range(len(rows)), rows, fontsize=fontsize)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def save(figure: Any, path: Path) -> None:
    """Write the figure as a PNG file without metadata, so that equal figures give equal files."""
    figure.savefig(path, format="png", metadata={"Software": None})
