"""Chapter 13, the pictures: the running values of one query, and the numbers in memory."""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, PALE, RED, centred, label, new_figure, plain, rectangle
from .c13_blocks_solution import slices, take_block

WARM = "#f5c9a3"


def draw_running() -> Any:
    figure, (top, middle, bottom) = new_figure(4.0, 3, 1, sharex=True, height_ratios=[5, 3, 4])
    rng = np.random.default_rng(4)
    scores, values = 1.3 * rng.standard_normal(32), rng.standard_normal((32, 2))
    scores[13], scores[22] = 3.4, 6.0
    m, total, o = np.array([-np.inf]), np.zeros(1), np.zeros((1, 2))
    ends, parts = [], []
    for block in slices(32, 4):
        m, total, o = take_block(m, total, o, scores[None, block], values[block])
        ends.append(block.stop - 0.5)
        parts.append((m[0], total[0], *(o / total[:, None])[0]))
    seen = np.array(parts)
    plain(top, "scores of one query (dots), and the largest so far, m")
    top.plot(range(32), scores, "o", color=GREY, markersize=3)
    top.step([-0.5, *ends], [seen[0, 0], *seen[:, 0]], color=RED, linewidth=1.4)
    plain(middle, "total, the sum of exp(score - m): it shrinks where m rises")
    middle.bar(np.array(ends) - 2, seen[:, 1], width=3.4, color=BLUE, alpha=0.7)
    plain(bottom, "o / total, the two numbers of the output so far; dashed: softmax over all", "key")
    for number, colour in ((0, GREEN), (1, ORANGE)):
        bottom.plot(np.array(ends) - 2, seen[:, 2 + number], "o-", color=colour, markersize=3.5, linewidth=1.2)
        bottom.axhline(seen[-1, 2 + number], color=colour, linestyle="--", linewidth=0.9)
    for axes in (top, middle, bottom):
        axes.grid(False)
        for end in ends:
            axes.axvline(end, color=PALE, linewidth=0.8, zorder=0)
        axes.set_xlim(-0.7, 31.7)
    return figure


def draw_held() -> Any:
    figure, (left, right) = new_figure(2.9, 1, 2, width_ratios=[4, 5])
    label(left, "what is in memory during one block")
    left.set(aspect="equal", xlim=(-4.4, 12.2), ylim=(13.4, -3.4))
    left.axis("off")

    def square(x: float, y: float, width: float, height: float, text: str = "", **style: Any) -> None:
        rectangle(left, x, y, width, height, linewidth=0.8, **style)
        centred(left, x + width / 2, y + height / 2, text, 8.5)

    for x in range(0, 12, 3):
        here = x == 6
        square(x, 0, 3, 12, "scores" if here else "", facecolor=WARM if here else "white", edgecolor="#cbd5e1")
        square(x, -2.3, 3, 1.6, "k, v" if here else "", facecolor=WARM if here else "#f3f4f6", edgecolor="#cbd5e1")
    square(-4.2, 0, 1.2, 12, "q", facecolor="#dbeafe", edgecolor=BLUE)
    square(-2.7, 0, 2.3, 12, "m\ntotal\no", facecolor="#dcfce7", edgecolor=GREEN)
    left.text(6, 12.9, "the rest of the table is not stored", ha="center", fontsize=8.5, color=GREY)
    plain(right, "numbers stored in addition to q, k, v (d = 64)", "length n")
    lengths = np.geomspace(64, 65536, 30)
    right.loglog(lengths, lengths**2, color=RED, label="the whole table: n²")
    right.loglog(lengths, 66 * lengths + 128 * lengths, color=ORANGE, label="all queries, blocks of 128 keys")
    right.loglog(lengths, 66 * lengths + 128 * 128, color=GREEN, label="blocks of 128 queries and 128 keys")
    right.legend(fontsize=8)
    return figure
