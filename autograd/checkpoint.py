"""Activation checkpointing: recompute what the backward pass needs instead of keeping it.

`checkpoint(layer, x)` returns the same as `layer(x)`, but keeps only x. In the backward pass the layer runs again, with
the same random numbers, and the pass goes back through that second run. A stack of n layers then stores n inputs and
the activations of one layer, and takes about a third more time. Source: Chen et al. 2016, arXiv 1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .backend import is_array
from .engine import inner_gradients
from .function import Function
from .ops.registry import is_plain, plain
from .origin import Leaf, call_numbers, enable_grad, grad_mode
from .random import Draws
from .tensor import Tensor


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function(*args, **kwargs)` and compute its activations again in the backward pass.

    Values and gradients are bit-equal to those without checkpointing. One exception: if a parameter is also used
    elsewhere, its gradients may be added in another order. Only first derivatives are supported.

    Args:
        function: a layer, or any function of Tensors that returns one Tensor or a tuple of them. It is called twice,
            so it must do the same each time and change nothing; its draws from a `Generator`, in the thread that calls
            it, are repeated. Leaves that it uses, such as parameters, get their gradients as usual, and their hooks
            are called once.
        args, kwargs: Tensors, which get gradients as usual, and anything else.

    Raises RuntimeError if the function uses a result that was computed outside and is not among its arguments. The
    backward pass raises RuntimeError if an array that it needs was changed or replaced, or if the second call differs
    in its random draws, in the leaves that it uses or in a sample of its outputs.
    """
    if not grad_mode.enabled:
        return function(*args, **kwargs)
    call = Checkpoint(function, args, kwargs)
    return call(*call.operands, *call.find_leaves())


class Checkpoint(Function):
    """One checkpointed call.
    Its inputs are the tensors among the arguments, then the leaves that the function holds.
    """

    def __init__(self, function, args, kwargs):
        values = (*args, *kwargs.values())
        tensors = {id(value): value for value in values if isinstance(value, Tensor)}.values()
        self.operands = [tensor for tensor in tensors if tensor.requires_grad]
        self.operand_count = len(self.operands)
        constants = [tensor for tensor in tensors if not tensor.requires_grad]
        indices = {id(tensor): index for index, tensor in enumerate((*self.operands, *constants))}
        # For each tensor, its array and its index among the tensors are kept; each run makes its own tensors.
        self.constants = [tensor.data for tensor in constants]
        self.args = [(indices.get(id(value)), None if id(value) in indices else value) for value in args]
        self.kwargs = {key: (indices.get(id(v)), None if id(v) in indices else v) for key, v in kwargs.items()}
        self.arrays = [value for value in values if is_array(value)]
        self.function, self.draws, self.plain = function, Draws(), is_plain()
        self.outputs: list[Any] = []
        self.leaves: list[tuple[Tensor, Any]] = []  # and their arrays
        self.seen: list[Any] = []  # of the outputs

    def find_leaves(self) -> list[Tensor]:
        """Run the function; record its outputs and the leaves of its graph that are not operands."""
        oldest = next(call_numbers)
        with self.draws.noted():
            inner, outputs = self._run([tensor.data for tensor in self.operands])
        self.operands = []
        own = {id(tensor.origin) for tensor in inner}
        waiting = [tensor.origin for tensor in outputs if tensor.requires_grad]
        seen, leaves = set(), {}
        while waiting:
            origin = waiting.pop()
            if isinstance(origin, Leaf):
                leaf = origin.tensor()
                if id(origin) not in own and leaf is not None:
                    leaves[id(origin)] = leaf
            elif origin.node.number < oldest:
                raise RuntimeError(
                    "checkpoint: the function uses a result that was computed outside it "
                    f"({origin.node.name}, shape {origin.shape}); pass it as an argument, so that it gets its gradient"
                )
            elif id(origin.node) not in seen:
                seen.add(id(origin.node))
                waiting += [other for other in origin.node.inputs if other is not None]
        self.leaves = [(leaf, leaf.data) for leaf in leaves.values()]
        # The outputs become views, since results are made read-only and an output may be the array of a constant.
        self.outputs = [tensor.data[...] for tensor in outputs]
        self.seen = [_glance(array) for array in self.outputs]
        return list(leaves.values())

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
                "checkpoint: a leaf that the function uses was given another array, or another requires_grad, between "
                "the forward and the backward pass, which needs the old one; make the change after backward()"
            )
        oldest = next(call_numbers)
        with enable_grad(), plain(self.plain), self.draws.repeated():
            inner, outputs = self._run(self.saved[: self.operand_count])
        found = None
        if _alike(self.seen, [_glance(output.data) for output in outputs]):
            used = [
                (output, gradient)
                for output, gradient in zip(outputs, gradients, strict=True)
                if gradient is not None and output.requires_grad
            ]
            found = inner_gradients([output for output, _ in used], [g for _, g in used], inner, held, oldest)
        if found is None:
            raise RuntimeError(
                "checkpoint: the function does something else when it is called again in the backward pass. Does a "
                "lambda take variables of a loop from outside? Then bind them: functools.partial(function, variable)"
            )
        return found

    def _run(self, arrays: Any) -> tuple[list[Tensor], list[Tensor]]:
        """Call the function on leaves made of the operands' arrays; return these leaves and the outputs."""
        inner = [Tensor(array[...], requires_grad=True) for array in arrays]
        tensors = [*inner, *(Tensor(array[...]) for array in self.constants)]

        def value(index: int | None, other: Any) -> Any:
            return other if index is None else tensors[index]

        result = self.function(
            *(value(*pair) for pair in self.args), **{key: value(*pair) for key, pair in self.kwargs.items()}
        )
        for output in result if isinstance(result, tuple) else (result,):
            if isinstance(output, list | dict | type(None)):
                raise TypeError(
                    f"checkpoint: the function must return one Tensor or a tuple of them, not a {type(output).__name__}"
                )
        self.many = isinstance(result, tuple)
        outputs = list(result) if self.many else [result]
        self.recorded = [isinstance(output, Tensor) and output.requires_grad for output in outputs]
        return inner, [output if isinstance(output, Tensor) else Tensor(output) for output in outputs]

    def release(self) -> None:
        super().release()
        self.function, self.args, self.kwargs, self.leaves = None, [], {}, []
        self.constants, self.arrays = [], []


def _glance(array: Any) -> tuple[Any, Any, Any]:
    """Return the shape, the dtype and, on the host, some elements of an array: enough to detect a different array."""
    sample = array.flat[:: array.size // 16 | 1] if isinstance(array, np.ndarray) and array.size else None
    return array.shape, array.dtype, sample


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
