"""Chapter 7, the pictures: features divided between heads, rightly and wrongly, and arrows that rotate with the
position.
"""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREY, ORANGE, arrow, cells, centred, heat, label, new_diagram, new_figure
from .c07_heads_solution import rotate, split_heads

WORDS = ["the", "cat", "saw", "it"]
SHADES = [["#a9c8ec", "#f4b07a"], ["#cfe0f4", "#f8d9bf"]]  # [odd or even word][half of the features]
CELL = 0.72


def table(axes: Any, x: float, y: float, array: np.ndarray, rows: Any = ()) -> None:
    """Draw a table of feature names for the numbers 0 to 15, coloured by the half of the features."""
    texts = [[f"{WORDS[n // 4]}{n % 4}" for n in row] for row in array]
    colours = [[SHADES[n // 4 % 2][n % 4 // 2] for n in row] for row in array]
    cells(axes, x, y, texts, colours, CELL, fontsize=7.5)
    for i, name in enumerate(rows):
        axes.text(x - 0.12, y - (i + 0.5) * CELL, name, ha="right", va="center", fontsize=8.5, color=GREY)


def draw_split() -> Any:
    figure, axes = new_diagram(3.2, 16.4, 7.3)
    axes.set_ylim(-0.1, 7.3)
    x = np.arange(16).reshape(4, 4)
    axes.text(2.4, 5.7, "x: (length, d)", ha="center", fontsize=9)
    table(axes, 1.0, 5.4, x, WORDS)
    right, wrong = split_heads(x, 2), x.reshape(2, 4, 2)
    for base, parts, title, colour in (
        (6.9, right, "reshape to (length, heads, d/h), then swap", BLUE),
        (3.15, wrong, "reshape to (heads, length, d/h) alone", ORANGE),
    ):
        axes.text(6.6, base + 0.02, title, fontsize=9, color=colour)
        for head in (0, 1):
            left = 7.2 + head * 3.2
            table(axes, left, base - 0.15, parts[head])
            axes.text(left + 1.55, base - 0.15 - 2 * CELL, f"head {head}", fontsize=8.5, color=GREY, va="center")
        arrow(axes, (4.1, 4.0), (6.9, base - 1.55), colour=colour)
    axes.text(13.6, 5.3, "each head: two\nfeatures of every word", fontsize=8.5, color=BLUE, va="center")
    axes.text(13.6, 1.4, "each head: two\nwhole words", fontsize=8.5, color=ORANGE, va="center")
    return figure


def draw_rotary() -> Any:
    figure, (left, right) = new_figure(3.1, 1, 2, width_ratios=[1.25, 1])
    left.set(aspect="equal", xlim=(-1.35, 4.1), ylim=(-1.45, 1.45))
    left.axis("off")
    label(left, "the same distance, the same angle")
    q, k = np.array([[1.0, 0.1]]), np.array([[0.9, -0.55]])
    for shift, (i, j) in ((0.0, (3, 1)), (2.75, (8, 6))):
        circle = np.linspace(0, 2 * np.pi, 100)
        left.plot(shift + 1.1 * np.cos(circle), 1.1 * np.sin(circle), color="#e5e7eb", linewidth=1)
        ends = [rotate(q / np.linalg.norm(q), i)[0], rotate(k / np.linalg.norm(k), j)[0]]
        for end, name, position, colour in zip(ends, "qk", (i, j), (BLUE, ORANGE), strict=True):
            arrow(left, (shift, 0), (shift + end[0], end[1]), colour=colour)
            centred(left, shift + 1.24 * end[0], 1.24 * end[1], f"{name}$_{{{position}}}$", 10, colour)
        angles = [np.arctan2(end[1], end[0]) for end in ends]
        turn = (angles[0] - angles[1] + np.pi) % (2 * np.pi) - np.pi
        arc = np.linspace(angles[1], angles[1] + turn, 30)
        left.plot(shift + 0.42 * np.cos(arc), 0.42 * np.sin(arc), color=GREY, linewidth=1.2)
        left.text(shift, -1.4, f"positions {i} and {j}: {np.degrees(abs(turn)):.0f}°", ha="center", fontsize=9)
    vectors = np.repeat(np.array([[1.0, 0.6, 0.3, 0.9, 0.2, -0.4, 0.5, 0.1]]), 10, axis=0)
    turned = rotate(vectors)
    scores = turned @ turned.T
    labels = {"x": "position of the key", "y": "position of the query"}
    heat(right, scores, rows=range(10), columns=range(10), title="scores of equal words", numbers="", **labels)
    return figure
