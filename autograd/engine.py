"""The backward pass, and whether operations are recorded for one.

Calls are numbered as they are made and an input is always older than the call that uses it, so going through the
calls from the newest to the oldest meets each one after everything that used its result. A heap holds the calls that
wait; nothing is recursive, so a graph may be as deep as memory allows.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .backend import array_module, is_array
from .tensor import Origin, Tensor

if TYPE_CHECKING:
    from .function import Function


class _GradMode(threading.local):
    enabled = True


_grad_mode = _GradMode()
# Two threads may differentiate two graphs that share leaves.
_leaf_lock = threading.Lock()


def is_grad_enabled() -> bool:
    """Whether operations in this thread are being recorded."""
    return _grad_mode.enabled


class _SetGradMode(ContextDecorator):
    value: ClassVar[bool]

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(_grad_mode.enabled)
        _grad_mode.enabled = self.value

    def __exit__(self, *exception: object) -> None:
        _grad_mode.enabled = self._previous.pop()

    def _recreate_cm(self) -> _SetGradMode:
        return type(self)()  # a decorated function may run in several threads at once


class no_grad(_SetGradMode):  # noqa: N801  (reads as a statement: `with no_grad():`)
    """Context manager and decorator: operations inside are not recorded, in this thread."""

    value = False


class enable_grad(_SetGradMode):  # noqa: N801
    """Context manager and decorator: operations inside are recorded, even within `no_grad`."""

    value = True


class _Gradient:
    """A gradient that is being collected. `owned`: nobody else can hold the buffer, so it may be added to in place."""

    __slots__ = ("owned", "value")

    def __init__(self, value: Any, owned: bool):
        self.value = value
        self.owned = owned

    def add(self, value: Any) -> None:
        if self.owned:
            self.value += value
        else:
            # The first gradient may be shared (a + b hands one array to both), so the sum gets a buffer of its own.
            self.value = self.value + value
            if isinstance(self.value, np.generic):
                self.value = np.asarray(self.value)  # NumPy's sum of two 0-d arrays is a scalar
            self.owned = not isinstance(self.value, Tensor)


class _Pass:
    """One backward pass: the gradients collected so far and the calls that wait."""

    def __init__(self, create_graph: bool, targets: dict[Any, int]):
        self.create_graph = create_graph
        self.targets = targets  # origins whose gradient is asked for, by key -> position in the answer
        self.found: list[Any] = [None] * len(targets)
        self.nodes: dict[Function, list[_Gradient | None]] = {}
        self.leaves: dict[Origin, _Gradient] = {}
        self.heap: list[tuple[int, Function]] = []

    def give(self, origin: Origin, value: Any, owned: bool) -> None:
        """Add `value` to the gradient of the tensor that `origin` stands for."""
        node = origin.node
        if node is None:
            collected = self.leaves.get(origin)
            if collected is None:
                self.leaves[origin] = _Gradient(value, owned)
            else:
                collected.add(value)
            return
        slots = self.nodes.get(node)
        if slots is None:
            self.nodes[node] = slots = []
            heapq.heappush(self.heap, (-node.number, node))
        while len(slots) <= origin.slot:
            slots.append(None)
        existing = slots[origin.slot]
        if existing is None:
            slots[origin.slot] = _Gradient(value, owned)
        else:
            existing.add(value)

    def run(self, retain_graph: bool, oldest: int = -1) -> None:
        """Go back through the calls, down to number `oldest`: what is older can't lead to a target any more."""
        while self.heap and -self.heap[0][0] >= oldest:
            _, node = heapq.heappop(self.heap)
            slots = self.nodes.pop(node)
            incoming = [None if g is None else self._arrived(node, slot, g.value) for slot, g in enumerate(slots)]
            if len(incoming) < node.output_count:
                incoming += [None] * (node.output_count - len(incoming))
            del slots
            if node.number == oldest:
                return
            outgoing = node.input_gradients(incoming, self.create_graph)
            for position, (origin, value) in enumerate(zip(node.inputs, outgoing, strict=True)):
                if origin is not None and value is not None:
                    others = outgoing[:position] + outgoing[position + 1 :]
                    self.give(origin, value, _is_fresh(value, incoming, others))
            if not retain_graph:
                node.release()

    def _arrived(self, node: Function, slot: int, value: Any) -> Any:
        """The whole gradient of one output is here: call its hooks and note it if it was asked for."""
        if node.hooks:
            value = _run_hooks(node.hooks.get(slot), value)
        position = self.targets.get((node, slot))
        if position is not None:
            self.found[position] = value
        return value


def _is_fresh(value: Any, incoming: list[Any], others: list[Any]) -> bool:
    """Whether a backward rule made this array just now and for one input only, so that it may be added to in place."""
    return (
        isinstance(value, np.ndarray)
        and value.base is None
        and value.flags.writeable
        and not any(value is other for other in incoming)
        and not any(value is other for other in others)
    )


def _run_hooks(hooks: dict[int, Any] | None, value: Any) -> Any:
    for hook in list((hooks or {}).values()):
        changed = hook(value)
        if changed is not None:
            if changed.shape != value.shape or changed.dtype != value.dtype:
                raise ValueError(
                    f"a gradient hook returned {changed.dtype}{list(changed.shape)} for a gradient of "
                    f"{value.dtype}{list(value.shape)}: return the same shape and dtype, or None to leave it as it is"
                )
            value = changed
    return value


def _start(outputs: Sequence[Tensor], gradients: Sequence[Any], work: _Pass, caller: str) -> None:
    if len(outputs) != len(gradients):
        raise ValueError(f"{caller}: {len(outputs)} outputs but {len(gradients)} gradients")
    for output, gradient in zip(outputs, gradients, strict=True):
        if not output.requires_grad:
            raise RuntimeError(
                f"{caller}: the result (shape {output.shape}) does not depend on any tensor with requires_grad=True, "
                "or it was computed under no_grad()"
            )
        if gradient is None:
            if output.data.size != 1:
                raise RuntimeError(
                    f"{caller}: a result of shape {output.shape} needs an output gradient of that shape; only a single "
                    "number has an obvious one. Pass gradient=..., or reduce with sum() or mean() first"
                )
            gradient = array_module(output.data).ones_like(output.data)
        value = gradient.data if isinstance(gradient, Tensor) else gradient
        if not is_array(value):
            value = array_module(output.data).asarray(value, dtype=output.dtype)
        if value.shape != output.shape:
            raise ValueError(f"{caller}: output gradient of shape {value.shape} for a result of shape {output.shape}")
        if value.dtype != output.dtype:
            value = value.astype(output.dtype)
        if work.create_graph:
            value = gradient if isinstance(gradient, Tensor) and gradient.dtype == output.dtype else Tensor(value)
        work.give(output.origin, value, owned=False)


def backward(output: Tensor, gradient: Any = None, *, retain_graph: bool = False) -> None:
    """Add d(output)/d(leaf), contracted with `gradient`, to `leaf.grad` of every leaf that `output` depends on.

    `gradient` has the output's shape; it may be left out for a single number. The graph is freed on the way unless
    `retain_graph`. Raises RuntimeError if nothing requires a gradient or the graph was freed before.
    """
    work = _Pass(create_graph=False, targets={})
    _start([output], [gradient], work, "backward")
    with no_grad():
        work.run(retain_graph)
    for origin, collected in work.leaves.items():
        leaf = origin.leaf()
        if leaf is None:  # the tensor is gone, and with it the only place to put the gradient
            continue
        value = _run_hooks(origin.hooks, collected.value)
        with _leaf_lock:
            if leaf.grad is not None:
                leaf.grad += value
            else:
                # `grad` is the caller's to change, so it must not share memory with anything.
                leaf.grad = value if collected.owned and value is collected.value else value.copy()


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> Any:
    """The gradient of `outputs` with respect to `inputs`, as Tensors; no `.grad` is touched.

    `grad_outputs`: one array or Tensor for each output, of its shape; None for outputs that are single numbers.
    `create_graph=True` records the backward pass itself, so that the result can be differentiated again (and implies
    `retain_graph`). An input that the outputs don't depend on gets zeros.
    Returns a Tensor if `inputs` is one Tensor, else a list. Raises RuntimeError as `backward` does.
    """
    many_outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    many_inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is None:
        gradients: list[Any] = [None] * len(many_outputs)
    else:
        gradients = [grad_outputs] if isinstance(outputs, Tensor) else list(grad_outputs)
    for position, tensor in enumerate(many_inputs):
        if not tensor.requires_grad:
            raise RuntimeError(f"grad: input {position} (shape {tensor.shape}) does not require a gradient")
    targets = {_key(tensor.origin): position for position, tensor in enumerate(many_inputs)}
    work = _Pass(create_graph, targets)
    work.found = [None] * len(many_inputs)
    _start(many_outputs, gradients, work, "grad")
    with enable_grad() if create_graph else no_grad():
        work.run(
            create_graph if retain_graph is None else retain_graph,
            oldest=min((t.origin.number for t in many_inputs), default=0),
        )
    for origin, collected in work.leaves.items():
        if origin in targets:
            work.found[targets[origin]] = _run_hooks(origin.hooks, collected.value)
    results = []
    for tensor in many_inputs:
        value = work.found[targets[_key(tensor.origin)]]
        if value is None:
            value = array_module(tensor.data).zeros_like(tensor.data)
        results.append(value if isinstance(value, Tensor) else Tensor(value))
    return results[0] if isinstance(inputs, Tensor) else results


def _key(origin: Origin) -> Any:
    """What identifies a tensor in a pass: a leaf by its origin, a result by its call and output number."""
    return origin if origin.node is None else (origin.node, origin.slot)
