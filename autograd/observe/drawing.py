"""draw_graph: a picture of the recorded calls that computed a tensor, with the shapes of their inputs and outputs."""

from typing import Any

from ...kinds import checked
from ..ops.registry import implemented
from ..origin import Leaf, Origin, graph_of
from ..tensor import Tensor


class Drawing(str):
    """The text of a graph, of which a notebook shows a picture."""

    boxes: list[tuple[str, str, str]]
    edges: list[tuple[str, str, str]]

    def _repr_svg_(self) -> str:
        from ...notebook import graph_svg

        return graph_svg(self.boxes, self.edges)


@checked
def draw_graph(tensor: Tensor, *, module: Any = None) -> Drawing:
    """Return the graph of the calls that computed `tensor`, in Graphviz's DOT language (`dot -Tsvg` draws a picture of
    it). Leaves are at the top, each call is a box, and the arrows show shapes. A notebook shows a simple picture of it.

    If an op has several implementations, the selected implementation is shown under the op's name (see `explain`).

    Args:
        tensor: a recorded result whose graph has not been freed. Inputs that do not require a gradient are not drawn.
        module: the module whose parameters are labelled with their names in `module.named_parameters()`.

    Raises RuntimeError if no graph was recorded, or if it was freed.
    """
    head = ['  node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];']
    names = {id(parameter): name for name, parameter in module.named_parameters()} if module is not None else {}
    boxes, edges = _parts(tensor, names)
    lines = [*(_box(*box) for box in boxes), *(f'  {a} -> {b} [label="{form}"];' for a, b, form in edges)]
    drawing = Drawing("\n".join(["digraph graph_of_calls {", *head, *lines, "}\n"]))
    drawing.boxes, drawing.edges = boxes, edges
    return drawing


def _parts(tensor: Tensor, names: dict[int, str]) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Return key, label and shape of each leaf and call, oldest first, and source, end and label of each edge. `names`
    maps ids of leaves to names.
    """
    if not tensor.requires_grad:
        raise RuntimeError("draw_graph: no graph was recorded: no input requires a gradient, or it was no_grad()")
    boxes, edges = [], []
    for origin in sorted(graph_of([tensor]), key=lambda origin: origin.number):
        if isinstance(origin, Leaf):
            label = f"{names.get(id(origin.tensor()), 'leaf')}\n{_form(origin)}"
            boxes.append((_key(origin), label, "ellipse"))
            continue
        if origin.node._saved is None:
            raise RuntimeError("draw_graph: backward() freed the graph: draw it before, or pass retain_graph=True")
        label = "\n".join(filter(None, (origin.node.name, implemented(type(origin.node))[1])))
        boxes.append((_key(origin), label, "box"))
        edges += [(_key(source), _key(origin), _form(source)) for source in origin.node.inputs if source is not None]
    boxes.append(("result", f"result\n{_form(tensor.origin)}", "doubleoctagon"))
    return boxes, [*edges, (_key(tensor.origin), "result", _form(tensor.origin))]


def _box(key: str, label: str, shape: str) -> str:
    quoted = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'  {key} [label="{quoted}", shape={shape}];'


def _key(origin: Origin) -> str:
    return f"{'leaf' if origin.node is None else 'call'}{origin.number}"


def _form(origin: Origin) -> str:
    return f"{origin.dtype}{list(origin.shape)}"
