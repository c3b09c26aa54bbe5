"""Chapter 5, the pictures: the cost of a token, what smoothing changes, and the gradient as a difference."""

from typing import Any

import numpy as np

from ..drawing import BLUE, DARK, GREEN, GREY, ORANGE, RED, new_figure, note, plain
from .c05_loss_solution import gradient, smoothed, softmax

WORDS = ["mat", "sofa", "floor", "moon", "ran", "of"]


def draw_gradient() -> Any:
    logits, target, share = np.array([[1.9, 2.1, 1.2, -0.6, -0.9, -1.6]]), np.array([0]), 0.1
    p, slope = softmax(logits)[0], gradient(logits, target, share)[0]
    figure, panels = new_figure(2.7, 1, 3)
    for axes, values, title, colours in zip(
        panels,
        (p, p - slope, slope),
        ("p: the prediction", "q: the target, with s = 0.1", "p - q: the gradient"),
        ([BLUE] * 6, [GREEN] * 6, [ORANGE if value > 0 else GREEN for value in slope]),
        strict=True,
    ):
        plain(axes, title).bar(WORDS, values, color=colours, width=0.65)
        axes.tick_params(axis="x", labelsize=8, colors=DARK)
        axes.grid(axis="x", visible=False)
        axes.axhline(0, color=GREY, linewidth=0.8)
        for place, value in enumerate(values):
            shift = (0, -10 if value < 0 else 2)
            note(axes, f"{value:.2f}", (place, value), shift, DARK, ha="center", fontsize=8)
        axes.set_ylim(-0.72 if values is slope else 0, 0.5 if values is slope else 1.05)
    note(axes, "pulled up", (0, -0.35), (14, -4), GREEN)
    note(axes, "pushed down", (1.6, 0.4))
    return figure


def draw_loss() -> Any:
    figure, (left, right) = new_figure(2.9, 1, 2)
    plain(left, "the cost of a token: -log p", "p, the probability of the token that came")
    p = np.geomspace(5e-5, 1, 300)
    left.plot(p, -np.log(p), color=BLUE, linewidth=2)
    for at, text, shift in ((1e-4, "1 of 10000: 9.21", 14), (0.5, "p = 1/2: 0.69", 6)):
        left.plot(at, -np.log(at), "o", color=ORANGE, markersize=5)
        note(left, text, (at, -np.log(at)), (shift, 4))
    plain(right, "the loss, for V = 10 tokens", "right score minus each other score")
    lead = np.linspace(0, 12, 121)
    for share, colour in ((0.0, BLUE), (0.1, ORANGE), (0.3, RED)):
        losses = np.array([smoothed(np.array([[ahead] + [0.0] * 9]), np.array([0]), share) for ahead in lead])
        right.plot(lead, losses, color=colour, linewidth=1.8, label=f"s = {share:g}")
        if share:
            lowest = int(losses.argmin())
            right.plot(lead[lowest], losses[lowest], "o", color=colour, markersize=5)
    right.set_ylim(0, 3.4)
    right.legend(fontsize=8.5, frameon=False)
    return figure
