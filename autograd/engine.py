"""The backward pass.

Calls are numbered as they are made, and an input is always older than the call that uses it. The pass goes from the
newest call to the oldest, so it processes each call after all calls that used its result. The calls still to be
processed are in a heap. There is no recursion, so a graph can be as deep as memory allows.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .backend import array_module, device_of, is_array, native
from .changes import changes
from .function import Function
from .origin import Leaf, Origin, enable_grad, graph_of, leaf_lock, no_grad
from .row_gradient import RowGradient, as_dense
from .tensor import Tensor


class _Gradient:
    """A gradient being accumulated. If `owned`, only this object refers to its array, which may be changed in place."""

    __slots__ = ("owned", "value")

    def __init__(self, value: Any, owned: bool):
        self.value = value
        self.owned = owned

    def add(self, value: Any, owned: bool) -> None:
        if isinstance(self.value, RowGradient) or isinstance(value, RowGradient):
            self._add_rows(value, owned)
        elif self.owned:
            self.value += value
        elif owned:
            value += self.value
            self.value, self.owned = value, True
        elif isinstance(self.value, Tensor):
            self.value = self.value + value
        else:
            # The first gradient may be shared (a + b hands one array to both), so the sum gets its own buffer.
            xp = array_module(self.value)
            self.value = xp.add(self.value, value, out=xp.empty_like(self.value))
            self.owned = True

    def _add_rows(self, value: Any, owned: bool) -> None:
        if not isinstance(value, RowGradient):
            rows, self.value, self.owned = self.value, value, owned
        elif isinstance(self.value, RowGradient):
            self.value, self.owned = self.value.plus(value), True
            return
        else:
            rows = value
        if not self.owned:
            self.value, self.owned = self.value.copy(), True
        rows.add_to(self.value)

    def finished(self, hooks: dict[int, Any]) -> Any:
        """Return the gradient after calling its hooks. The result shares no memory with other arrays."""
        if hooks:
            return _run_hooks(hooks, as_dense(self.value)).copy()
        return self.value if self.owned else self.value.copy()


class _Pass:
    """One backward pass: the gradients collected so far, and the calls still to be processed."""

    def __init__(
        self,
        create_graph: bool = False,
        targets: dict[Any, int] | None = None,
        ready: Callable[[Tensor], Any] | None = None,
    ):
        self.create_graph = create_graph
        self.targets = targets or {}  # tensors whose gradient is requested, by `_key` -> key in `found`
        # Of the calls from which a target can be reached, by number: which inputs lead to one, None for all inputs.
        self.leading: dict[int, list[bool] | None] | None = None
        self.found: dict[int, Any] = {}
        self.nodes: dict[Function, list[_Gradient | None]] = {}
        self.leaves: dict[Leaf, _Gradient] = {}
        self.heap: list[tuple[int, Function]] = []
        self.asked: set[int] = set()  # the numbers of the targets, which are leaves or results of calls
        self.needed: set[int] | None = None  # the numbers of the targets and of the leading calls
        self.ready = ready
        self.uses: dict[Leaf, int] = {}  # with `ready`: number of uses of a leaf by calls still to be visited

    def count_uses(self, outputs: Sequence[Tensor]) -> None:
        """Count the uses of each leaf in the graph, so that the pass knows when a leaf's gradient is complete."""
        for call in graph_of(outputs):
            for origin in call.node.inputs if call.node is not None else ():
                if isinstance(origin, Leaf):
                    self.uses[origin] = self.uses.get(origin, 0) + 1

    def find_leading(self, outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        """Restrict the pass to the calls from which one of `targets` can be reached."""
        self.asked = {tensor.origin.number for tensor in targets}
        needed, oldest, calls = set(self.asked), min(self.asked, default=0), {}
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
            every, found = True, False
            for origin in calls[number].inputs:
                if origin is not None:
                    if (origin.number if origin.node is None else origin.node.number) in needed:
                        found = True
                    else:
                        every = False
            if found:
                inputs = calls[number].inputs
                self.leading[number] = None if every else [o is not None and o.number in needed for o in inputs]
                needed.add(number)
        self.needed = needed

    def _used(self, inputs: Sequence[Origin | None]) -> None:
        """After a call's backward rule, deliver the gradients of those input leaves that no other call uses."""
        for origin in inputs:
            if isinstance(origin, Leaf):
                self.uses[origin] -= 1
                if not self.uses[origin] and origin in self.leaves:
                    self.deliver(origin)

    def deliver(self, origin: Leaf) -> None:
        """Add the collected gradient to its leaf's `grad`."""
        collected, leaf = self.leaves.pop(origin), origin.tensor()
        if leaf is None and not origin.hooks:
            return
        value = collected.finished(origin.hooks)
        if leaf is None:  # the tensor, and with it its `grad`, was freed
            return
        if value.shape != leaf.data.shape or value.dtype != leaf.data.dtype or not _one_device(value, leaf.data):
            raise _replaced("backward", leaf, value)
        with leaf_lock:
            former = leaf.grad_or_rows
            if former is None:
                leaf.grad_or_rows = value
            elif former.shape != value.shape or former.dtype != value.dtype or not _one_device(former, value):
                raise RuntimeError(
                    f"backward: a leaf {_form(value)} still has the gradient of its former array, {_form(former)}: set "
                    "its grad to None first"
                )
            else:
                total = _Gradient(former, owned=True)
                total.add(value, owned=True)
                leaf.grad_or_rows = total.value
                if is_array(total.value):
                    changes.note(total.value)
        if self.ready is not None:
            self.ready(leaf)

    def give(self, origin: Origin, value: Any, owned: bool) -> None:
        """Add `value` to the gradient of the tensor with this `origin`."""
        if isinstance(origin, Leaf):
            existing = self.leaves.get(origin)
            if existing is None:
                self.leaves[origin] = _Gradient(value, owned)
                return
        else:
            node = origin.node
            slots = self.nodes.get(node)
            if slots is None:
                self.nodes[node] = slots = [None] * node.output_count
                heapq.heappush(self.heap, (-node.number, node))
            existing = slots[origin.slot]
            if existing is None:
                slots[origin.slot] = _Gradient(value, owned)
                return
        existing.add(value, owned)

    def run(self, retain_graph: bool) -> None:
        """Process the calls from the newest to the oldest."""
        while self.heap:
            # In a separate function, so that its buffers are freed before the next call allocates more.
            self._step(heapq.heappop(self.heap)[1], retain_graph)

    def _step(self, node: Function, retain_graph: bool) -> None:
        incoming = [None if gradient is None else gradient.value for gradient in self.nodes.pop(node)]
        if node.hooks is not None or node.number in self.asked:
            incoming = [
                None if value is None else self._arrived(node, slot, value) for slot, value in enumerate(incoming)
            ]
        wanted = None
        if self.leading is not None:
            if node.number not in self.leading:
                return  # a target that depends on no other target
            wanted = self.leading[node.number]
        composed = _backward_composed if self.create_graph and node.composed is not None else None
        inputs = node.inputs  # which another thread's pass may release
        collected = self._collected(inputs) if node.adds and not self.create_graph else None
        outgoing = node.input_gradients(incoming, self.create_graph, composed, collected, wanted)
        for position, origin in enumerate(inputs):
            value = outgoing[position]
            if origin is not None and value is not None:
                self.give(origin, value, _is_unshared(value, incoming, outgoing))
        if self.ready is not None:
            self._used(inputs)
        if not retain_graph:
            node.release()

    def _collected(self, inputs: Sequence[Origin | None]) -> list[Any]:
        """Return each input's gradient accumulated so far, or None if that gradient must not be changed in place."""
        found: list[Any] = []
        for origin in inputs:
            gradient = None
            if isinstance(origin, Leaf):
                gradient = self.leaves.get(origin)
            elif origin is not None and (slots := self.nodes.get(origin.node)) is not None:
                gradient = slots[origin.slot]
            own = gradient is not None and gradient.owned and is_array(gradient.value)
            found.append(gradient.value if own and gradient is not None else None)
        return found

    def _arrived(self, node: Function, slot: int, value: Any) -> Any:
        """Call the hooks on an output's complete gradient, store the gradient if it was requested, and return it."""
        if node.hooks is not None:
            value = _run_hooks(node.hooks.get(slot), value)
        index = self.targets.get((node, slot))
        if index is not None:
            # The pass continues with the array itself.
            self.found[index] = value if self.create_graph else value.copy()
        return value


def _is_unshared(value: Any, incoming: list[Any], outgoing: list[Any]) -> bool:
    """Return whether `value` is a new array for one input only, which may be changed in place."""
    if isinstance(value, Tensor) or value.base is not None:
        return False
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return False
    for other in incoming:
        if other is value:
            return False
    uses = 0
    for other in outgoing:
        if other is value or (other is not None and other.base is value):
            uses += 1
    return uses == 1


def _run_hooks(hooks: dict[int, Any] | None, value: Any) -> Any:
    for hook in list((hooks or {}).values()):
        shown = value
        if isinstance(value, np.ndarray):
            shown = value[...]  # read-only: another tensor's gradient may be the same array
            shown.flags.writeable = False
        elif isinstance(value, Tensor):
            shown = _own(value)  # elements that the hook sets are those of its own Tensor
        changed = hook(shown)
        if changed is None:
            continue
        dtype, shape = (getattr(changed, name, None) for name in ("dtype", "shape"))
        if shape != value.shape or dtype != value.dtype:
            kind = type(changed).__name__ if shape is None else f"{dtype}{list(shape)}"
            raise ValueError(
                f"a gradient hook returned {kind} for a gradient of "
                f"{value.dtype}{list(value.shape)}: return the same shape and dtype, or None for no change"
            )
        if isinstance(value, Tensor):
            value = changed if isinstance(changed, Tensor) else Tensor(changed)
        else:
            value = changed.data if isinstance(changed, Tensor) else changed
            value = native(value) if is_array(value) else np.asarray(value)  # arithmetic on 0-d arrays gives scalars
    return value


def _start(outputs: Sequence[Tensor], gradients: Sequence[Any], work: _Pass, caller: str) -> None:
    if len(outputs) != len(gradients):
        raise ValueError(f"{caller}: {len(outputs)} outputs but {len(gradients)} output gradients")
    for output, gradient in zip(outputs, gradients, strict=True):
        if not output.requires_grad:
            raise RuntimeError(
                f"{caller}: the result (shape {output.shape}) does not depend on any tensor with requires_grad=True, "
                "or it was computed under no_grad()"
            )
        if gradient is None:
            if output.data.size != 1:
                raise RuntimeError(
                    f"{caller}: a result of shape {output.shape} needs an output gradient of that shape: pass "
                    "gradient=..., or first reduce the result to a single number with sum() or mean()"
                )
            gradient = array_module(output.data).ones_like(output.data)
        node, dtype = output.origin.node, output.dtype
        if dtype == np.float16 and node is not None and node.wide_start and not (node.hooks or work.targets):
            dtype = np.dtype(np.float32)
        value = gradient.data if isinstance(gradient, Tensor) else gradient
        value = native(value) if is_array(value) else array_module(output.data).asarray(value, dtype=dtype)
        if value.shape != output.shape:
            raise ValueError(
                f"{caller}: the output gradient has shape {value.shape}, but the result has shape {output.shape}"
            )
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{caller}: the output gradient must have real numbers, not {value.dtype}")
        if work.create_graph:
            value = gradient if isinstance(gradient, Tensor) else Tensor(value)
        if value.dtype != dtype:
            value = value.astype(dtype)
        if work.needed is None or output.origin.number in work.needed:
            work.give(output.origin, value, owned=False)


def backward(
    output: Tensor, gradient: Any = None, *, retain_graph: bool = False, ready: Callable[[Tensor], Any] | None = None
) -> None:
    """Add the gradient of sum(gradient * output) to `leaf.grad` of every leaf on which `output` depends.

    `gradient` has the output's shape; it is 1 by default for a single number. The pass frees the graph unless
    `retain_graph` is true. `ready(leaf)` is called as soon as a leaf's gradient is complete. Raises RuntimeError if
    nothing requires a gradient, or if an earlier pass freed the graph.
    """
    work = _Pass(ready=ready)
    _start([output], [gradient], work, "backward")
    if ready is not None:
        work.count_uses([output])
    with no_grad():
        work.run(retain_graph)
        for origin in list(work.leaves):
            work.deliver(origin)


def _replaced(caller: str, leaf: Tensor, gradient: Any) -> RuntimeError:
    return RuntimeError(
        f"{caller}: a leaf's array was replaced between the forward and the backward pass: it is now "
        f"{_form(leaf.data)}, but the gradient is {_form(gradient)}"
    )


def _one_device(x: Any, y: Any) -> bool:
    return type(x) is type(y) is np.ndarray or _device(x) == _device(y)


def _device(x: Any) -> str:
    return device_of(x.rows if isinstance(x, RowGradient) else x)


def _form(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)} on {_device(x)}"


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
    targets = {_key(tensor.origin): index for index, tensor in enumerate(many_inputs)}
    work = _Pass(create_graph, targets)
    work.find_leading(outputs, many_inputs)
    _start(outputs, gradients, work, "grad")
    with enable_grad() if create_graph else no_grad():
        work.run(create_graph if retain_graph is None else retain_graph)
        for origin, collected in work.leaves.items():
            leaf = origin.tensor()
            if leaf is not None and leaf.requires_grad and leaf.origin is not origin:
                raise _replaced("grad", leaf, collected.value)
            index = targets[_key(origin)]
            if create_graph:
                work.found[index] = _run_hooks(origin.hooks, collected.value)
            else:
                work.found[index] = as_dense(collected.finished(origin.hooks))
    results: list[Tensor] = []
    for tensor in many_inputs:
        value = work.found.get(targets[_key(tensor.origin)])
        twice = len(targets) < len(many_inputs)
        if value is not None and twice and any(value is result.data for result in results):
            value = value.copy()
        results.append(Tensor(array_module(tensor.data).zeros_like(tensor.data)) if value is None else _own(value))
    return results[0] if isinstance(inputs, Tensor) else results


class Alias(Function):
    """The identity as an op. A backward pass can stop at its result, a new tensor with the same values."""

    def forward(self, x):
        return x[...]

    def backward(self, g):
        return g


def _backward_composed(node: Function, *gradients: Any) -> tuple[Any, ...]:
    """Compute the input gradients of a fused op, and record this computation, by differentiating `node.composed`."""
    # The pass stops at aliases, which are newer than every input. An input may be computed from another input, or be
    # the same tensor, and each gets only the gradient through its own argument.
    tensors = [Alias()(tensor) for tensor in node.saved]
    wanted = [tensor for tensor, needed in zip(tensors, node.needs, strict=True) if needed]
    made = node.composed(*tensors)
    outputs = zip(made if isinstance(made, tuple) else (made,), gradients, strict=True)
    used = [(output, gradient) for output, gradient in outputs if gradient is not None and output.requires_grad]
    found = iter(grad([output for output, _ in used], wanted, [g for _, g in used], create_graph=True))
    return tuple(next(found) if needed else None for needed in node.needs)


def inner_gradients(
    outputs: Sequence[Tensor], gradients: Sequence[Any], own: Sequence[Tensor], held: Sequence[Tensor]
) -> tuple[Any, ...]:
    """Return the gradients of `outputs`, which a backward rule has computed from leaves.

    The result has an array, or None for no gradient, for each leaf that the rule made (`own`), then for each other leaf
    that its calls use (`held`). The outer pass calls the hooks of `held` with the complete gradients.
    """
    work = _Pass()
    _start(outputs, gradients, work, "backward")
    found = []
    with no_grad():
        work.run(retain_graph=False)
        for index, leaf in enumerate((*own, *held)):
            origin: Any = leaf.origin
            collected = work.leaves.get(origin)
            found.append(None if collected is None else collected.finished(origin.hooks if index < len(own) else {}))
    return tuple(found)


def _own(value: Any) -> Tensor:
    """Return a new Tensor for a gradient, which can be shared with another input or the caller under create_graph."""
    if is_array(value) or not value.requires_grad:
        return Tensor(value if is_array(value) else value.data.copy())
    result = Tensor(value.data)
    result.requires_grad, result._origin = True, value.origin
    return result


def _key(origin: Origin) -> Any:
    """Return the key of a tensor in a pass: the number of a leaf, or the call and output number of a result."""
    return origin.number if origin.node is None else (origin.node, origin.slot)
