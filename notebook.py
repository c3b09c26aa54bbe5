"""What a notebook shows: objects as HTML and inline SVG, without JavaScript, and progress bars.

Colours are translucent or the page's own, for light and dark pages. `element` escapes all texts.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

BLUE, RED, GREY = "#3b82f6", "#ef4444", "rgba(128,128,128,.15)"
COLOURS = (BLUE, "#f97316", "#22a06b", "#a855f7")
MOST_CELLS, MOST_POINTS, MOST_BOXES = 32, 300, 60


class Html(str):
    """Finished HTML; other texts are still to be escaped."""


def element(tag: str, *content: Any, **attributes: Any) -> Html:
    """Return an element. `stroke_width` stands for the attribute stroke-width."""
    options = "".join(f' {name.replace("_", "-")}="{escape(str(value))}"' for name, value in attributes.items())
    inside = "".join(x if isinstance(x, Html) else escape(str(x)) for x in content)
    return Html(f"<{tag}{options}>{inside}</{tag}>")


def svg(width: float, height: float, *content: Html, scale: int = 1) -> Html:
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": width * scale, "height": height * scale}
    font = {
        "font_family": "sans-serif",
        "font_size": 11,
        "fill": "currentColor",
        "style": "display:block;max-width:100%",
    }
    return element("svg", *content, xmlns="http://www.w3.org/2000/svg", **size, **font)


def table(*rows: Sequence[Any]) -> Html:
    """Return a table whose first row is its head."""
    return element("table", *(element("tr", *(element("td" if i else "th", x) for x in r)) for i, r in enumerate(rows)))


@np.errstate(all="ignore")  # of a long double beyond float64
def heat_map(matrix: np.ndarray) -> Html:
    """Return a picture of the first rows and columns: positive numbers blue, negative red, NaN and infinities grey."""
    values = matrix[:MOST_CELLS, :MOST_CELLS].astype(np.float64)
    (rows, columns), finite = values.shape, np.isfinite(values)
    largest = np.abs(values[finite]).max(initial=0)
    levels = np.rint(np.where(finite, values, 0) / (largest or 1) * 8).astype(int)  # one path for each of 16 colours
    paths = []
    for level in np.unique(levels[levels != 0]):
        cells = "".join(f"M{column} {row}h1v1h-1z" for row, column in np.argwhere(levels == level))
        paths.append(element("path", d=cells, fill=BLUE if level > 0 else RED, opacity=abs(level) / 8))
    cells = "".join(f"M{column} {row}h1v1h-1z" for row, column in np.argwhere(~finite))
    paths.append(element("path", d=cells, fill="currentColor", opacity=0.3))
    frame = element("rect", width=columns, height=rows, fill="none", stroke="currentColor", stroke_width=0.05)
    cut = "" if values.shape == matrix.shape else f"first {rows} × {columns} numbers, "
    key = element("div", f"{cut}blue: up to {largest:.3g}, red: down to {-largest:.3g}")
    return Html(svg(columns, rows, *paths, frame, scale=max(8, 96 // max(rows, columns))) + key)


def values_html(array: np.ndarray) -> Html:
    """Return the values, or some of them, and a picture of a matrix."""
    lead = (0,) * max(array.ndim - 3, 0)
    note = element("div", f"its part {list(lead)}:") if lead and array.size else Html()
    array = array[lead] if array.size else array
    text = np.array2string(array, threshold=100, edgeitems=3, separator=", ", max_line_width=100)
    picture = heat_map(array) if array.ndim == 2 and array.size > 1 else Html()
    return Html(picture + note + element("pre", text))


def tensor_html(tensor: Any) -> Html:
    parts = [f"{type(tensor).__name__} {tensor.shape}", str(tensor.dtype), tensor.device]
    parts += ["requires a gradient"] * tensor.requires_grad
    parts += [] if tensor.is_leaf else [f"from {tensor.origin.node.name}"]
    gradient = tensor.grad_or_rows  # reading `grad` would turn an embedding's rows into an array
    gradient = gradient.get() if hasattr(gradient, "get") else gradient  # from a GPU
    shown = values_html(gradient) if isinstance(gradient, np.ndarray) else type(gradient).__name__
    folded = Html() if gradient is None else element("details", element("summary", "gradient"), shown)
    return element("div", element("b", " · ".join(parts)), values_html(np.asarray(tensor.numpy())), folded)


def tree(rows: Sequence[tuple[int, str, str, str]]) -> Html:
    """Return rows (depth, name, shape, size) as a tree that can be unfolded. A row without a shape is a branch, whose
    size is the sum of those below it.
    """
    parts: list[Html] = []
    while rows:
        depth, name, shape, size = rows[0]
        end = next((i for i, row in enumerate(rows) if i and row[0] <= depth), len(rows))
        options = {"style": "margin-left:1.2em"} if depth else {"open": ""}
        if shape:
            parts.append(element("div", f"{name} {shape} · {size}", **options))
        else:
            total = sum(int(row[3].replace(",", "")) for row in rows[:end] if row[3] not in ("", "shared"))
            parts.append(element("details", element("summary", f"{name} · {total:,}"), tree(rows[1:end]), **options))
        rows = rows[end:]
    return Html("".join(parts))


def line_chart(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Html:
    """Return a picture of lines {name: (x, y)} of finite numbers, with at least one point in all."""
    drawn = {name: np.asarray(line, np.float64) / 2 for name, line in lines.items() if len(line[0])}  # no overflow
    (left, low), (right, high) = (f([f(line, axis=1) for line in drawn.values()], axis=0) for f in (np.min, np.max))
    parts = [element("rect", x=60, y=10, width=400, height=150, fill=GREY)]
    parts += [element("text", f"{2 * v:.4g}", x=55, y=y, text_anchor="end") for y, v in ((18, high), (160, low))]
    parts.append(element("text", f"{2 * left:,.0f}", x=60, y=175))
    parts.append(element("text", f"{2 * right:,.0f}", x=460, y=175, text_anchor="end"))
    for number, (name, line) in enumerate(drawn.items()):
        xs, ys = line[:, np.unique(np.linspace(0, line.shape[1] - 1, MOST_POINTS).astype(int))]
        xs, ys = 60 + (xs - left) / ((right - left) or 1) * 400, 160 - (ys - low) / ((high - low) or 1) * 150
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip([xs[0], *xs], [ys[0], *ys], strict=True))
        colour = COLOURS[number % len(COLOURS)]
        pen = {"fill": "none", "stroke": colour, "stroke_width": 2, "stroke_linecap": "round"}  # one point is a dot
        parts += [element("polyline", points=points, **pen)]
        parts += [element("text", name, x=470, y=22 + 16 * number, fill=colour)]
    return svg(620, 180, *parts)


def graph_svg(boxes: Sequence[tuple[str, str, str]], edges: Sequence[tuple[str, str, str]]) -> Html:
    """Return a picture of boxes (key, label, shape) and edges (from, to, label), oldest first: of the last boxes, if
    there are many. Each call is below its inputs.
    """
    shown = {key: (label.split("\n"), shape) for key, label, shape in boxes[-MOST_BOXES:]}
    edges = [edge for edge in edges if edge[0] in shown and edge[1] in shown]
    level, calls = dict.fromkeys(shown, 0), {end for _, end, _ in edges}
    for start, end, _ in edges:
        level[end] = max(level[end], level[start] + 1)
    for start in {start for start, _, _ in edges} - calls:  # a leaf is just above its first use
        level[start] = min(level[end] for first, end, _ in edges if first == start) - 1
    width = {key: 7 * max(map(len, lines)) + 16 for key, (lines, _) in shown.items()}
    rows = [[key for key in shown if level[key] == row] for row in range(max(level.values()) + 1)]
    whole, middle = max(sum(width[key] + 20 for key in keys) for keys in rows), {}
    for keys in rows:
        left = (whole - sum(width[key] + 20 for key in keys)) / 2 + 10
        for key in keys:
            middle[key] = left + width[key] / 2
            left += width[key] + 20
    parts = []
    for start, end, label in edges:
        (x, y), (u, v) = (middle[start], 76 * level[start] + 44), (middle[end], 76 * level[end] + 8)
        curve = f"M{x:g} {y}C{x:g} {y + 20} {u:g} {v - 20} {u:g} {v}"
        parts.append(element("path", element("title", label), d=curve, fill="none", stroke="currentColor", opacity=0.6))
    for key, (lines, shape) in shown.items():
        y, (fill, rx) = 76 * level[key] + 8, (GREY, 4) if shape == "box" else ("rgba(59,130,246,.25)", 16)
        size = {"x": middle[key] - width[key] / 2, "y": y, "width": width[key], "height": 36, "rx": rx}
        parts.append(element("rect", **size, fill=fill, stroke="currentColor", stroke_opacity=0.4))
        for number, text in enumerate(lines, start=1):
            line = y + 15 - 7 * len(lines) + 14 * number
            parts.append(element("text", text, x=middle[key], y=line, text_anchor="middle"))
    note = f"the last {len(shown)} of {len(boxes):,} leaves and calls" if len(boxes) > len(shown) else ""
    return svg(max(whole, 260), 76 * len(rows) + 4, *parts, element("text", note, x=10, y=76 * len(rows) - 8))


def progress_bar(shown: bool = True, **options: Any) -> Any:
    """Return tqdm's bar, which is shown in a terminal and, as a widget if ipywidgets is installed, in a notebook."""
    if "ipykernel.zmqshell" not in sys.modules:  # tqdm.auto has the same condition, and takes longer to import
        from tqdm import tqdm

        return tqdm(disable=None if shown else True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the widget is experimental, or ipywidgets is missing
        from tqdm.auto import tqdm
    form = options.pop("bar_format", "{l_bar}{bar}{r_bar}").replace("{bar:16}", "{bar}")  # a widget knows only this one
    return tqdm(disable=not shown, bar_format=form, **options)
