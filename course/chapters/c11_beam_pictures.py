"""Chapter 11, the pictures: a tree in which greedy search fails, and sentences by length and probability."""

from itertools import product
from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, centred, new_diagram, new_figure, plain
from .c11_beam import BOS, EOS, Model, model
from .c11_beam_solution import beam_search, greedy, score, trap


def all_sentences(next_log_p: Model, limit: int, words: int) -> list[tuple[float, list[int]]]:
    """Return the log-probability of every sentence that ends with eos and has at most `limit` words, including eos."""
    inner = [word for word in range(words) if word not in (BOS, EOS)]
    result = []
    for length in range(limit):
        for ids in product(inner, repeat=length):
            said = [BOS, *ids, EOS]
            result.append((sum(next_log_p(said[:i])[said[i]] for i in range(1, len(said))), list(ids)))
    return result


def draw_trap() -> Any:
    figure, axes = new_diagram(3.1, 12, 7.4)
    table, names = trap(), {1: "end", 2: "a", 3: "b"}
    heights = {(): 3.6, (2,): 5.6, (3,): 1.7}
    heights |= {(2, 1): 6.8, (2, 2): 5.6, (2, 3): 4.4, (3, 1): 2.9, (3, 2): 1.7, (3, 3): 0.5}
    for path, y in heights.items():
        if not path:
            centred(axes, 0.6, y, "begin", 10)
            continue
        before = path[:-1]
        p = table[before[-1] if before else BOS, path[-1]]
        colour = RED if path in ((2,), (2, 1)) else GREEN if path in ((3,), (3, 1)) else "#9ca3af"
        start, end = (0.6 + 3.8 * len(before) + 0.5, heights[before]), (0.6 + 3.8 * len(path) - 0.5, y)
        axes.plot(*zip(start, end, strict=True), color=colour, linewidth=0.6 + 7 * p, solid_capstyle="butt", alpha=0.75)
        middle = 0.62 * np.array(end) + 0.38 * np.array(start)
        centred(axes, middle[0], middle[1], f"{p:.2f}", 8.5, bbox={"fc": "white", "ec": "none", "pad": 1})
        centred(axes, end[0] + 0.5, y, names[path[-1]], 10)
        if len(path) == 2:
            total = table[BOS, path[0]] * p
            more = " and more words" if path[-1] != EOS else ""
            found = {(2, 1): ": greedy ends here", (3, 1): ": the likeliest sentence"}.get(path, "")
            axes.text(9.0, y, f"{total:.3f}{more}{found}", va="center", fontsize=9, color=colour if found else GREY)
    return figure


def draw_lengths() -> Any:
    figure, axes = new_figure(3.3)
    title = "all sentences of a small model: length, log-probability, and the best ones"
    plain(axes, title, "words, including the end", "log-probability")
    next_log_p, limit = model(38), 8
    sentences = all_sentences(next_log_p, limit, 5)
    for length in range(1, limit + 1):
        likely = sorted((log_p for log_p, ids in sentences if len(ids) + 1 == length), reverse=True)[:25]
        axes.plot([length] * len(likely), likely, ".", color="#9ca3af", markersize=3)
    lengths = np.linspace(0.9, limit + 0.1, 100)
    for alpha, colour in ((0.0, BLUE), (1.0, GREEN), (2.0, ORANGE)):
        best, ids = max((score(log_p, len(ids) + 1, alpha), ids) for log_p, ids in sentences)
        axes.plot(lengths, best * ((5 + lengths) / 6) ** alpha, color=colour, linewidth=1)
        log_p = best * ((6 + len(ids)) / 6) ** alpha
        axes.plot(len(ids) + 1, log_p, "o", color=colour, markersize=7, label=f"best with alpha = {alpha:g}")
    ids, value = greedy(next_log_p, BOS, EOS, limit)
    axes.plot(min(len(ids) + 1, limit), value, "x", color=RED, markersize=8, markeredgewidth=2, label="greedy")
    ids, value = beam_search(next_log_p, BOS, EOS, 4, limit)
    axes.plot(len(ids) + 1, value, "s", color=BLUE, fillstyle="none", markersize=11, label="beam of 4, alpha = 0")
    axes.set_ylim(-12.5, 0)
    axes.legend(fontsize=8, loc="lower left", ncols=2)
    return figure
