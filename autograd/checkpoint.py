"""Activation checkpointing: recompute what the backward pass needs instead of keeping it.

`checkpoint(layer, x)` gives what `layer(x)` gives, but keeps only x. When the gradient arrives, the layer runs once
more, with the random numbers of the first time, and the pass goes back through that. A stack of n layers so keeps n
inputs and the activations of one layer, for about a third more time. Source: Chen et al. 2016, arXiv 1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .engine import grad
from .function import Function
from .grad_mode import enable_grad, grad_mode
from .origin import Leaf, call_numbers
from .random import Generator, default_generator
from .tensor import Tensor


def checkpoint(
    function: Callable[..., Any], *args: Any, generators: Iterable[Generator] | None = None, **kwargs: Any
) -> Any:
    """`function(*args, **kwargs)`, whose activations are computed again in the backward pass.

    Values and gradients are bit-equal to those without; only where a parameter is used both in here and elsewhere the
    order in which its gradients are added may differ. First derivatives only.

    Args:
        function: a layer, or any function of Tensors that returns one Tensor or a tuple of them. It is called twice,
            so it must do the same each time and change nothing. Leaves that it holds, such as parameters, get their
            gradients as always.
        args, kwargs: Tensors, for which gradients are wanted as always, and anything else.
        generators: what the function draws from; None means the default one and those that the modules of `function`
            hold.

    Raises RuntimeError if the function uses a result that was computed outside and is not among its arguments.
    """
    if not grad_mode.enabled:
        return function(*args, **kwargs)
    held = list(_generators(function) if generators is None else generators)
    operands = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.requires_grad]
    segment = _Segment(function, args, kwargs, operands, held)
    return segment(*operands, *segment.find_leaves())


class _Segment(Function):
    """One checkpointed call; its inputs are the tensors among the arguments, then the leaves the function holds."""

    def __init__(self, function, args, kwargs, operands, generators):
        self.function, self.generators = function, generators
        places = {id(tensor): place for place, tensor in enumerate(operands)}
        # An operand may be replaced: by its place among them. All else stays as it is.
        self.args = [(places.get(id(value)), None if id(value) in places else value) for value in args]
        self.kwargs = {key: (places.get(id(v)), None if id(v) in places else v) for key, v in kwargs.items()}
        self.states = [generator.get_state() for generator in generators]
        self.operands, self.operand_count = operands, len(operands)
        self.outputs: list[Any] = []
        self.leaves: list[Tensor] = []

    def find_leaves(self) -> list[Tensor]:
        """Run the function; note its outputs, and the leaves that its graph ends in beside the operands."""
        oldest = next(call_numbers)
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
        self.leaves = list(leaves.values())
        self.outputs = [tensor.data for tensor in outputs]
        return self.leaves

    def forward(self, *arrays):
        outputs, self.outputs = self.outputs, []
        self.save(*arrays)
        return tuple(outputs) if self.many else outputs[0]

    def backward(self, *gradients):
        arrays = self.saved[: self.operand_count]
        now = [generator.get_state() for generator in self.generators]
        for generator, state in zip(self.generators, self.states, strict=True):
            generator.set_state(state)
        with enable_grad():
            inner, outputs = self._run(arrays)
        for generator, state in zip(self.generators, now, strict=True):
            generator.set_state(state)
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, gradients, strict=True)
            if gradient is not None and output.requires_grad
        ]
        wanted = [*inner, *self.leaves]
        found = grad([output for output, _ in pairs], wanted, [gradient for _, gradient in pairs])
        return tuple(tensor.data for tensor in found)

    def _run(self, arrays: Any) -> tuple[list[Tensor], list[Tensor]]:
        """Call the function on leaves made of the operands' arrays; returns these leaves and the outputs."""
        inner = [Tensor(array[...], requires_grad=True) for array in arrays]

        def value(place: int | None, other: Any) -> Any:
            return other if place is None else inner[place]

        result = self.function(
            *(value(*pair) for pair in self.args), **{key: value(*pair) for key, pair in self.kwargs.items()}
        )
        self.many = isinstance(result, tuple)
        outputs = list(result) if self.many else [result]
        return inner, [output if isinstance(output, Tensor) else Tensor(output) for output in outputs]

    def release(self) -> None:
        super().release()
        self.function, self.args, self.kwargs, self.leaves = None, [], {}, []


def _generators(function: Any) -> list[Generator]:
    modules = function.modules() if hasattr(function, "modules") else ()
    held = [value for module in modules for value in vars(module).values() if isinstance(value, Generator)]
    return list({id(generator): generator for generator in (default_generator, *held)}.values())
