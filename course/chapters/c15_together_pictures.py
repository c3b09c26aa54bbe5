"""Chapter 15, the picture: the parts of the translator, with the numbers of their chapters."""

from typing import Any

from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, arrow, box, centred, new_diagram


def draw_parts() -> Any:
    figure, axes = new_diagram(3.2, 16, 7.4)
    size = {"width": 3.5, "height": 1.1}
    row = [("sentences\n→ ids (4, 9)", GREY), ("model of nodes\n(2, 6, 7, 8, 9)", BLUE), ("loss\n(5)", RED)]
    for x, (text, colour) in zip((2, 7, 12), row, strict=True):
        box(axes, x, 5.8, text, colour=colour, **size)
    box(axes, 12, 3.4, "backward pass\n(1, 2, 5, 8, 13)", colour=ORANGE, **size)
    box(axes, 7, 3.4, "Adam, schedule\n(10)", colour=GREEN, **size)
    box(axes, 2, 3.4, "beam search\n(11)", colour=GREEN, **size)
    box(axes, 2, 1.0, "translation, BLEU", colour=GREY, **size)
    arrow(axes, (3.8, 5.8), (5.2, 5.8))
    arrow(axes, (8.8, 5.8), (10.2, 5.8))
    arrow(axes, (12, 5.2), (12, 4.0))
    arrow(axes, (7, 4.0), (7, 5.2))
    arrow(axes, (10.2, 3.4), (8.8, 3.4), "gradients")
    arrow(axes, (5.8, 5.2), (3.2, 4.0))
    arrow(axes, (2, 2.8), (2, 1.6))
    centred(axes, 8.1, 4.6, "new weights", 8.5, GREY)
    centred(axes, 3.0, 4.7, "after training", 8.5, GREY)
    return figure
