"""Activation checkpointing: recompute activations in the backward pass instead of keeping them.

`checkpoint(layer, x)` returns the result of `layer(x)`, but keeps only x for the backward pass. The backward pass runs
the layer again with the same random numbers and differentiates this second run. A stack of n checkpointed layers stores
n inputs and the activations of one layer. Its training step takes about a third longer than without checkpointing.
Source: Chen et al. 2016, arXiv 1604.06174.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..kinds import checked
from .backend import is_array
from .bfloat16 import bfloat16_products, rounds
from .engine import Pass
from .function import Function
from .ops.registry import is_plain, plain
from .origin import Leaf, call_numbers, enable_grad, graph_of, is_grad_enabled, no_grad
from .random import Draws
from .row_gradient import as_dense
from .tensor import Tensor


@checked
def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return `function(*args, **kwargs)`, and recompute its activations in the backward pass.

    Values and gradients are bit-equal to those without checkpointing, except the gradient of a parameter that is also
    used outside `function`, because its terms may be added in another order. Only first derivatives are supported.

    Args:
        function: a layer, or any function of Tensors that returns one Tensor or a tuple of them. `checkpoint` calls it
            twice, so the two calls must compute the same values and change nothing, except the buffers of a layer,
            which only the first call changes. The second call draws the same random numbers from a `Generator` if the
            function draws them in the calling thread. Leaves that the function uses, such as parameters, get their
            gradients as usual, and their hooks are called once.
        args, kwargs: the arguments of `function`. Tensors among them get gradients as usual.

    Raises RuntimeError if the function uses a computed Tensor that requires a gradient and is not one of its arguments.
    The backward pass raises RuntimeError if an array that it needs was changed or replaced, or if the second call
    differs in its random draws, in the leaves that it uses or in a sample of its outputs.
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    call = Checkpoint(function, args, kwargs)
    return call(*call.operands, *call.find_leaves())


class Checkpoint(Function):
    """One checkpointed call. Its inputs are the tensors among the arguments, then the leaves that the function uses."""

    float16 = "mixed"  # the function may end with an op that computes so

    def __init__(self, function, args, kwargs):
        values = (*args, *kwargs.values())
        tensors = {id(value): value for value in values if isinstance(value, Tensor)}.values()
        self.operands = [tensor for tensor in tensors if tensor.requires_grad]
        self.operand_count = len(self.operands)
        constants = [tensor for tensor in tensors if not tensor.requires_grad]
        indices = {id(tensor): index for index, tensor in enumerate((*self.operands, *constants))}
        # The array and the index of each tensor are kept; each run makes new tensors from them.
        self.constants = [tensor.data for tensor in constants]
        self.values = [(indices.get(id(value)), None if id(value) in indices else value) for value in values]
        self.names = list(kwargs)
        self.arrays = [value for value in values if is_array(value)]
        self.function, self.draws = function, Draws()
        self.plain, self.bfloat16 = is_plain(), rounds()
        layer = getattr(function, "__self__", function)
        modules = layer.modules() if hasattr(layer, "modules") else ()
        buffers = [(module, name, getattr(module, name)) for module in modules for name in module._buffers]
        self.buffers = [
            (module, name, None if value is None else Tensor(value.data.copy())) for module, name, value in buffers
        ]
        self.outputs: list[Any] = []
        self.leaves: list[tuple[Tensor, Any]] = []  # and their arrays
        self.seen: list[Any] = []  # of the outputs

    def find_leaves(self) -> list[Tensor]:
        """Run the function; record its outputs and the leaves of its graph that are not operands."""
        with self.draws.noted():
            _, outputs, leaves = self._run([tensor.data for tensor in self.operands])
        self.operands = []
        self.leaves = [(leaf, leaf.data) for leaf in leaves]
        # The outputs become views, since results are made read-only and an output may be the array of a constant.
        self.outputs = [tensor.data[...] for tensor in outputs]
        self.seen = [_glance(array) for array in self.outputs]
        return leaves

    def forward(self, *arrays):
        outputs, self.outputs = self.outputs, []
        self.save(*arrays)
        return tuple(outputs) if self.many else outputs[0]

    def _wrap(self, array, slot, record, *rest):
        return super()._wrap(array, slot, record and self.recorded[slot], *rest)

    def backward(self, *gradients):
        held = [leaf for leaf, array in self.leaves if leaf.data is array and leaf.requires_grad]
        if len(held) < len(self.leaves):
            raise RuntimeError(
                "checkpoint: the array or requires_grad of a leaf that the function uses was changed between the "
                "forward and the backward pass; change it after backward()"
            )
        as_before = plain(self.plain), bfloat16_products(self.bfloat16)
        with enable_grad(), as_before[0], as_before[1], self.draws.repeated(), self._earlier_buffers():
            inner, outputs, again = self._run(self.saved[: self.operand_count])
        seen = [_glance(output.data) for output in outputs]
        if set(map(id, again)) != set(map(id, held)) or not _alike(self.seen, seen):
            raise RuntimeError(
                "checkpoint: the second call of the function, in the backward pass, computes something else than the "
                "first, or uses other leaves. If a lambda uses the variable of a loop, bind it: functools.partial("
                "function, variable)"
            )
        used = [
            (output, gradient)
            for output, gradient in zip(outputs, gradients, strict=True)
            if gradient is not None and output.requires_grad
        ]
        found = _inner_gradients([output for output, _ in used], [g for _, g in used], inner, held)
        # An operand may be a result, whose gradient is never a RowGradient.
        return tuple(g if isinstance(o, Leaf) else as_dense(g) for g, o in zip(found, self.inputs, strict=True))

    @contextmanager
    def _earlier_buffers(self) -> Iterator[None]:
        """Within the block, the layer has the buffers with which it was called first. It may change them."""
        now = [(module, name, getattr(module, name)) for module, name, _ in self.buffers]
        try:
            for module, name, value in self.buffers:
                setattr(module, name, value)
            yield
        finally:
            for module, name, value in now:
                setattr(module, name, value)

    def _run(self, arrays: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Call the function with new leaves. Return these, the outputs, and the other leaves of their graph."""
        oldest = next(call_numbers)
        inner = [Tensor(array[...], requires_grad=True) for array in arrays]
        tensors = [*inner, *(Tensor(array[...]) for array in self.constants)]
        values = [other if index is None else tensors[index] for index, other in self.values]
        positional = len(values) - len(self.names)
        result = self.function(*values[:positional], **dict(zip(self.names, values[positional:], strict=True)))
        for output in result if isinstance(result, tuple) else (result,):
            if isinstance(output, list | dict | type(None)):
                raise TypeError(
                    f"checkpoint: the function must return one Tensor or a tuple of them, not a {type(output).__name__}"
                )
        self.many = isinstance(result, tuple)
        outputs = list(result) if self.many else [result]
        self.recorded = [isinstance(output, Tensor) and output.requires_grad for output in outputs]
        tensors = [output if isinstance(output, Tensor) else Tensor(output) for output in outputs]
        return inner, tensors, _further_leaves(inner, tensors, oldest)

    def release(self) -> None:
        super().release()
        self.buffers = []
        self.function, self.values, self.names, self.leaves, self.constants, self.arrays = None, [], [], [], [], []


def _inner_gradients(
    outputs: Sequence[Tensor], gradients: Sequence[Any], own: Sequence[Tensor], held: Sequence[Tensor]
) -> list[Any]:
    """Return the gradients of each leaf of the second call (`own`) and of each other leaf (`held`), None for no
    gradient. The outer pass calls the hooks of `held` with the complete gradients.
    """
    work, found = Pass(), []
    work.start(outputs, gradients, "backward")
    with no_grad():
        work.run(retain_graph=False)
        for index, leaf in enumerate((*own, *held)):
            origin: Any = leaf.origin
            collected = work.leaves.get(origin)
            found.append(None if collected is None else collected.finished(origin.hooks if index < len(own) else {}))
    return found


def _glance(array: Any) -> tuple[Any, Any, Any]:
    """Return an array's shape, dtype and, for NumPy, some elements, which suffice to detect a different array."""
    sample = array.flat[:: array.size // 16 | 1] if isinstance(array, np.ndarray) and array.size else None
    return array.shape, array.dtype, sample


def _further_leaves(inner: list[Tensor], outputs: list[Tensor], oldest: int) -> list[Tensor]:
    """Return the leaves of a run's graph that are not operands. Raises RuntimeError for the result of an older call."""
    own, leaves = {tensor.origin for tensor in inner}, []
    for origin in graph_of(outputs):
        if isinstance(origin, Leaf):
            leaf = origin.tensor()
            if origin not in own and leaf is not None:
                leaves.append(leaf)
        elif origin.node.number < oldest:
            raise RuntimeError(
                f"checkpoint: the function uses a Tensor that was computed outside it ({origin.node.name}, shape "
                f"{origin.shape}); pass this Tensor as an argument, so that it gets its gradient"
            )
    return leaves


def _alike(first: list[Any], second: list[Any]) -> bool:
    """Return whether two samples come from the same arrays, up to rounding."""
    if [glance[:2] for glance in first] != [glance[:2] for glance in second]:
        return False
    for (_, _, a), (_, _, b) in zip(first, second, strict=True):
        if a is not None:
            largest = np.abs(a[np.isfinite(a)]).max(initial=0)
            if not np.allclose(a, b, rtol=0.01, atol=0.01 * largest, equal_nan=True):
                return False
    return True
