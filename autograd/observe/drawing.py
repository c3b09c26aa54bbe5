"""draw_graph: a picture of the recorded calls behind a tensor, with the shapes that pass between them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from ..origin import Leaf, Origin
from ..tensor import Tensor


class _Box(NamedTuple):
    label: str
    kind: str  # "leaf", "call" or "result"


class _Edge(NamedTuple):
    start: str
    end: str
    label: str


def draw_graph(tensor: Tensor, path: str | Path | None = None, *, module: Any = None) -> str:
    """Return the graph behind `tensor` in Graphviz's DOT language.

    Leaves are on top, each call is a box, and arrows show shapes.

    If an op has several implementations, the selected one is shown under its name (see `explain`).

    Args:
        tensor: a recorded result whose graph has not been freed. Inputs without a gradient are left out.
        path: also write it there: `NAME.dot` the text, `NAME.svg` a picture that Graphviz's program `dot` draws.
        module: its parameters are named as in `module.named_parameters()`.

    Raises RuntimeError if nothing was recorded, the graph was freed or `dot` is needed and missing, ValueError for
    another file suffix.
    """
    boxes, edges = _collect(tensor, dict(module.named_parameters()) if module is not None else {})
    shapes = {"leaf": "ellipse", "call": "box", "result": "doubleoctagon"}
    lines = ["digraph graph_of_calls {", '  node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];']
    lines += [f'  {key} [label="{_quoted(box.label)}", shape={shapes[box.kind]}];' for key, box in boxes.items()]
    lines += [f'  {edge.start} -> {edge.end} [label="{edge.label}"];' for edge in edges]
    dot = "\n".join([*lines, "}\n"])
    if path is not None:
        path = Path(path)
        if path.suffix == ".dot":
            path.write_text(dot, encoding="utf-8")
        elif path.suffix == ".svg":
            path.write_text(_picture(dot, path), encoding="utf-8")
        else:
            raise ValueError(f"draw_graph: {path.name} must end in .dot or .svg")
    return dot


def _collect(tensor: Tensor, parameters: dict[str, Tensor]) -> tuple[dict[str, _Box], list[_Edge]]:
    """Return all leaves and calls, oldest first, and the edges between them."""
    if not tensor.requires_grad:
        raise RuntimeError("draw_graph: nothing was recorded: no input requires a gradient, or it was under no_grad()")
    origins: dict[str, Origin] = {}
    edges: list[_Edge] = []
    waiting = [tensor.origin]
    while waiting:
        origin = waiting.pop()
        key = _key(origin)
        if key in origins:
            continue
        origins[key] = origin
        if origin.node is None:
            continue
        if origin.node._saved is None:
            raise RuntimeError(
                "draw_graph: the graph was freed by backward(); draw it before, or pass retain_graph=True"
            )
        for source in origin.node.inputs:
            if source is not None:
                edges.append(_Edge(_key(source), key, _form(source)))
                waiting.append(source)
    names = {id(parameter): name for name, parameter in parameters.items()}
    boxes = {}
    for key, origin in sorted(origins.items(), key=lambda item: _number(item[1])):
        if isinstance(origin, Leaf):
            boxes[key] = _Box(f"{names.get(id(origin.tensor()), 'leaf')}\n{_form(origin)}", "leaf")
        else:
            name, chosen = origin.node.name, origin.node.implementation
            boxes[key] = _Box(f"{name}\n{chosen}" if chosen else name, "call")
    boxes["result"] = _Box(f"result\n{_form(tensor.origin)}", "result")
    edges.append(_Edge(_key(tensor.origin), "result", _form(tensor.origin)))
    return boxes, edges


def _number(origin: Origin) -> int:
    return origin.number if isinstance(origin, Leaf) else origin.node.number


def _key(origin: Origin) -> str:
    return f"{'leaf' if origin.node is None else 'call'}{_number(origin)}"


def _form(origin: Origin) -> str:
    return f"{origin.dtype}{list(origin.shape)}"


def _quoted(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _picture(dot: str, path: Path) -> str:
    if not shutil.which("dot"):
        raise RuntimeError(
            f"draw_graph: {path.name} is drawn by Graphviz's program dot, which is not installed: install graphviz, or "
            f"write {path.stem}.dot, which any viewer of Graphviz's language shows"
        )
    return subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
