"""The view "Beam": the tree of a beam search with its layout, and the content of its cache.

Each step of the search is a column. From top to bottom, a column's slots contain the open sequences in the order of
their rows, the sequences that ended, and the dropped candidates.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from ..models.generation import BeamStep, beam_search, length_penalty
from .asking import Ask
from .subject import Search, Subject

WIDEST = 8
COLUMN, ROW = 96, 34  # pixels from column to column, from slot to slot


@dataclass
class Node:
    """One token of one hypothesis.

    Attributes:
        id, parent: number of the node, and number of its predecessor; the root's parent is None.
        step: column of the node.
        token: its text.
        log_probability: log-probability of the sequence up to this node, in nats.
        kind: "root", "open", "finished" or "pruned".
        score, length: score and number of tokens of the sequence, for a finished node.
        rank: rank, from 0, of a finished node among the returned hypotheses; None if it is not returned.
        cached: the last step that needs the node's key and value.
    """

    id: int
    parent: int | None
    step: int
    token: str
    log_probability: float
    kind: str
    score: float | None = None
    length: int | None = None
    rank: int | None = None
    cached: int = 0


class Tree:
    """The nodes of a beam search, added at each step that `beam_search` reports."""

    def __init__(self, subject: Subject, search: Search, alpha: float):
        self.subject, self.search, self.alpha = subject, search, alpha
        self.nodes = [Node(0, None, 0, search.begins, 0.0, "root")]
        self.open = [0]  # the node at the end of each open sequence
        self.held: list[dict[str, int]] = []
        self.finished: list[tuple[Node, list[int]]] = []

    def observe(self, step: BeamStep) -> None:
        past = self.search.state.past
        living = self._living()
        self.held.append({"nodes": past.shape[1], "living": int(past.any(axis=0).sum()), "copies": int(past.sum())})
        for node in living:
            node.cached = len(self.held)
        column = len(self.held)
        opened = [self._add(parent, column, [token], total, "open").id for total, parent, token in step.kept]
        ended = {(parent, *last) for parent, last, _ in step.complete}
        for parent, last, hypothesis in step.complete:
            divisor = length_penalty(step.length - self.search.prefix, self.alpha)
            node = self._add(parent, column, last, hypothesis.score * divisor, "finished")
            node.score, node.length = hypothesis.score, step.length - self.search.prefix
            self.finished.append((node, hypothesis.ids))
        kept = {(parent, token) for _, parent, token in step.kept} | ended
        for log_probability, parent, token in step.candidates:
            is_end = token == self.subject.tokenizer.eos_id and (parent,) in ended
            if (parent, token) not in kept and not is_end and log_probability > float("-inf"):
                self._add(parent, column, [token], log_probability, "pruned")
        self.open = opened

    def _living(self) -> list[Node]:
        """The nodes that belong to open sequences, each listed once."""
        found: dict[int, Node] = {}
        for end in self.open:
            at: int | None = end
            while at is not None and at not in found:
                found[at] = self.nodes[at]
                at = self.nodes[at].parent
        return list(found.values())

    def _add(self, parent: int, column: int, ids: list[int], log_probability: float, kind: str) -> Node:
        token = self.subject.shown(ids)[0] if ids else "<eos>"
        node = Node(len(self.nodes), self.open[parent], column, token, log_probability, kind)
        self.nodes.append(node)
        return node


def beam(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the tree of a beam search, with its layout, and the content of the cache at each step."""
    width, alpha = ask.whole("width", 1, WIDEST, 4), ask.number("alpha", 0.0, 2.0, 1.0)
    with subject.without(ask.heads_off()):
        search = subject.search(ask.text())
        tree = Tree(subject, search, alpha)
        found = beam_search(search.state, search.rules, width=width, alpha=alpha, n_best=width, observe=tree.observe)[0]
    for rank, hypothesis in enumerate(found):
        for node, ids in tree.finished:
            if ids == hypothesis.ids and node.score == hypothesis.score and node.rank is None:
                node.rank = rank
                break
    texts = [{"text": subject.tokenizer.decode(one.ids), "score": one.score} for one in found]
    return laid_out(tree.nodes) | {
        "found": texts,
        "held": tree.held,
        "bytes": search.bytes_per_node,
        "penalties": [length_penalty(length, alpha) for length in range(1, len(tree.held) + 1)],
    }


def laid_out(nodes: list[Node]) -> dict[str, Any]:
    """Return the nodes with their places in the picture, and the picture's size."""
    used: Counter[int] = Counter()  # slots of each column
    placed = []
    for node in nodes:
        slot = used[node.step]
        placed.append(asdict(node) | {"slot": slot, "x": COLUMN * node.step, "y": ROW * slot})
        used[node.step] += 1
    return {"nodes": placed, "width": COLUMN * (1 + max(used)), "height": ROW * max(used.values())}
