"""fp16 training: half-precision copies of the weights, and a loss scale that keeps their gradients in range.

Weights, optimiser and averages stay in float32. The forward and backward pass of a step work on float16 copies, cast
once a step. Small gradients would vanish in float16, so the loss is multiplied by a scale before the backward pass and
the gradients divided by it after; when a gradient overflows, the step is skipped and the scale halved. Source:
Micikevicius et al. 2018, arXiv 1710.03740.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...autograd import Parameter, Tensor
from ...autograd.backend import array_module
from ...nn import Module


class LossScaler:
    """A loss scale that halves when a gradient overflows and doubles after `interval` good steps in a row.

    `update` computes on the device that its argument lies on and does not wait for it.

    Args:
        initial: the first scale. Above 32,768 the gradient of a float16 loss itself is infinite.
        interval: good steps before the scale grows.
        least: the scale does not fall below this.

    Attributes:
        scale, good, skipped: the scale, good steps since it last changed, steps skipped in all; numbers or 0-d arrays.
    """

    def __init__(self, initial: float = 2.0**15, interval: int = 1000, least: float = 1.0):
        self.scale: Any = initial
        self.good: Any = 0
        self.skipped: Any = 0
        self.interval, self.least = interval, least

    def update(self, finite: Any) -> None:
        """Take note of a step: whether all gradients were finite, a bool or a boolean 0-d array."""
        xp = array_module(finite)
        good = xp.where(finite, self.good + 1, 0)
        grows = good >= self.interval
        grown = xp.where(grows, self.scale * 2, self.scale)
        self.scale = xp.where(finite, grown, xp.maximum(self.scale * 0.5, self.least))
        self.good = xp.where(grows, 0, good)
        self.skipped = self.skipped + xp.where(finite, 0, 1)

    def state_dict(self) -> dict[str, Any]:
        return {"scale": float(self.scale), "good": int(self.good), "skipped": int(self.skipped)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.scale, self.good, self.skipped = state["scale"], state["good"], state["skipped"]


class HalfPrecision:
    """Float16 copies of a model's floating tensors, for the passes of one step."""

    def __init__(self, model: Module):
        self.parameters = list(model.parameters())
        self.tensors = [*(p for p in self.parameters if p.dtype == np.float32), *float_constants(model)]
        self._copies: list[Any] = []

    def cast(self) -> None:
        """Take new copies: the weights have changed."""
        self._copies = [tensor.data.astype(np.float16) for tensor in self.tensors]

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Within the block the tensors hold the copies; gradients that arrive there end up in float32, added up."""
        wide = [(tensor, tensor.data) for tensor in self.tensors]
        gradients = [parameter.grad for parameter in self.parameters]
        for tensor, half in zip(self.tensors, self._copies, strict=True):
            tensor.data = half
        for parameter in self.parameters:
            parameter.grad = None
        try:
            yield
        finally:
            for tensor, data in wide:
                tensor.data = data
            for parameter, before in zip(self.parameters, gradients, strict=True):
                if parameter.grad is not None:
                    parameter.grad_or_rows = parameter.grad.astype(parameter.dtype)
                    if before is not None:
                        parameter.grad += before
                else:
                    parameter.grad_or_rows = before


def float_constants(model: Module) -> list[Tensor]:
    """The float32 tensors in a model that are no parameters, such as a table of positions."""
    parameters = set(map(id, model.parameters()))
    held = {id(t): t for module in model.modules() for t in vars(module).values() if isinstance(t, Tensor)}
    return [tensor for key, tensor in held.items() if key not in parameters and tensor.dtype == np.float32]


def first_overflow(named_parameters: Iterable[tuple[str, Parameter]]) -> str | None:
    """The parameter whose gradient overflowed first: the last one of the model, since gradients come from the end."""
    for name, parameter in reversed(list(named_parameters)):
        if parameter.grad is not None and not bool(array_module(parameter.grad).isfinite(parameter.grad).all()):
            return name
    return None
