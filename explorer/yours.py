"""Run the attention and the beam search of a learner's course folder on the values of the explored model."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .asking import Ask
from .attention import chosen_layer
from .beam import WIDEST, Node, laid_out
from .packing import packed
from .subject import Subject

#: The file of the course and the function in it, by the name of the view.
BUILT = {"head": ("c06_head.py", "masked_attend"), "beam": ("c11_beam.py", "beam_search")}


class Yours:
    """The functions of the course folder, read again for each answer. Raises InputError if there is no course."""

    def __init__(self, folder: Path):
        self.folder = folder
        if not any((folder / file).is_file() for file, _ in BUILT.values()):
            raise InputError(
                f"There is no course in {folder}. To make a course folder: python -m handloom.course start DIR"
            )

    def answer(self, view: str, subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
        """Return the learner's result for the arguments that gave `theirs`, or the reason why there is none."""
        file, name = BUILT[view]
        found: dict[str, Any] = {"name": name}
        try:
            own = runpy.run_path(str(self.folder / file))[name]
            return found | (attention if view == "head" else search)(own, subject, ask, theirs)
        except InputError as error:
            return found | {"problem": str(error)}
        except (Exception, SystemExit) as error:  # whatever a learner's file may raise
            return found | {"problem": f"`{name}` of {file} raises {type(error).__name__}: {error}"}


def attention(attend: Callable[..., Any], subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the learner's weights (1, queries, keys) of one head: the outputs, if the values are unit vectors."""
    layer = chosen_layer(subject.watched(ask.text(), ask.heads_off()), ask)
    number = ask.whole("head", 0, len(layer.weights) - 1)
    added, keys = layer.added()[number], layer.call.key[0, number]
    if added[np.isfinite(added)].any():
        raise InputError("This layer adds position biases to its scores, which `masked_attend` does not support.")
    weights = np.asarray(attend(layer.call.query[0, number], keys, np.eye(len(keys)), np.isfinite(added)), float)
    if weights.shape != added.shape:
        raise InputError(
            f"`masked_attend` returns an array of shape {weights.shape}, but it should have the shape {added.shape}."
        )
    return {"weights": packed(weights[None])}


def search(beam_search: Callable[..., Any], subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the extended sequences, as nodes like those of `beam`; the result; and the first difference.

    The learner's search can take as many steps as handloom's search took.
    """
    rules = subject.search(ask.text()).rules
    if rules.bos_id is None:
        raise InputError("The course's `beam_search` begins with <bos>, a token that this model does not have.")
    asked: dict[tuple[int, ...], np.ndarray] = {}

    def next_log_p(ids: Any) -> np.ndarray:
        logits = subject.search(ask.text()).state.step(np.array([ids]))[0].astype(np.float64)
        shifted = logits - logits.max()
        asked[tuple(map(int, ids))] = shifted - np.log(np.exp(shifted).sum())
        return asked[tuple(map(int, ids))].copy()

    width, alpha, steps = ask.whole("width", 1, WIDEST, 4), ask.number("alpha", 0.0, 2.0, 1.0), len(theirs["held"])
    ids, score = beam_search(next_log_p, rules.bos_id, rules.eos_id, width, steps, alpha)
    nodes: dict[tuple[int, ...], Node] = {}
    for prefix in sorted(asked, key=len):
        parent, column = nodes.get(prefix[:-1]), len(prefix) - 1
        total = parent.log_probability + asked[prefix[:-1]][prefix[-1]] if parent else 0.0
        token, kind = (subject.token(prefix[-1]), "open") if column else ("<bos>", "root")
        nodes[prefix] = Node(len(nodes), parent.id if parent else None, column, token, total, kind)
        nodes[prefix].rank = 0 if list(prefix[1:]) == list(ids) else None
    mine = laid_out(list(nodes.values()))
    return mine | {
        "text": subject.tokenizer.decode(ids),
        "score": float(score),
        "differs": first_difference(paths(mine["nodes"]), paths(theirs["nodes"])),
    }


def paths(nodes: list[dict[str, Any]]) -> dict[int, set[str]]:
    """Return the texts of the open sequences after each step."""
    whole: dict[int, str] = {}
    found: dict[int, set[str]] = {}
    for node in nodes:
        whole[node["id"]] = f"{whole[node['parent']]} {node['token']}" if node["parent"] is not None else ""
        if node["kind"] == "open":
            found.setdefault(node["step"], set()).add(whole[node["id"]].strip())
    return found


def first_difference(mine: dict[int, set[str]], theirs: dict[int, set[str]]) -> dict[str, Any] | None:
    """Return the first step after which the open sequences differ, and the sequences that only one search has."""
    for step in sorted(mine.keys() | theirs.keys()):
        ours, others = mine.get(step, set()), theirs.get(step, set())
        if ours != others:
            return {"step": step, "yours": sorted(ours - others), "handlooms": sorted(others - ours)}
    return None
