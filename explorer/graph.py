"""The view "Graph", a list of a training step's calls, folded by module, with arcs that show where values are used.

Rows are in the order of the calls, indented by module. A row is a call, the heading of an open module, or a closed
module with all its calls. An arc leads from the row that computes a value to the row that uses it. Arcs are drawn in
lanes next to the rows, short arcs in the nearest lanes.
"""

import inspect
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ..autograd import Tensor, grad
from ..autograd.gradcheck.planting import source_of
from ..autograd.ops.elementwise import Elementwise
from ..autograd.ops.registry import implemented
from ..autograd.row_gradient import as_dense
from .asking import Ask
from .packing import packed
from .step import RecordedStep, StepCall
from .subject import Subject

ROW, LANE = 30, 9  # pixels from row to row, from lane to lane
MAX_OPEN = 2000
PREVIEW = 12, 32  # rows and columns of an array that are shown


def graph(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the rows and arcs of the training step on a text, for the modules that are open."""
    step = subject.step(ask.text())
    opened = ask.names("open", MAX_OPEN) if "open" in ask.body else default_open(step)
    rows = folded(step, set(opened))
    row_of = {number: i for i, row in enumerate(rows) if row["kind"] != "open" for number in row["calls"]}
    edges = sorted({
        (row_of[source], row_of[call.number])
        for call in step.calls
        for source in call.sources
        if isinstance(source, int) and row_of[source] != row_of[call.number]
    })  # fmt: skip
    return {
        "text": ask.text(),
        "loss": step.loss,
        "evaluated": step.evaluated,
        "count": len(step.calls),
        "open": sorted(opened),
        "rows": [{**row, "y": ROW * i} for i, row in enumerate(rows)],
        "arcs": lanes(edges),
        "parts": {".".join(call.module): call.number for call in reversed(step.calls)},  # the first call of each module
        "height": ROW * len(rows),
        "parameters": [
            {"name": name, "shape": list(gradient.shape), "norm": float(np.linalg.norm(gradient))}
            for name, gradient in step.gradients.items()
        ],
    }


def default_open(step: RecordedStep) -> list[str]:
    """Return the modules that are open initially, which are the stacks of layers but not the layers in them."""
    runs = groupby(step.calls, lambda call: call.module[:1])
    found = [(list(run), module) for module, run in runs]
    return sorted(f"{module[0]}#{run[0].number}" for run, module in found if any(len(one.module) > 1 for one in run))


def folded(step: RecordedStep, opened: set[str]) -> list[dict[str, Any]]:
    """Return the rows. Each contiguous run of a module's calls has a separate row, so that all arcs lead downwards."""
    rows: list[dict[str, Any]] = []

    def add(calls: list[StepCall], depth: int) -> None:
        for module, group in groupby(calls, lambda call: call.module[: depth + 1]):
            run = list(group)
            if len(module) <= depth or len(run) == 1:  # nothing to fold
                rows.extend(_call_row(one, depth) for one in run)
                continue
            key = f"{'.'.join(module)}#{run[0].number}"
            is_open = key in opened
            rows.append(_row("open" if is_open else "closed", key, module[-1], depth, run))
            if is_open:
                add(run, depth + 1)

    add(step.calls, 0)
    return rows


def _row(kind: str, key: str, name: str, depth: int, calls: list[StepCall]) -> dict[str, Any]:
    """Return a row with the shape of the last call's result and the norm of the gradient with respect to it."""
    last = calls[-1].seen
    arrived = [g for g in last.output_gradients or [] if g is not None]
    norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in arrived))) if arrived else None
    numbers, shape = [call.number for call in calls], list(np.shape(last.outputs[0]))
    return {"kind": kind, "key": key, "name": name, "depth": depth, "calls": numbers, "shape": shape, "norm": norm}


def _call_row(call: StepCall, depth: int) -> dict[str, Any]:
    return _row("call", f"call {call.number}", call.name, depth, [call]) | {
        "module": ".".join(call.module[depth:]),
        "form": form(call),
        "parameters": [name.rpartition(".")[2] for name in call.parameters],
    }


def form(call: StepCall) -> str:
    """Return "fused" for a call that replaces several small ops, and "plain" for other calls."""
    return "fused" if getattr(call.seen.call, "composed", None) else "plain"


def lanes(edges: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return each edge with its lane, the nearest that no shorter edge over the same rows uses."""
    taken: list[list[tuple[int, int]]] = []
    found = []
    for start, end in sorted(edges, key=lambda edge: (edge[1] - edge[0], edge)):
        lane = 0
        while lane < len(taken) and any(start < other_end and other < end for other, other_end in taken[lane]):
            lane += 1
        if lane == len(taken):
            taken.append([])
        taken[lane].append((start, end))
        found.append({"from": start, "to": end, "lane": lane, "x": LANE * (lane + 1)})
    return found


def call(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return a call's values, gradients, saved arrays and source code, and the composed version of a fused call."""
    step = subject.step(ask.text())
    one = step.calls[ask.whole("call", 0, len(step.calls) - 1)]
    seen = one.seen
    gradients = seen.input_gradients or []
    arrived = seen.output_gradients or [None] * len(seen.outputs)
    return {
        "number": one.number,
        "name": one.name,
        "module": ".".join(one.module),
        "form": form(one),
        "inputs": [
            {
                "name": operand(one, number),
                "source": _source_text(step, source),
                "value": shown(value),
                "gradient": shown(g),
            }
            for number, (source, value, g) in enumerate(zip_longest(one.sources, seen.inputs, gradients))
        ],
        "outputs": [{"value": shown(v), "gradient": shown(g)} for v, g in zip(seen.outputs, arrived, strict=True)],
        "saved": [shown(value) for value in (*seen.call.saved, *seen.call.kept) if isinstance(value, np.ndarray)],
        "about": inspect.getdoc(implemented(type(seen.call))[0]) or "",
        "sources": sources_of(one),
        "composed": composed(one),
    }


def _source_text(step: RecordedStep, source: int | str | None) -> str:
    if source is None:
        return "no gradient"
    if isinstance(source, str):
        return source
    return f"call {source}, {step.calls[source].name}"


def shown(value: Any) -> dict[str, Any] | None:
    """Return the shape, dtype and range of an array, and its first elements, at most PREVIEW rows and columns."""
    if value is None:
        return None
    array = np.asarray(as_dense(value))
    numbers = array.astype(np.float64) if array.dtype.kind in "fiub" else np.zeros(0)
    flat = numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim else numbers.reshape(1, 1)
    finite = numbers[np.isfinite(numbers)]
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "least": float(finite.min()) if finite.size else None,
        "largest": float(finite.max()) if finite.size else None,
        "norm": float(np.linalg.norm(finite)) if finite.size else None,
        "first": packed(flat[: PREVIEW[0], : PREVIEW[1]], np.float64),
    }


def operand(call: StepCall, index: int) -> str:
    """Return the name of an operand in the op's signature, such as "query", or "parts 2" for an element of a list."""
    kind = type(call.seen.call)
    plain = implemented(kind)[0]  # a quick implementation may take its operands as `*operands`
    names = list(inspect.signature(getattr(plain, "forward", plain)).parameters.values())[isinstance(plain, type) :]
    name = names[min(index, len(names) - 1)]
    return f"{name.name} {index + 1}" if name.kind is name.VAR_POSITIONAL else name.name


def sources_of(one: StepCall) -> list[dict[str, Any]]:
    """Return the source code of the plain implementation if a quick one was used, and then of the call's rules."""
    kind = type(one.seen.call)
    texts = {name: getattr(kind, name, None) or getattr(one.seen.call, name, None) for name in ("forward", "backward")}
    if issubclass(kind, Elementwise):
        texts = {"the row of its table": kind.gradient}
    plain = implemented(kind)[0]
    if plain is not kind:
        texts = {"plain": plain} | texts
    found = []
    for name, function in texts.items():
        if function is None:
            continue
        try:
            text, line = source_of(function), inspect.getsourcelines(function)[1]
            path = Path(inspect.getsourcefile(function) or "")
        except (OSError, TypeError):
            continue  # a builtin, or an installation without its sources
        where = f"{path.parent.name}/{path.name}:{line}"
        found.append({"name": name, "text": inspect.cleandoc("\n" + text), "file": where})
    return found


def composed(one: StepCall) -> dict[str, Any] | None:
    """Return a fused call's gradients, those of the same computation by small ops, and their differences."""
    call: Any = one.seen.call
    seen = one.seen
    if getattr(call, "composed", None) is None or not seen.input_gradients:
        return None
    floats = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in call.saved]
    leaves = [Tensor(np.array(x), requires_grad=True) if own else x for x, own in zip(call.saved, floats, strict=True)]
    made = call.composed(*leaves)
    outputs = made if isinstance(made, tuple) else (made,)
    arrived = seen.output_gradients or []
    pairs = [(out, g) for out, g in zip(outputs, arrived, strict=False) if g is not None and out.requires_grad]
    wanted = [i for i, leaf in enumerate(leaves[: len(call.needs)]) if isinstance(leaf, Tensor) and call.needs[i]]
    found = grad([out for out, _ in pairs], [leaves[i] for i in wanted], [g for _, g in pairs])
    rows = []
    for number, gradient in zip(wanted, found, strict=True):
        small, own = gradient.data, np.asarray(seen.input_gradients[number])
        size = float(np.abs(small).max(initial=0.0))
        difference = float(np.abs(small.reshape(own.shape) - own).max(initial=0.0))
        rows.append({
            "input": number,
            "source": one.sources[number] if isinstance(one.sources[number], str) else operand(one, number),
            "fused": shown(own),
            "composed": shown(small),
            "difference": difference,
            "relative": difference / size if size else difference,
        })  # fmt: skip
    return {"value": float(np.abs(outputs[0].data - seen.outputs[0]).max(initial=0.0)), "gradients": rows}
