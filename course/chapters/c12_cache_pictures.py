"""Chapter 12, the pictures: the vectors that a new word changes, and the work with and without a cache."""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, heat, new_figure, plain
from .c09_translate import HEADS, weights
from .c09_translate_solution import decoder_layer, embed, encoder_layer


def changes(decoder: bool) -> np.ndarray:
    """Return how much a fifth word changes the vectors of four words: an array (embedding and layers, four words)."""
    w, ids = weights(), np.array([[1, 8, 4, 7, 10]])
    if decoder:
        memory, kind = embed(np.array([[5, 6, 10, 3]]), w["source_embedding.weight"]), "target"
    else:
        memory, kind = None, "source"

    def vectors(length: int) -> list[np.ndarray]:
        x = embed(ids[:, :length], w[f"{kind}_embedding.weight"])
        found = [x]
        for i in range(2):
            if decoder:
                mask = np.tri(length, dtype=bool)
                x = decoder_layer(x, memory, w, f"decoder.layers.{i}", HEADS, mask, np.True_)
            else:
                x = encoder_layer(x, w, f"encoder.layers.{i}", HEADS, np.True_)
            found.append(x)
        return [x[0, :4] for x in found]

    return np.array([np.abs(a - b).max(axis=1) for a, b in zip(vectors(4), vectors(5), strict=True)])


def draw_unchanged() -> Any:
    figure = new_figure(2.3)
    rows = ["embedding", "layer 1", "layer 2"]
    for axes, decoder in zip(figure.subplots(1, 2), (False, True), strict=True):
        moved = changes(decoder).round(12)
        title = "decoder: nobody looks ahead" if decoder else "encoder: all look at all"
        words = ["<bos>", "the", "dog", "sees"] if decoder else ["den", "Mann", "sieht", "der"]
        heat(axes, moved, rows=rows, columns=words, title=title, numbers="{:.2g}", top=1.0)
    return figure


def multiplications(
    words: int, cached: bool, layers: int = 6, d: int = 512, inner: int = 2048, source: int = 20
) -> float:
    """Return the number of multiplications with which a decoder generates `words` words."""
    matrices = layers * (
        4 * d * d + 2 * d * d + 2 * d * inner
    )  # for one word: self-attention, attention to the source, feed-forward
    total = 0.0
    for length in range(1, words + 1):
        computed = 1 if cached else length
        total += computed * (matrices + layers * 2 * d * (length + source))
    return total


def draw_work() -> Any:
    figure = new_figure(2.9)
    left, middle, right = figure.subplots(1, 3, width_ratios=[3, 3, 4])
    steps = 6
    for axes, cached in ((left, False), (middle, True)):
        for step in range(steps):
            for word in range(step + 1):
                fresh = word == step or not cached
                colour = ORANGE if fresh else BLUE
                axes.add_patch(_square(word, step, colour, 0.85 if fresh else 0.3))
        count = sum(1 if cached else step + 1 for step in range(steps))
        axes.set_title(f"{'with' if cached else 'without'} a cache: {count} times", fontsize=10, loc="left")
        axes.set_xlim(-0.6, steps - 0.4)
        axes.set_ylim(steps - 0.4, -0.6)
        axes.set_aspect("equal")
        axes.set_xticks(range(steps), range(1, steps + 1), fontsize=8)
        axes.set_yticks(range(steps), range(1, steps + 1), fontsize=8)
        axes.tick_params(length=0, colors=GREY)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("word", fontsize=9)
    left.set_ylabel("step", fontsize=9)
    plain(right, "multiplications to say n words", "n")
    words = np.unique(np.geomspace(1, 500, 30).astype(int))
    for cached, colour, name in ((False, ORANGE, "without a cache"), (True, GREEN, "with a cache")):
        right.loglog(words, [multiplications(n, cached) for n in words], color=colour, label=name)
    right.legend(fontsize=8)
    return figure


def _square(x: float, y: float, colour: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.42, y - 0.42), 0.84, 0.84, facecolor=colour, alpha=alpha, linewidth=0)
