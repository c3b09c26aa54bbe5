"""The backward pass.

Calls are numbered as they are made, and an input is always older than the call that uses it. The pass goes from the
newest call to the oldest, so it processes each call after all calls that used its result. The calls still to be
processed are in a heap. There is no recursion, so a graph can be as deep as memory allows.
"""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kinds import checked
from .backend import array_module, device_of, is_array, native
from .changes import changes
from .function import Function
from .gradient import Gradient, is_unshared, run_hooks, separate
from .origin import Leaf, Origin, enable_grad, leaf_lock, no_grad
from .tensor import Tensor, array_of


class Pass:
    """One backward pass: the gradients collected so far, and the calls still to be processed."""

    def __init__(self, create_graph: bool = False):
        self.create_graph = create_graph
        self.nodes: dict[Function, list[Gradient | None]] = {}
        self.leaves: dict[Leaf, Gradient] = {}
        self.heap: list[tuple[int, Function]] = []
        # In a pass for `grad`, by `_key` of the tensors whose gradients are requested:
        self.found: dict[Any, Any] = {}
        # Of the calls from which one of these can be reached, by number: which inputs lead to one, None for all.
        self.leading: dict[int, list[bool] | None] | None = None
        self.needed: set[int] = set()  # the numbers of these tensors and of the leading calls

    def start(self, outputs: Sequence[Tensor], gradients: Sequence[Any], caller: str) -> None:
        """Give the outputs their gradients: numbers, arrays or Tensors of the output's shape; None is 1."""
        if len(outputs) != len(gradients):
            raise ValueError(f"{caller}: {len(outputs)} outputs but {len(gradients)} output gradients")
        for output, gradient in zip(outputs, gradients, strict=True):
            if not output.requires_grad:
                raise RuntimeError(
                    f"{caller}: the result (shape {output.shape}) does not depend on any tensor with "
                    "requires_grad=True, or it was computed under no_grad()"
                )
            if gradient is None:
                if output.data.size != 1:
                    raise RuntimeError(
                        f"{caller}: a result of shape {output.shape} needs an output gradient of that shape: pass "
                        "gradient=..., or first reduce the result to a single number with sum() or mean()"
                    )
                gradient = array_module(output.data).ones_like(output.data)
            origin, dtype = output.origin, output.dtype
            if dtype == np.float16 and self.leading is None and (node := origin.node) is not None:
                dtype = dtype if node.float16 == "kept" or node.hooks else np.dtype(np.float32)
            value = array_of(gradient)
            value = native(value) if is_array(value) else array_module(output.data).asarray(value, dtype=dtype)
            if value.shape != output.shape:
                raise ValueError(
                    f"{caller}: the output gradient has shape {value.shape}, but the result has shape {output.shape}"
                )
            if value.dtype.kind not in "fiub":
                raise TypeError(f"{caller}: the output gradient must have real numbers, not {value.dtype}")
            if self.create_graph:
                value = gradient if isinstance(gradient, Tensor) else Tensor(value)
            if self.leading is None or origin.number in self.needed:
                self.give(origin, value if value.dtype == dtype else value.astype(dtype), owned=False)

    def give(self, origin: Origin, value: Any, owned: bool) -> None:
        """Add `value` to the gradient of the tensor with this `origin`."""
        if isinstance(origin, Leaf):
            existing = self.leaves.get(origin)
            if existing is None:
                self.leaves[origin] = Gradient(value, owned)
                return
        else:
            node = origin.node
            slots = self.nodes.get(node)
            if slots is None:
                self.nodes[node] = slots = [None] * node.output_count
                heapq.heappush(self.heap, (-node.number, node))
            existing = slots[origin.slot]
            if existing is None:
                slots[origin.slot] = Gradient(value, owned)
                return
        existing.add(value, owned)

    def run(self, retain_graph: bool) -> None:
        """Process the calls from the newest to the oldest."""
        while self.heap:
            # In a separate function, so that its buffers are freed before the next call allocates more.
            self.step(heapq.heappop(self.heap)[1], retain_graph)

    def step(self, node: Function, retain_graph: bool) -> None:
        """Compute the gradients of a call's inputs from the complete gradients of its outputs."""
        incoming = [None if gradient is None else gradient.value for gradient in self.nodes.pop(node)]
        wanted = None
        if node.hooks is not None or self.leading is not None:
            incoming = [None if g is None else self._complete(node, slot, g) for slot, g in enumerate(incoming)]
            if self.leading is not None:
                if node.number not in self.leading:
                    return  # a requested tensor that depends on no other
                wanted = self.leading[node.number]
        inputs = node.inputs  # which another thread's pass may release
        outgoing = node.input_gradients(incoming, self.create_graph, wanted)
        for origin, value in zip(inputs, outgoing, strict=True):
            if origin is not None and value is not None:
                self.give(origin, value, is_unshared(value, incoming, outgoing))
        if not retain_graph:
            node.release()

    def _complete(self, node: Function, slot: int, value: Any) -> Any:
        """Call the hooks on an output's complete gradient, store the gradient if it was requested, and return it."""
        if node.hooks is not None:
            value = run_hooks(node.hooks.get(slot), value)
        if (node.number, slot) in self.found:
            # The pass continues with the array itself.
            self.found[node.number, slot] = value if self.create_graph else value.copy()
        return value

    def seek(self, outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        """Restrict the pass to the calls from which one of `targets` can be reached."""
        self.found = dict.fromkeys(_key(tensor.origin) for tensor in targets)
        self.needed = {number for number, _ in self.found}
        oldest, calls = min(self.needed, default=0), {}
        waiting = [tensor.origin.node for tensor in outputs]
        while waiting:
            node = waiting.pop()
            if node is not None and node.number > oldest and node.number not in calls:
                calls[node.number] = node
                if not node.inputs:  # a freed call no longer knows its inputs
                    raise node.freed()
                waiting += [origin.node for origin in node.inputs if origin is not None]
        self.leading = {}
        for number in sorted(calls):  # inputs first
            inputs = [
                None if o is None else o.number if o.node is None else o.node.number for o in calls[number].inputs
            ]
            wanted = [n in self.needed for n in inputs]  # None is not
            if True in wanted:
                self.leading[number] = wanted if any(n not in self.needed for n in inputs if n is not None) else None
                self.needed.add(number)

    def deliver(self, origin: Leaf) -> None:
        """Add the collected gradient to its leaf's `grad`."""
        value, leaf = self.leaves.pop(origin).finished(origin.hooks), origin.tensor()
        if leaf is None:  # the tensor, and with it its `grad`, was freed
            return
        if not _alike(value, leaf.data):
            raise _replaced("backward", leaf, value)
        with leaf_lock:
            former = leaf.grad_or_rows
            if former is None:
                leaf.grad_or_rows = value
                return
            if not _alike(former, value):
                raise RuntimeError(
                    f"backward: a leaf {_form(value)} still has the gradient of its former array, {_form(former)}: set "
                    "its grad to None first"
                )
            total = Gradient(former, owned=True)
            total.add(value, owned=True)
            leaf.grad_or_rows = total.value
            if is_array(total.value):
                changes.note(total.value)


def _key(origin: Origin) -> tuple[int, int]:
    """Return the key of a tensor in a pass: the number of the call or leaf, and which of the call's outputs it is."""
    return origin.number, origin.slot


def _alike(x: Any, y: Any) -> bool:
    on_one_device = type(x) is type(y) is np.ndarray or device_of(x) == device_of(y)
    return on_one_device and x.shape == y.shape and x.dtype == y.dtype


def _form(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)} on {device_of(x)}"


def _replaced(caller: str, leaf: Tensor, gradient: Any) -> RuntimeError:
    return RuntimeError(
        f"{caller}: a leaf's array was replaced between the forward and the backward pass: it is now "
        f"{_form(leaf.data)}, but the gradient is {_form(gradient)}"
    )


def backward(output: Tensor, gradient: Any = None, *, retain_graph: bool = False) -> None:
    """Add the gradient of sum(gradient * output) to `leaf.grad` of every leaf on which `output` depends.

    `gradient` has the output's shape; it is 1 by default for a single number. The pass frees the graph unless
    `retain_graph` is true. Raises RuntimeError if nothing requires a gradient, or if an earlier pass freed the graph.
    """
    work = Pass()
    work.start([output], [gradient], "backward")
    with no_grad():
        work.run(retain_graph)
        for origin in list(work.leaves):
            work.deliver(origin)


@checked
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs` as Tensors, without changing any `.grad`.

    `grad_outputs` has one array or Tensor of the output's shape for each output, or None for a single number.
    `create_graph=True` records the backward pass, so that the result can be differentiated again. It implies
    `retain_graph`. The gradient of an input on which no output depends is 0. Returns a Tensor if `inputs` is one
    Tensor, else a list of Tensors. Raises RuntimeError if an output or input does not require a gradient, or if an
    earlier pass freed the graph.
    """
    many_inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if isinstance(outputs, Tensor):
        outputs, grad_outputs = [outputs], [grad_outputs]
    gradients = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    for position, tensor in enumerate(many_inputs):
        if not tensor.requires_grad:
            raise RuntimeError(f"grad: input {position} (shape {tensor.shape}) does not require a gradient")
    work = Pass(create_graph)
    work.seek(outputs, many_inputs)
    work.start(outputs, gradients, "grad")
    with enable_grad() if create_graph else no_grad():
        work.run(create_graph if retain_graph is None else retain_graph)
        for origin, collected in work.leaves.items():
            leaf = origin.tensor()
            if leaf is not None and leaf.requires_grad and leaf.origin is not origin:
                raise _replaced("grad", leaf, collected.value)
            work.found[_key(origin)] = (
                run_hooks(origin.hooks, collected.value) if create_graph else collected.finished(origin.hooks)
            )
    results = []
    for tensor in many_inputs:
        value = work.found[_key(tensor.origin)]
        if value is None:
            value = array_module(tensor.data).zeros_like(tensor.data)
        elif is_array(value) and len(work.found) < len(many_inputs):
            value = value.copy()  # an input that is given twice has two gradients
        results.append(separate(value))
    return results[0] if isinstance(inputs, Tensor) else results
