"""Chapter 6, the pictures: scores, weights and output of a head, and the masks."""

from typing import Any

import numpy as np

from ..drawing import heat, new_figure
from .c06_head_solution import causal_mask, padding_mask

WORDS = ["the", "cat", "saw", "its", "tail"]


def scores_and_weights() -> tuple[np.ndarray, np.ndarray]:
    """Return invented scores, with which "its" looks at "cat", and their weights."""
    scores = np.array(
        [
            [1.2, 0.8, 0.1, 0.0, 0.3],
            [0.9, 1.6, 0.4, 0.2, 0.6],
            [0.1, 1.9, 0.7, 0.1, 1.4],
            [0.2, 2.6, 0.3, 0.5, 0.9],
            [0.1, 1.2, 0.9, 1.7, 1.1],
        ]
    )
    e = np.exp(scores)
    return scores, e / e.sum(axis=1, keepdims=True)


def draw_weights() -> Any:
    scores, weights = scores_and_weights()
    figure, (left, right) = new_figure(3.2, 1, 2)
    words: dict[str, Any] = {"rows": WORDS, "columns": WORDS, "x": "at whom (keys)"}
    heat(left, scores, title="scores: q · k / sqrt(d)", numbers="{:.1f}", y="who looks (queries)", **words)
    heat(right, weights, title="weights: each row sums to 1", **words)
    return figure


def draw_masks() -> Any:
    figure, (first, second, third) = new_figure(2.6, 1, 3, width_ratios=[5, 5, 5])
    weights = scores_and_weights()[1]

    def shown(axes: Any, mask: np.ndarray, rows: list[str], title: str) -> None:
        array = np.where(mask, weights[-len(mask) :], np.nan)
        array = array / np.nansum(array, axis=1, keepdims=True)
        heat(axes, array, rows=rows, columns=WORDS, title=title, numbers="{:.1f}", top=1.0)

    shown(first, causal_mask(5, 5), WORDS, "causal: nobody looks ahead")
    shown(second, causal_mask(2, 5), WORDS[-2:], "causal: the last two")
    lengths = padding_mask(np.array([3]), 5).repeat(5, axis=0)
    words = [*WORDS[:3], "pad", "pad"]
    shown(third, lengths, words, "padding: three words")
    third.set_xticks(range(5), words)
    return figure
