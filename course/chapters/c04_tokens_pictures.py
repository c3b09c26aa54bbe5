"""Chapter 4, the pictures: a sentence cut by more and more merges, and how often the pairs occur."""

from collections import Counter
from functools import cache
from typing import Any

from ...tokenizer.pre_tokenizer import splitter
from ..drawing import BLUE, DARK, GREY, ORANGE, centred, new_diagram, new_figure, note, plain, rounded
from .c04_tokens_solution import count_pairs, encode, merge, train

TEXT = """The weaver sets up the loom in the morning. First the long threads are drawn through the loom, one beside the
other, then the shuttle carries the cross thread from the left to the right and from the right to the left. With each
throw of the shuttle the cloth grows by the breadth of a thread. The older weavers say that a good weaver never counts
the threads, but every weaver counts them in the end. When a thread breaks, the weaver stops the loom, finds both ends,
ties them together and goes on weaving. Nobody who looks at the finished cloth sees where the thread broke. In winter,
when the light is short, the weavers work together at the largest loom and tell each other of other winters, of longer
threads, of lighter looms and of a cloth that was so fine that it could be drawn through a ring. Whether there ever was
such a cloth nobody knows, but whoever weaves wants to weave it. The youngest weaver counts the threads twice: whatever
was counted once was counted wrong, the others say, and whatever was counted twice is at least wrong in the same way."""
SENTENCE = "The weaver counts the longest threads"
MERGES = 160


@cache
def trained() -> tuple[dict[tuple[int, ...], int], list[tuple[int, int]]]:
    words = Counter(tuple(word.encode()) for word in splitter()(" ".join(TEXT.split())))
    return dict(words), train(words, MERGES)


def spelt(tokens: Any, merges: Any) -> list[str]:
    texts = {byte: bytes([byte]) for byte in range(256)}
    for number, (left, right) in enumerate(merges):
        texts[256 + number] = texts[left] + texts[right]
    return [texts[token].decode() for token in tokens]


def draw_cuts() -> Any:
    _, merges = trained()
    rows = [0, 10, 40, MERGES]
    figure, axes = new_diagram(2.3, 50, 4 * len(rows) + 1.4)
    centred(axes, 1.0, 4 * len(rows) + 0.8, "merges", color=GREY)
    centred(axes, 48.6, 4 * len(rows) + 0.8, "tokens", color=GREY)
    for row, count in enumerate(rows):
        y, x = 4 * (len(rows) - row) - 2.4, 4.0
        words = splitter()(SENTENCE)
        tokens = [token for word in words for token in spelt(encode(tuple(word.encode()), merges[:count]), merges)]
        for token in tokens:
            long = len(token.strip()) > 1
            style = {"facecolor": "#cfe0f4" if long else "white", "edgecolor": BLUE, "linewidth": 0.8}
            rounded(axes, x + 0.08, y - 1.2, len(token) * 1.12 - 0.16, 2.4, 0.25, **style)
            for place, letter in enumerate(token):
                shown, colour = ("␣", GREY) if letter == " " else (letter, DARK)
                centred(axes, x + (place + 0.5) * 1.12, y, shown, 10, colour, family="DejaVu Sans Mono")
            x += len(token) * 1.12
        centred(axes, 1.0, y, str(count), 10)
        centred(axes, 48.6, y, str(len(tokens)), 10, ORANGE)
    return figure


def draw_counts() -> Any:
    words, merges = trained()
    often, lengths = [], []
    for number, pair in enumerate(merges):
        lengths.append(sum(len(tokens) * count for tokens, count in words.items()))
        often.append(count_pairs(words)[pair])
        words = {merge(tokens, pair, 256 + number): count for tokens, count in words.items()}
    figure, (left, right) = new_figure(2.6, 1, 2)
    plain(left, "how often the pair of each merge occurred", "merges")
    left.step(range(len(often)), often, where="post", color=BLUE, linewidth=1.6)
    left.set_yscale("log", base=2)
    left.set_yticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
    ties = Counter(often).most_common(1)[0]
    first = often.index(ties[0])
    line = {"arrowstyle": "-", "color": ORANGE}
    text, place = f"{ties[1]} pairs, {ties[0]} times each", (first + ties[1] / 2, ties[0])
    note(left, text, place, (0, 18), ha="center", arrowprops=line)
    plain(right, "tokens that the text needs", "merges").plot(lengths, color=BLUE, linewidth=1.8)
    right.set_ylim(0, None)
    return figure
