"""Pictures of a run: losses over the steps, and attention weights.

Each function returns a matplotlib figure, which a notebook shows. With a path, it also writes a PNG file, atomically.

matplotlib is used through its object-oriented interface on the Agg canvas. No display is needed, and the global state
of pyplot, which a user's own script may use, is not changed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import printable
from ...files import atomic_file
from ...kinds import checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAIN_COLOUR, VALID_COLOUR, RATE_COLOUR, GRID_COLOUR = "#4477aa", "#cc3311", "#228833", "#dddddd"
LINE_STYLES = ("-", "--", ":", "-.")
LINE_COLOURS = ("#4477aa", "#cc3311", "#228833", "#ee7733", "#aa3377", "#33bbee", "#777777")

#: The end of the name of a line of `plot_lines` that has the colour of the line without it.
AVERAGED = ", averaged weights"
MOST_NAMES = 60  # along one side of a grid; a larger grid names some of its rows and columns


def line_of(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return the steps and values of the rows whose value under this key is finite."""
    points = [(row["step"], row[key]) for row in rows if "step" in row and row.get(key) is not None]
    points = [(step, value) for step, value in points if math.isfinite(value)]
    return [step for step, _ in points], [value for _, value in points]


@checked
def plot_losses(
    rows: Sequence[Mapping[str, Any]],
    out_png: str | Path | None = None,
    *,
    training_label: str = "training",
    unit: str = "token",
) -> Figure:
    """Draw training and validation loss over the steps, and below them accuracy and learning rate if they were logged.

    Args:
        rows: rows of metrics.jsonl, with "step" and any of "loss", "valid_loss" (nats per token), "accuracy",
            "valid_accuracy" and "learning_rate". A row without one of these numbers, or with null, is left out of the
            line for this number. A row with "averaged" has averaged weights and is a separate point.
        training_label: legend of the training loss; it should say if the loss is regularised and therefore higher.
        unit: the unit over which the loss, in nats, is a mean; empty for another loss.

    Raises InputError if the picture can't be written, and ValueError if no row has a loss.
    """
    averaged = line_of([row for row in rows if row.get("averaged")], "valid_loss")
    rows = [row for row in rows if not row.get("averaged")]
    train, valid, rate = (line_of(rows, key) for key in ("loss", "valid_loss", "learning_rate"))
    accuracies = line_of(rows, "accuracy"), line_of(rows, "valid_accuracy")
    if not train[0] and not valid[0]:
        raise ValueError("no row of the metrics has a step and a loss")
    below = [name for name, there in (("accuracy", any(a[0] for a in accuracies)), ("rate", rate[0])) if there]
    figure = _new_figure(8.0, 4.2 + 1.4 * len(below))
    panels = figure.subplots(1 + len(below), 1, sharex=True, squeeze=False, height_ratios=[3] + [1] * len(below))[:, 0]
    losses = panels[0]
    if train[0]:
        losses.plot(*train, color=TRAIN_COLOUR, linewidth=1.2, marker=_dots(train), label=training_label)
    if valid[0]:
        best = int(np.argmin(valid[1]))
        label = f"validation (best {valid[1][best]:.3f} at step {valid[0][best]:,})"
        losses.plot(*valid, color=VALID_COLOUR, linewidth=1.6, marker="o", markersize=3.5, label=label)
        losses.plot(valid[0][best], valid[1][best], color=VALID_COLOUR, marker="o", markersize=8, fillstyle="none")
    if averaged[0]:  # a separate point: other weights, so not part of the line
        label = f"averaged weights ({averaged[1][-1]:.3f})"
        losses.plot(*averaged, color=RATE_COLOUR, linestyle="none", marker="D", markersize=6, label=label)
    losses.set_ylabel(f"loss (nats per {unit})" if unit else "loss")
    losses.legend(frameon=False, loc="upper right")  # "best" is slow for many points
    if "accuracy" in below:
        for line, colour in zip(accuracies, (TRAIN_COLOUR, VALID_COLOUR), strict=True):
            if line[0]:
                panels[1].plot(*line, color=colour, linewidth=1.2, marker=_dots(line))
        panels[1].set_ylabel("accuracy")
    if rate[0]:
        panels[-1].plot(*rate, color=RATE_COLOUR, linewidth=1.2, marker=_dots(rate))
        panels[-1].set_ylabel("learning rate")
        panels[-1].set_ylim(bottom=0)
        panels[-1].yaxis.set_major_formatter("{x:g}")
    for panel in panels:
        _calm(panel)
    panels[-1].set_xlabel("step (updates)")
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    panels[-1].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return _saved(figure, out_png)


@checked
def plot_attention(
    weights: np.ndarray,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    out_png: str | Path | None = None,
    title: str = "",
    *,
    shades: str = "attention weight",
) -> Figure:
    """Draw attention weights as grids of shades, one for each head: queries down the side, keys along the bottom.

    The shades mean the same in every picture: white is 0, the darkest blue is 1.

    Args:
        weights: (heads, queries, keys) float array, or (queries, keys) for one grid; each row sums to 1 or less.
        query_tokens, key_tokens: the texts of the tokens. A blank in a text is drawn as an open box, so that " Hund"
            (the start of a word) and "hund" can be distinguished.
        title: text above all grids, such as the name of the layer.
        shades: the meaning of the shades.

    Raises InputError if the picture can't be written, and ValueError if the shape of `weights` does not match the
    tokens, or one of the sides is empty.
    """
    weights = np.asarray(weights)
    if weights.shape[-2:] != (len(query_tokens), len(key_tokens)) or weights.ndim not in (2, 3) or not weights.size:
        raise ValueError(f"weights {weights.shape} don't fit {len(query_tokens)} queries and {len(key_tokens)} keys")
    alone = weights.ndim == 2
    weights = weights.reshape(-1, len(query_tokens), len(key_tokens))
    queries, keys = _visible(query_tokens), _visible(key_tokens)
    heads, (cell, letter) = len(weights), (0.34, 0.09) if alone else (0.17, 0.06)  # inches
    cell *= min(1.0, MOST_NAMES / max(len(queries), len(keys)))
    columns = min(heads, 4)
    rows = -(-heads // columns)
    width = columns * (0.3 + cell * len(keys)) + letter * max(map(len, queries))
    height = rows * (0.5 + cell * len(queries)) + letter * max(map(len, keys))
    figure = _new_figure(max(1.8 + width, 3.4), 1.1 + height)
    figure.set_layout_engine("compressed")  # panels of one shape stand close together
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for number, panel in enumerate(panels.flat):
        if number >= heads:
            panel.set_axis_off()
            continue
        image = panel.imshow(weights[number], cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
        panel.set_title("" if alone else f"head {number + 1}", fontsize=9)
        _name_cells(panel, queries, keys, rotation=90, size=10 if alone else 7)
        panel.tick_params(labelbottom=number + columns >= heads)
    figure.suptitle(title, fontsize=10)
    figure.supxlabel("attended token (key)", fontsize=9)
    figure.supylabel("attending token (query)", fontsize=9)
    inch, shrink = 1 / figure.get_figwidth(), min(2.5 / figure.get_figheight(), 0.8)
    figure.colorbar(image, ax=panels, label=shades, shrink=shrink, aspect=20, fraction=0.3 * inch, pad=0.1 * inch)
    return _saved(figure, out_png)


@checked
def plot_shares(
    shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], out_png: str | Path | None = None, title: str = ""
) -> Figure:
    """Draw a table of shares in per cent on shades of blue: white is 0, the darkest is 1.

    Args:
        shares: (rows, columns), 0 to 1.

    Raises InputError if the picture can't be written.
    """
    figure = _new_figure(3.0 + 0.9 * len(columns), 1.6 + 0.28 * len(rows))
    grid = figure.subplots()
    grid.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (row, column), share in np.ndenumerate(np.asarray(shares)):
        colour = "white" if share > 0.5 else "black"
        grid.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize=8, color=colour)
    _name_cells(grid, rows, [name.replace(" ", "\n") for name in columns], size=9)
    grid.xaxis.tick_top()
    grid.tick_params(length=0)
    figure.suptitle(title, fontsize=10)
    return _saved(figure, out_png)


@checked
def plot_lines(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    out_png: str | Path | None = None,
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
) -> Figure:
    """Draw several lines for comparison, each with its name in the legend.

    Args:
        lines: (x, y) by name; points that are not finite are left out.
        log_x: a logarithmic x axis.

    Raises InputError if the picture can't be written, and ValueError if there is no point to draw.
    """
    finite = {
        name: [point for point in zip(*line, strict=True) if all(map(math.isfinite, point))]
        for name, line in lines.items()
    }
    if not any(finite.values()):
        raise ValueError("there is no point to draw")
    figure = _new_figure(8.0, max(4.6, 0.6 + 0.21 * len(finite)))  # the legend has a line for each
    panel = figure.subplots()
    bases = list(dict.fromkeys(name.removesuffix(AVERAGED) for name in finite))
    drawn = {}
    for name, points in finite.items():
        if points:
            number = bases.index(name.removesuffix(AVERAGED))
            line = [x for x, _ in points], [y for _, y in points]
            colour, style = LINE_COLOURS[number % len(LINE_COLOURS)], LINE_STYLES[number // len(LINE_COLOURS) % 4]
            marker = _dots(line) if name in bases else "D"
            (drawn[name],) = panel.plot(*line, color=colour, linestyle=style, linewidth=1.5, marker=marker)
    if log_x:
        panel.set_xscale("log")
        _few_ticks(panel)
    elif all(float(x).is_integer() for points in lines.values() for x in points[0]):
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.locator_params("x", integer=True, min_n_ticks=1)
    panel.set_xlabel(x_label)
    panel.set_ylabel(y_label)
    numbers = list(map(str, range(len(drawn))))
    legend = panel.legend(list(drawn.values()), numbers, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for text, name in zip(legend.get_texts(), drawn, strict=True):
        text.set(text=name, parse_math=False)  # any text is a name, also one that begins with _
    _calm(panel)
    return _saved(figure, out_png)


def _few_ticks(panel: Axes) -> None:
    """Set ticks of a logarithmic x axis such that labels don't overlap: decades, or more ticks for few decades."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    low, high = panel.get_xlim()
    few = MaxNLocator(4) if high < 4 * low else LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,))
    panel.xaxis.set_major_locator(few)
    panel.xaxis.set_major_formatter("{x:,g}")
    panel.xaxis.set_minor_formatter(NullFormatter())


@checked
def plot_confusion(matrix: np.ndarray, labels: Sequence[str], out_png: str | Path | None = None) -> Figure:
    """Draw a confusion matrix: the shares of each row in shades. Actual classes are at the side, predicted ones on top.

    Args:
        matrix: (labels, labels) counts; row = actual class.

    Raises InputError if the picture can't be written, and ValueError if the shape does not match the labels.
    """
    matrix = np.asarray(matrix)
    if matrix.shape != (len(labels), len(labels)) or not matrix.size:
        raise ValueError(f"a matrix of shape {matrix.shape} does not fit {len(labels)} labels")
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    size = min(len(labels), MOST_NAMES) * (0.5 if len(labels) <= 15 else 0.24)
    figure = _new_figure(3.2 + size, 2.2 + size)
    grid = figure.subplots()
    image = grid.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
    if len(labels) <= 15:
        for row, column in np.argwhere(matrix):
            colour = "white" if shares[row, column] > 0.5 else "black"
            grid.text(column, row, f"{matrix[row, column]}", ha="center", va="center", fontsize=8, color=colour)
    _name_cells(grid, labels, labels, rotation=60, size=9 if len(labels) <= 15 else 7)
    for label in grid.get_xticklabels():
        label.set(horizontalalignment="right", rotation_mode="anchor")
    grid.set_xlabel("predicted class")
    grid.set_ylabel("actual class")
    figure.colorbar(image, ax=grid, label="share of the actual class", shrink=0.7, aspect=25)
    return _saved(figure, out_png)


def _dots(line: tuple[list[float], list[float]]) -> str:
    """Return a marker for lines of few points, which would otherwise be hard to see."""
    return "." if len(line[0]) < 10 else ""


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes half a second, and translating does not need it
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _calm(panel: Axes) -> None:
    panel.grid(color=GRID_COLOUR, linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _name_cells(
    grid: Axes, rows: Sequence[str], columns: Sequence[str], *, rotation: float = 0, size: float | None = None
) -> None:
    """Label rows and columns of an image, at most `MOST_NAMES` of each, evenly. "$" is a token, not TeX."""
    across, down = (-(-len(names) // MOST_NAMES) for names in (columns, rows))
    grid.set_xticks(range(0, len(columns), across), list(columns[::across]), rotation=rotation, fontsize=size)
    grid.set_yticks(range(0, len(rows), down), list(rows[::down]), fontsize=size)
    grid.tick_params(length=2)
    for label in [*grid.get_xticklabels(), *grid.get_yticklabels()]:
        label.set_parse_math(False)


def _visible(tokens: Sequence[str]) -> list[str]:
    """Replace each blank in tokens by a box, escape unprintable characters, and keep at most 24 characters."""
    shown = [printable(token.replace(" ", "\N{OPEN BOX}")) for token in tokens]
    return [one if len(one) <= 24 else one[:23] + "\N{HORIZONTAL ELLIPSIS}" for one in shown]


def _saved(figure: Figure, out_png: str | Path | None) -> Figure:
    """Return the figure, which is written to `out_png` if that is not None."""
    if out_png is not None:
        with atomic_file(out_png) as file, warnings.catch_warnings():
            # The font has no Chinese or emoji; a box in their place must not stop a training run.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(file, format="png")
    return figure
