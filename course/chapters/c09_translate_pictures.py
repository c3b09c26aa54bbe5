"""Chapter 9, the pictures: the two stacks, and the words on which each prediction depends."""

from itertools import pairwise
from typing import Any

import numpy as np

from ..drawing import BLUE, DARK, GREEN, GREY, ORANGE, RED, arrow, box, centred, heat, label, new_diagram, new_figure
from .c09_translate import HEADS, LAYERS, weights
from .c09_translate_solution import transformer


def draw_stacks() -> Any:
    figure, axes = new_diagram(4.4, 14, 9.2)
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
    centred(axes, 3, 0.75, "den   Mann   sieht   der   Hund", 9.5)
    centred(axes, 10, 0.75, "<bos>   the   dog   sees   the   man", 9.5)
    centred(axes, 10, 9.1, "the   dog   sees   the   man   <eos>", 9.5)
    centred(axes, 0.2, 4.45, "N times", color=GREY)
    centred(axes, 13, 5.2, "N times", color=GREY)
    centred(axes, 3, 6.3, "encoder: runs once", color=GREY)
    centred(axes, 5.2, 8.1, "decoder: runs for each new word", color=GREY)
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
    figure, axes = new_figure(2.7)
    moved = influence()
    shown = np.where(moved == 0, np.nan, moved)
    columns = ["den", "Mann", "sieht", "der", "Hund", "pad", "<bos>", "the", "dog", "sees"]
    heat(axes, shown, rows=["the", "dog", "sees", "the"], columns=columns, numbers="{:.1f}")
    axes.axvline(5.5, color=DARK, linewidth=1.2)
    sides = "source: all words but the padding          |          target: earlier words"
    label(axes, "largest change of a word's logits when another word is exchanged", sides, "predicted word")
    return figure
