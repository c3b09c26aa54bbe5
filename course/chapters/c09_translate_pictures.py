"""Chapter 9, the pictures: the two stacks, and the words on which each prediction depends."""

from itertools import pairwise
from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, arrow, box, empty, heat, new_figure
from .c09_translate import HEADS, LAYERS, weights
from .c09_translate_solution import transformer


def draw_stacks() -> Any:
    figure = new_figure(4.4)
    axes = empty(figure.subplots(), 14, 9.2)
    axes.set_ylim(0.4, 9.3)
    size = {"width": 3.6, "height": 0.75}
    left = ["embed + positions", "look at each other\n(all words)", "feed-forward"]
    for y, text, colour in zip((2.0, 3.7, 5.2), left, (GREY, BLUE, GREEN), strict=True):
        box(axes, 3, y, text, colour=colour, **size)
    right = ["embed + positions", "look at each other\n(nobody looks ahead)", "look at the source", "feed-forward"]
    for y, text, colour in zip((2.0, 3.7, 5.2, 6.7), right, (GREY, BLUE, ORANGE, GREEN), strict=True):
        box(axes, 10, y, text, colour=colour, **size)
    box(axes, 10, 8.0, "output: logits", colour=RED, **size)
    for x, levels in ((3, (2.0, 3.7, 5.2)), (10, (2.0, 3.7, 5.2, 6.7, 8.0))):
        arrow(axes, (x, 1.05), (x, 1.6))
        for low, high in pairwise(levels):
            arrow(axes, (x, low + 0.4), (x, high - 0.4))
    arrow(axes, (4.85, 5.2), (8.15, 5.2), "keys and values", colour=ORANGE)
    arrow(axes, (10, 8.4), (10, 8.85))
    words = {"fontsize": 9.5, "ha": "center", "color": "#111827"}
    axes.text(3, 0.6, "den   Mann   sieht   der   Hund", **words)
    axes.text(10, 0.6, "<bos>   the   dog   sees   the   man", **words)
    axes.text(10, 8.95, "the   dog   sees   the   man   <eos>", **words)
    note = {"fontsize": 9, "color": GREY}
    axes.text(-0.4, 4.45, "N times", ha="left", va="center", **note)
    axes.text(12.4, 5.2, "N times", va="center", **note)
    axes.text(3, 6.2, "encoder: runs once", ha="center", **note)
    axes.text(5.2, 8.0, "decoder: runs for each new word", ha="center", **note)
    return figure


def influence() -> np.ndarray:
    """Return the largest change of the logits at each target position (rows) for each exchanged word (columns)."""
    w = weights()
    source, target = np.array([[5, 6, 10, 3, 8, 0]]), np.array([[1, 8, 4, 7]])
    before = transformer(source, target, w, HEADS, LAYERS)
    columns = []
    for ids, others in ((source, 7), (target, 9)):
        for place in range(ids.shape[1]):
            kept, ids[0, place] = ids[0, place], others
            if kept == 0:  # keep the padding and change its vector
                ids[0, place] = kept
                w = w | {"source_embedding.weight": w["source_embedding.weight"].copy()}
                w["source_embedding.weight"][0] += 1.0
            columns.append(np.abs(transformer(source, target, w, HEADS, LAYERS) - before).max(axis=2)[0])
            ids[0, place] = kept
    return np.stack(columns, axis=1)


def draw_influence() -> Any:
    figure = new_figure(2.7)
    moved = influence()
    shown = np.where(moved == 0, np.nan, moved)
    columns = ["den", "Mann", "sieht", "der", "Hund", "pad", "<bos>", "the", "dog", "sees"]
    axes = figure.subplots()
    heat(axes, shown, rows=["the", "dog", "sees", "the"], columns=columns, numbers="{:.1f}")
    axes.set_title("how far the logits of a word move when another word is exchanged", fontsize=10, loc="left")
    axes.axvline(5.5, color="#111827", linewidth=1.2)
    axes.set_ylabel("to be said", fontsize=9)
    axes.set_xlabel("source: all but the padding          |          target: what was said before", fontsize=9)
    return figure
