"""draw_graph: a picture of the recorded calls behind a tensor, with the shapes that pass between them."""

from __future__ import annotations

import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from ..origin import Leaf, Origin
from ..tensor import Tensor


class _Box(NamedTuple):
    label: str
    kind: str  # "leaf", "call" or "result"

    @property
    def width(self) -> float:
        return 7.5 * max(map(len, self.label.split("\n"))) + 24


class _Edge(NamedTuple):
    start: str
    end: str
    label: str


def draw_graph(tensor: Tensor, path: str | Path | None = None, *, module: Any = None) -> str:
    """The graph behind `tensor` in Graphviz's DOT language: leaves on top, one box per call, shapes on the arrows.

    Beneath the name of a call of an op with several forms stands the one that served (`ops.explain` tells why).

    Args:
        tensor: a recorded result whose graph has not been freed. Inputs without a gradient are left out.
        path: also write it there: `NAME.dot` the text, `NAME.svg` a picture (drawn by Graphviz's `dot` where that is
            installed, else by a simple built-in layout, suitable for some dozens of calls).
        module: its parameters are named as in `module.named_parameters()`.

    Raises RuntimeError if nothing was recorded or the graph was freed, ValueError for another file suffix.
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
            path.write_text(_picture(dot, boxes, edges), encoding="utf-8")
        else:
            raise ValueError(f"draw_graph: {path.name} must end in .dot or .svg")
    return dot


def _collect(tensor: Tensor, parameters: dict[str, Tensor]) -> tuple[dict[str, _Box], list[_Edge]]:
    """All leaves and calls, oldest first, and the edges between them."""
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
            name, form = origin.node.name, origin.node.form
            boxes[key] = _Box(f"{name}\n{form}" if form else name, "call")
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


def _picture(dot: str, boxes: dict[str, _Box], edges: list[_Edge]) -> str:
    if shutil.which("dot"):
        return subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
    return _svg(boxes, edges)


def _layout(boxes: dict[str, _Box], edges: list[_Edge]) -> dict[str, tuple[float, float]]:
    """The middle of each box: calls a row below their lowest input, leaves just above their first use."""
    row: dict[str, int] = dict.fromkeys(boxes, 0)
    for end in boxes:  # oldest first: inputs come before the calls that use them
        row[end] = max((row[start] + 1 for start, other, _ in edges if other == end), default=0)
    for key, box in boxes.items():
        if box.kind == "leaf":
            row[key] = min(row[end] for start, end, _ in edges if start == key) - 1
    centre: dict[str, tuple[float, float]] = {}
    for number in range(max(row.values()) + 1):
        wanted = {}
        for key in (key for key in boxes if row[key] == number):
            above = [centre[start][0] for start, end, _ in edges if end == key and start in centre]
            wanted[key] = sum(above) / max(len(above), 1)
        left = 20.0
        for key in sorted(wanted, key=wanted.__getitem__):
            x = max(left + boxes[key].width / 2, wanted[key])
            centre[key], left = (x, 30.0 + 90 * number), x + boxes[key].width / 2 + 30
    return centre


_STYLE = """<style>
  text { font: 12px sans-serif; text-anchor: middle } text.shape { font-size: 10px; text-anchor: start }
  rect, line { stroke: black; marker-end: url(#tip) } rect { fill: #f2f2f2 }
  rect.leaf { fill: #dbe9ff; rx: 18px } rect.result { fill: #dff5df; rx: 18px }
</style>
<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">
  <path d="M0,0 L8,4 L0,8 z"/>
</marker>"""


def _svg(boxes: dict[str, _Box], edges: list[_Edge]) -> str:
    centre = _layout(boxes, edges)
    width = max(x + boxes[key].width / 2 for key, (x, _) in centre.items()) + 20
    height = max(y for _, y in centre.values()) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">', _STYLE]
    for start, end, label in edges:
        (x1, y1), (x2, y2) = centre[start], centre[end]
        x, y = (x1 + x2) / 2 + 4, (y1 + y2) / 2 + 4
        parts.append(f'<line x1="{x1:.0f}" y1="{y1 + 18:.0f}" x2="{x2:.0f}" y2="{y2 - 19:.0f}"/>')
        parts.append(f'<text class="shape" x="{x:.0f}" y="{y:.0f}">{escape(label)}</text>')
    for key, (x, y) in centre.items():
        box, lines = boxes[key], boxes[key].label.split("\n")
        corner = f'x="{x - box.width / 2:.0f}" y="{y - 18:.0f}"'
        parts.append(f'<rect class="{box.kind}" {corner} width="{box.width:.0f}" height="36"/>')
        for number, line in enumerate(lines):
            below = y + 4 + 14 * (number - (len(lines) - 1) / 2)
            parts.append(f'<text x="{x:.0f}" y="{below:.0f}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>\n"])
