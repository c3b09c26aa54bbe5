"""Chapter 1, the pictures: the slope of tanh, and gradients that flow back through a small graph."""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREY, ORANGE, arrow, box, centred, new_diagram, new_figure, note, plain


def draw_tanh() -> Any:
    figure, (left, right) = new_figure(2.9, 1, 2)
    x = np.linspace(-3, 3, 301)
    plain(left, "y = tanh(x), and its slope at three points", "x").plot(x, np.tanh(x), color=BLUE, linewidth=2)
    plain(right, "the slope: 1 - y²", "x").plot(x, 1 - np.tanh(x) ** 2, color=BLUE, linewidth=2)
    for at in (-1.5, 0.0, 0.8):
        y, slope = np.tanh(at), 1 - np.tanh(at) ** 2
        reach = np.array([-0.75, 0.75]) / np.hypot(1, slope)
        left.plot(at + reach, y + slope * reach, color=ORANGE, linewidth=2)
        left.plot(at, y, "o", color=ORANGE, markersize=5)
        right.plot(at, slope, "o", color=ORANGE, markersize=5)
        note(right, f"{slope:.2f}", (at, slope), (8, 2))
    right.set_ylim(-0.05, 1.15)
    return figure


def draw_graph() -> Any:
    """Draw the graph of L = h h with h = tanh(x w + b), with the value and the gradient of each node."""
    x, w, b = 0.5, -1.5, 0.25
    p, s = x * w, x * w + b
    h = np.tanh(s)
    dh = 2 * h
    ds = dh * (1 - h * h)
    figure, axes = new_diagram(2.7, 12, 4.4)
    boxes = {
        "x": (0.9, 3.5, x, ds * w),
        "w": (0.9, 2.1, w, ds * x),
        "b": (3.4, 0.8, b, ds),
        "x w": (3.4, 2.8, p, ds),
        "s = x w + b": (5.9, 2.1, s, ds),
        "h = tanh(s)": (8.4, 2.1, h, dh),
        "L = h h": (10.9, 2.1, h * h, 1.0),
    }
    for name, (left, up, value, gradient) in boxes.items():
        box(axes, left, up, f"{name}\n{value:.3f}", width=1.7, height=0.95)
        centred(axes, left, up - 0.72, f"{gradient:+.3f}", color=ORANGE)
    ends = [("x", "x w"), ("w", "x w"), ("x w", "s = x w + b"), ("b", "s = x w + b"), ("s = x w + b", "h = tanh(s)")]
    for start, end in ends:
        (x0, y0, *_), (x1, y1, *_) = boxes[start], boxes[end]
        arrow(axes, (x0 + 0.87, y0), (x1 - 0.87, y1))
    for bend in (0.35, -0.35):
        arrow(axes, (9.27, 2.1), (10.03, 2.1), bend=bend)
    axes.text(0.05, 4.2, "values, from left to right", fontsize=9, color=GREY)
    axes.text(11.95, 4.2, "gradients of L, from right to left", fontsize=9, color=ORANGE, ha="right")
    return figure
