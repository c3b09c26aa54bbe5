"""fp16 training: half-precision copies of the weights, and a loss scale that keeps their gradients in range.

Weights, optimiser and averages stay in float32. The forward and backward pass of a step work on float16 copies, cast
once per step. Small gradients would vanish in float16, so the loss is multiplied by a scale before the backward pass
and the gradients divided by it after; when a gradient overflows, the step is skipped and the scale halved. Source:
Micikevicius et al. 2018, arXiv 1710.03740.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...autograd import Parameter, Tensor
from ...autograd.backend import array_module
from ...autograd.engine import backward
from ...kinds import checked
from ...models.fields import Count, Rate
from ...nn import Module
from ..state import attributes


@checked
class LossScaler:
    """A loss scale that halves when a gradient overflows and doubles after `interval` good steps in a row.

    Args:
        initial: the initial scale. The backward pass starts in float32, so only the float16 gradients within the model
            limit the scale, not the losses.
        interval: good steps before the scale grows.
        least: the scale does not fall below this.

    Attributes:
        scale, good, skipped: the scale, good steps since it last changed, steps skipped in all.
    """

    def __init__(self, initial: Rate = 2.0**15, interval: Count = 1000, least: Rate = 1.0):
        self.scale, self.interval, self.least = initial, interval, least
        self.good = self.skipped = 0

    def update(self, finite: bool) -> None:
        """Count a step. `finite` says whether all its gradients were finite."""
        if not finite:
            self.scale, self.good, self.skipped = max(self.scale * 0.5, self.least), 0, self.skipped + 1
        elif self.good + 1 >= self.interval:
            self.scale, self.good = self.scale * 2, 0
        else:
            self.good += 1

    def state_dict(self) -> dict[str, Any]:
        return {"scale": float(self.scale), "good": int(self.good), "skipped": int(self.skipped)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.scale, self.good, self.skipped = state["scale"], state["good"], state["skipped"]


@checked
class HalfPrecision:
    """The passes in fp16, on float16 copies of a model's floating-point tensors, and a loss scale.

    Args:
        model: the model whose float32 parameters and constants are copied.
    """

    def __init__(self, model: Module):
        self.scaler = LossScaler()
        self.parameters = list(model.parameters())
        self.tensors = [*(p for p in self.parameters if p.dtype == np.float32), *float_constants(model)]
        self._copies: list[Any] = []

    def cast(self) -> None:
        """Cast the changed weights; called before the passes of each update."""
        self._copies = [tensor.data.astype(np.float16) for tensor in self.tensors]

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Let the tensors hold the float16 copies within the block. Their gradients are added up in float32."""
        gradients = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        try:
            with holding(list(zip(self.tensors, self._copies, strict=True))):
                yield
        finally:
            for parameter, before in zip(self.parameters, gradients, strict=True):
                if parameter.grad is not None:
                    parameter.grad_or_rows = parameter.grad.astype(parameter.dtype)
                    if before is not None:
                        parameter.grad += before
                else:
                    parameter.grad_or_rows = before

    def backward(self, loss: Tensor, share: float) -> None:
        """Add the gradient of `share` times the loss, multiplied by the loss scale."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are expected: the loss scale handles them
            backward(loss, float(self.scaler.scale) * share)


@contextmanager
def holding(pairs: Sequence[tuple[Tensor, Any]]) -> Iterator[None]:
    """Let each tensor hold the array paired with it, such as its float16 copy, within the block."""
    own = [tensor.data for tensor, _ in pairs]
    for tensor, array in pairs:
        tensor.data = array
    try:
        yield
    finally:
        for (tensor, _), array in zip(pairs, own, strict=True):
            tensor.data = array


def float_constants(model: Module) -> list[Tensor]:
    """Return the float32 tensors of a model that are neither parameters nor buffers, such as a table of positions.

    Buffers, which training may change, keep their dtype: float16 would lose the small changes of a running mean.
    """
    tensors = {id(value): value for _, value in attributes(model) if isinstance(value, Tensor)}
    return [tensor for tensor in tensors.values() if tensor.dtype == np.float32]


def first_overflow(named_parameters: Iterable[tuple[str, Parameter]]) -> str | None:
    """Return the parameter whose gradient overflowed first: the last of the model, where the backward pass starts."""
    for name, parameter in reversed(list(named_parameters)):
        if parameter.grad is not None and not bool(array_module(parameter.grad).isfinite(parameter.grad).all()):
            return name
    return None
