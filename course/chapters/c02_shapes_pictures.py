"""Chapter 2, the pictures: copies forward and sums backward; the uses of one number in a matrix product."""

from typing import Any

import numpy as np

from ..drawing import BLUE, DARK, ORANGE, PALE, arrow, cells, centred, new_diagram
from .c02_shapes_solution import unbroadcast

CELL = 0.8
COLUMN = ["#f8d9bf", "#cfe0f4", "#cfe8d8"]  # colours of the three columns


def draw_copies() -> Any:
    b = np.array([10.0, 20.0, 30.0])
    g = np.array([[0.1, 0.4, 0.0], [0.2, 0.1, 0.5], [0.3, 0.1, 0.2], [0.1, 0.2, 0.2]])
    figure, axes = new_diagram(2.7, 16.6, 5.2)
    cells(axes, 0.2, 3.0, [[f"{n:.0f}" for n in b]], [COLUMN], CELL)
    cells(axes, 4.2, 4.2, [[f"{n:.0f}" for n in b]] * 4, [COLUMN] * 4, CELL)
    cells(axes, 9.9, 4.2, [[f"{n:.1f}" for n in row] for row in g], [COLUMN] * 4, CELL)
    cells(axes, 13.95, 3.0, [[f"{n:.1f}" for n in unbroadcast(g, b.shape)]], [COLUMN], CELL)
    for row in range(4):
        arrow(axes, (2.7, 2.6), (4.15, 3.8 - row * CELL), colour=BLUE)
        arrow(axes, (12.4, 3.8 - row * CELL), (13.88, 2.6), colour=ORANGE)
    centred(axes, 1.4, 3.45, "b: (3,)")
    centred(axes, 15.15, 3.45, "gradient of b: (3,)")
    centred(axes, 5.4, 4.65, "as NumPy adds it: (4, 3)")
    centred(axes, 11.1, 4.65, "g, the gradient: (4, 3)")
    centred(axes, 3.5, 0.4, "forward: copied", 9.5, BLUE)
    centred(axes, 13.2, 0.4, "back: summed", 9.5, ORANGE)
    arrow(axes, (6.75, 2.6), (9.75, 2.6), "+ x, and so on to L")
    return figure


def draw_product() -> Any:
    """Draw x at the left, y at the top and c between them: c_ij is right of row i of x and below column j of y."""
    figure, axes = new_diagram(3.6, 16.6, 6.6)
    orange, blue, mixed = "#f4b07a", "#a9c8ec", "#f8d9bf"
    x = [[f"$x_{{{i}{j}}}$" for j in (1, 2, 3)] for i in (1, 2)]
    y = [[f"$y_{{{i}{j}}}$" for j in (1, 2, 3, 4)] for i in (1, 2, 3)]
    c = [[f"$c_{{{i}{j}}}$" for j in (1, 2, 3, 4)] for i in (1, 2)]
    white = ["white"] * 4
    cells(axes, 1.2, 2.5, x, [["white", orange, "white"], white], CELL)
    cells(axes, 4.6, 5.9, y, [white, [blue] * 4, white], CELL)
    cells(axes, 4.6, 2.5, c, [[mixed] * 4, white], CELL)
    axes.text(2.4, 0.3, "x", ha="center", fontsize=10)
    axes.text(4.35, 4.7, "y", ha="right", va="center", fontsize=10)
    axes.text(6.2, 0.3, "c = x y", ha="center", fontsize=10)
    lines = [
        ("the number $x_{12}$", orange),
        ("is used in each number of row 1 of c", mixed),
        ("multiplied by a number of row 2 of y", blue),
    ]
    for row, (text, colour) in enumerate(lines):
        cells(axes, 8.8, 5.9 - row * 1.15, [[""]], [[colour]], CELL)
        axes.text(9.9, 5.5 - row * 1.15, text, va="center", fontsize=9.5, color=DARK)
    axes.plot([8.8, 16.2], [2.35, 2.35], color=PALE)
    shares = r"shares:  $g_{11}y_{21} + g_{12}y_{22} + g_{13}y_{23} + g_{14}y_{24}$"
    axes.text(8.8, 1.75, shares, va="center", fontsize=10.5, color=ORANGE)
    axes.text(8.8, 1.0, "= row 1 of g times row 2 of y", va="center", fontsize=9.5, color=ORANGE)
    return figure
