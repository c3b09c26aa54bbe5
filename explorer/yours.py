"""Run the attention and the beam search of a learner's course folder on the values of the explored model."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
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
SECONDS, WAIT = 10.0, 60.0  # limits for a learner's function: of processor time, and until it is ended


class Yours:
    """The functions of the course folder, run in a new process for each answer.

    `lock` is held only while the model computes. Raises InputError if there is no course.
    """

    def __init__(self, folder: Path, lock: AbstractContextManager[Any] | None = None):
        self.folder, self.lock = folder, lock or nullcontext()
        if not any((folder / file).is_file() for file, _ in BUILT.values()):
            raise InputError(
                f"There is no course in {folder}. To make a course folder: python -m handloom.course start DIR"
            )

    def answer(self, view: str, subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
        """Return the learner's result for the arguments that gave `theirs`, or the reason why there is none."""
        try:
            return {"name": BUILT[view][1]} | (self.attention if view == "head" else self.search)(subject, ask, theirs)
        except InputError as error:
            return {"name": BUILT[view][1], "problem": str(error)}

    def attention(self, subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
        """Return the learner's weights (1, queries, keys) of one head: the outputs, if the values are unit vectors."""
        with self.lock:
            layer = chosen_layer(subject.watched(ask.text(), ask.heads_off()), ask)
        number = ask.whole("head", 0, len(layer.weights) - 1)
        added, keys = layer.added()[number], layer.call.key[0, number]
        if added[np.isfinite(added)].any():
            raise InputError("This layer adds position biases to its scores, which `masked_attend` does not support.")
        given = {"q": layer.call.query[0, number], "k": keys, "v": np.eye(len(keys)), "mask": np.isfinite(added)}
        found = self.run("head", {name: array.tolist() for name, array in given.items()})
        if tuple(found["shape"]) != added.shape:
            raise InputError(
                f"`masked_attend` returns an array of shape {tuple(found['shape'])}, but it should have the shape "
                f"{added.shape}."
            )
        return {"weights": packed(np.array(found["weights"])[None])}

    def search(self, subject: Subject, ask: Ask, theirs: dict[str, Any]) -> dict[str, Any]:
        """Return the extended sequences, as nodes like those of `beam`; the result; and the first difference.

        The learner's search can take as many steps as handloom's search took.
        """
        with self.lock:
            rules = subject.search(ask.text()).rules
        if rules.bos_id is None:
            raise InputError("The course's `beam_search` begins with <bos>, a token that this model does not have.")
        asked: dict[tuple[int, ...], np.ndarray] = {}

        def next_log_p(ids: list[int]) -> list[float]:
            with self.lock, subject.without(ask.heads_off()):
                logits = subject.search(ask.text()).state.step(np.array([ids]))[0].astype(np.float64)
            shifted = logits - logits.max()
            asked[tuple(ids)] = shifted - np.log(np.exp(shifted).sum())
            return asked[tuple(ids)].tolist()

        width, alpha = ask.whole("width", 1, WIDEST, 4), ask.number("alpha", 0.0, 2.0, 1.0)
        own = {"bos": rules.bos_id, "eos": rules.eos_id, "width": width, "steps": len(theirs["held"]), "alpha": alpha}
        found = self.run("beam", own | {"vocabulary": subject.tokenizer.vocab_size}, next_log_p)
        if not asked:
            raise InputError("`beam_search` returns a result, but it never calls `next_log_p`.")
        nodes: dict[tuple[int, ...], Node] = {}
        for prefix in sorted(asked, key=len):
            parent, column = nodes.get(prefix[:-1]), len(prefix) - 1
            total = parent.log_probability + asked[prefix[:-1]][prefix[-1]] if parent else 0.0
            token, kind = (subject.token(prefix[-1]), "open") if column else ("<bos>", "root")
            nodes[prefix] = Node(len(nodes), parent.id if parent else None, column, token, total, kind)
            nodes[prefix].rank = 0 if list(prefix[1:]) == found["ids"] else None
        mine = laid_out(list(nodes.values()))
        return mine | {
            "text": subject.tokenizer.decode(found["ids"]),
            "score": found["score"],
            "differs": first_difference(paths(mine["nodes"]), paths(theirs["nodes"])),
        }

    def run(
        self, view: str, arguments: dict[str, Any], after: Callable[[list[int]], list[float]] | None = None
    ) -> dict[str, Any]:
        """Run the learner's function in a process with limits, and return its result. Raises InputError if it fails.

        `after` answers the questions of the function: the log-probabilities after some ids.
        """
        file, name = BUILT[view]
        command = [sys.executable, "-P", "-m", f"{__package__}.trying", str((self.folder / file).resolve()), name]
        own: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
        own["env"] = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen([*command, str(SECONDS)], start_new_session=True, **own) as process:
            timer = threading.Timer(WAIT, process.kill)
            timer.start()
            assert process.stdin is not None
            assert process.stdout is not None
            found: dict[str, Any] = {}
            try:
                with suppress(OSError, ValueError):  # the process may end at any time, and write anything
                    print(json.dumps(arguments), file=process.stdin, flush=True)
                    for line in process.stdout:
                        found = json.loads(line)
                        if "after" not in found or after is None:
                            break
                        print(json.dumps(after(found["after"])), file=process.stdin, flush=True)
            finally:
                timer.cancel()
                process.kill()
                with suppress(OSError):
                    process.stdin.close()
        if "problem" in found:
            raise InputError(found["problem"])
        if not found.keys() & {"ids", "weights"}:
            raise InputError(f"`{name}` of {file} gave no result within {WAIT:g} s, or ended its process.")
        return found


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
