"""Chapter 12, the pictures: the vectors that a new word changes, and the work with and without a cache."""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, heat, label, named, new_figure, plain, rectangle
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
    figure, panels = new_figure(2.3, 1, 2)
    rows = ["embedding", "layer 1", "layer 2"]
    for axes, decoder in zip(panels, (False, True), strict=True):
        moved = changes(decoder).round(12)
        title = "decoder: nobody looks ahead" if decoder else "encoder: all look at all"
        words = ["<bos>", "the", "dog", "sees"] if decoder else ["den", "Mann", "sieht", "der"]
        heat(axes, moved, rows=rows, columns=words, title=title, numbers="{:.2g}", top=1.0)
    return figure


def multiplications(
    words: int, cached: bool, layers: int = 6, d: int = 512, inner: int = 2048, source: int = 20
) -> float:
    """Return the number of multiplications with which a decoder generates `words` words."""
    # for one word: self-attention, attention to the source, feed-forward
    matrices = layers * (4 * d * d + 2 * d * d + 2 * d * inner)
    total = 0.0
    for length in range(1, words + 1):
        computed = 1 if cached else length
        total += computed * (matrices + layers * 2 * d * (length + source))
    return total


def draw_work() -> Any:
    figure, (left, middle, right) = new_figure(2.9, 1, 3, width_ratios=[3, 3, 4])
    steps = 6
    for axes, cached in ((left, False), (middle, True)):
        for step in range(steps):
            for word in range(step + 1):
                fresh = word == step or not cached
                style = {"facecolor": ORANGE, "alpha": 0.85} if fresh else {"facecolor": BLUE, "alpha": 0.3}
                rectangle(axes, word - 0.42, step - 0.42, 0.84, 0.84, linewidth=0, **style)
        count = sum(1 if cached else step + 1 for step in range(steps))
        axes.set(aspect="equal", xlim=(-0.6, steps - 0.4), ylim=(steps - 0.4, -0.6))
        named(axes, range(1, steps + 1), range(1, steps + 1), 8)
        axes.tick_params(colors=GREY)
        title = f"{'with' if cached else 'without'} a cache: {count} vectors"
        label(axes, title, "word", "" if cached else "step")
    plain(right, "multiplications for n words", "n")
    words = np.unique(np.geomspace(1, 500, 30).astype(int))
    for cached, colour, name in ((False, ORANGE, "without a cache"), (True, GREEN, "with a cache")):
        right.loglog(words, [multiplications(n, cached) for n in words], color=colour, label=name)
    right.legend(fontsize=8)
    return figure
