"""Draw the compression, token lengths and first merges of a BPE tokenizer, and a coloured text.
`explore` computes the numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import atomic_file
from .bpe import BPETokenizer
from .explore import Compression, MergeTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#f4b6b6", "#f7e6a1", "#b9e3b4", "#b5d3f0", "#d5bfe8", "#f8d1a6")
_LINES = 12  # tokens of the text that are drawn: more would not be readable, and would take too long
_LINE, _BAR, _GRID = "#4477aa", "#88aacc", "#dddddd"


def draw_exploration(
    tokenizer: BPETokenizer,
    compressions: Sequence[Compression],
    lengths: dict[int, int],
    trees: Sequence[MergeTree],
    text: str,
    out_png: str | Path,
) -> None:
    """Draw four panels and write them to a PNG file.

    Args:
        tokenizer: the tokenizer that encodes `text` for the last panel.
        compressions: the compression with several vocabulary sizes.
        lengths: the number of tokens for each length in bytes.
        trees: the trees of the first merges.
        text: a short text, such as one or two sentences.
        out_png: the file to write.

    Raises:
        InputError: the file can't be written.
    """
    # Imported here: the rest of the package does not need matplotlib, and importing it takes half a second.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 11), layout="constrained", dpi=110)
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplot_mosaic(
        [["compression", "lengths"], ["trees", "trees"], ["text", "text"]], height_ratios=[3, 4, 1.6]
    )
    _draw_compression(panels["compression"], compressions)
    _draw_lengths(panels["lengths"], lengths)
    _draw_trees(panels["trees"], trees)
    _draw_text(panels["text"], tokenizer.tokens(text))
    with atomic_file(out_png) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # scripts that the font lacks
        canvas.print_png(file)


def _draw_compression(panel: Axes, compressions: Sequence[Compression]) -> None:
    panel.set_title("compression by vocabulary size")
    sizes = [point.vocab_size for point in compressions]
    panel.plot(sizes, [point.bytes_per_token for point in compressions], color=_LINE, marker="o")
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
    panel.minorticks_off()
    panel.set_xlabel("tokens in the vocabulary")
    panel.set_ylabel("bytes per token")
    panel.grid(color=_GRID)


def _draw_lengths(panel: Axes, lengths: dict[int, int]) -> None:
    panel.set_title("lengths of the tokens")
    panel.bar(list(lengths), list(lengths.values()), color=_BAR)
    panel.set_xlabel("bytes")
    panel.set_ylabel("tokens in the vocabulary")


def _draw_trees(panel: Axes, trees: Sequence[MergeTree]) -> None:
    """Draw the bytes in a row at the bottom, and each merged token above its two parts, with the number of the merge.
    """
    panel.set_title("the first merges")
    panel.axis("off")
    column = 0.0

    def draw(tree: MergeTree) -> tuple[float, float]:
        nonlocal column
        if not tree.parts:
            point = (column, 0.0)
            column += 1
        else:
            below = [draw(part) for part in tree.parts]
            point = (sum(x for x, _ in below) / len(below), 1 + max(y for _, y in below))
            for x, y in below:
                panel.plot([point[0], x], [point[1], y], color=_GRID, zorder=1)
        label = tree.token if tree.rank is None else f"{tree.token}\n{tree.rank + 1}"
        colour = "white" if tree.rank is None else _COLOURS[tree.rank % len(_COLOURS)]
        box = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": _GRID}
        panel.text(*point, label, parse_math=False, ha="center", va="center", fontsize=8, zorder=2, bbox=box)
        return point

    highest = 1.0
    for tree in trees:
        highest = max(highest, draw(tree)[1])
        column += 0.6
    panel.set_xlim(-1, column)
    panel.set_ylim(-0.6, highest + 0.6)


def _draw_text(panel: Axes, tokens: Sequence[str], columns: int = 110) -> None:
    """Draw the first tokens on coloured backgrounds, in a fixed-width font and in lines of `columns` characters."""
    from matplotlib.patches import Rectangle

    panel.axis("off")
    panel.set_title("a text, token by token")
    line, column = 0, 0
    for i, token in enumerate(tokens):
        if column and column + len(token) > columns:
            line, column = line + 1, 0
        if line == _LINES:
            break
        token = token[:columns]
        colour = _COLOURS[i % len(_COLOURS)]
        panel.add_patch(Rectangle((column, line + 0.05), len(token), 0.9, facecolor=colour))
        for offset, character in enumerate(token):
            # Measuring all letters for the layout would take seconds.
            where: dict[str, Any] = {"ha": "center", "va": "center", "in_layout": False}
            panel.text(column + offset + 0.5, line + 0.5, character, parse_math=False, family="monospace", **where)
        column += len(token)
    panel.set_xlim(0, columns)
    panel.set_ylim(max(min(line + 1, _LINES), 3), 0)
