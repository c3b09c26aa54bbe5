"""The whole update as one operation on flat arrays: fp16 or fp32 training on a device without waiting for it.

Parameters become views of one array; the float32 weights, which the updates change, and Adam's moments lie in others
beside it. The loss scale, the number of updates and the decision to skip a step that overflowed are numbers on the
device. On the CPU the same text runs on NumPy arrays. Source: Micikevicius et al. 2018, arXiv 1710.03740, sections 3.1
and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor
from ..autograd.backend import array_module, to_device
from ..autograd.kernels.update import STATE, adam, new_state, prepare_update, read_state


class FlatAdam:
    """Adam or AdamW over all parameters in three kernels; weights, moments and loss scale in float32.

    Args:
        parameters: what to update, all on one device and all float32 or all float16 (`Module.astype`). Their `data`
            become views of one array.
        betas, eps: as of `Adam`.
        weight_decay: for matrices, as of `Optimizer`.
        loss_scale: the first one; 1 for float32.
        interval: good steps before the scale doubles.
        masters: float32 values of the parameters, where they were cast to float16 before; otherwise those of the cast.

    Raises ValueError for no parameters, or parameters of several dtypes or devices.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        loss_scale: float | None = None,
        interval: int = 1000,
        masters: Iterable[Any] | None = None,
    ):
        given = list(parameters)
        if len({(p.dtype, p.device) for p in given}) != 1 or given[0].dtype not in (np.float16, np.float32):
            raise ValueError("FlatAdam: parameters must be all float32 or all float16, and on one device")
        values = [p.data for p in given] if masters is None else list(masters)
        # Matrices first: a weight decay covers the beginning of the array.
        order = sorted(range(len(given)), key=lambda i: given[i].ndim < 2)
        self.parameters = [given[i] for i in order]
        self.betas, self.eps, self.weight_decay, self.interval = betas, eps, weight_decay, interval
        xp, dtype = array_module(given[0].data), given[0].dtype
        self.weights = xp.concatenate([xp.asarray(values[i]).reshape(-1) for i in order]).astype(np.float32)
        self.copy = self.weights.astype(dtype)
        self.m, self.v = xp.zeros_like(self.weights), xp.zeros_like(self.weights)
        self.decayed = sum(p.size for p in self.parameters if p.ndim > 1)
        self.state = new_state(xp, loss_scale or (1.0 if dtype == np.float32 else 2.0**15))
        start = 0
        for parameter in self.parameters:
            parameter.data = self.copy[start : start + parameter.size].reshape(parameter.shape)
            start += parameter.size

    def backward(self, loss: Tensor, share: float = 1.0) -> None:
        """Add the gradient of `share` times the loss, multiplied by the loss scale, to the parameters'."""
        scale = self.state[:1] * np.float32(share)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is what the loss scale is there for
            loss.backward(scale.astype(loss.dtype).reshape(loss.shape))

    def step(self, lr: float, *, average: float = 1.0, max_norm: float | None = None) -> None:
        """Update all parameters from their gradients and forget these; skip it if one of them overflowed.

        Args:
            lr: learning rate.
            average: what the gradients are to be multiplied by, beside undoing the loss scale.
            max_norm: bound on the joint norm of the gradients.
        """
        xp = array_module(self.copy)
        parts = [xp.zeros(p.size, p.dtype) if p.grad is None else p.grad.reshape(-1) for p in self.parameters]
        gradient = xp.concatenate(parts)
        prepare_update(gradient, self.state, average=average, max_norm=max_norm, interval=self.interval)
        adam(
            self.weights, gradient, self.m, self.v, self.copy, self.state,
            lr=lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, decayed=self.decayed,
        )  # fmt: skip
        for parameter in self.parameters:
            parameter.grad = None
            parameter.mark_changed()

    def report(self) -> dict[str, float]:
        """Loss scale, gradient norm, updates made and skipped; waits for the device."""
        state = read_state(self.state)
        return {name: state[name] for name in ("loss_scale", "norm", "steps", "skipped")}

    def first_overflow(self, named_parameters: Iterable[tuple[str, Parameter]]) -> str | None:
        """The name of the parameter whose gradient overflowed first: the last one, since gradients come from the end.

        To be asked between `backward` and `step`; waits for the device.
        """
        for name, parameter in reversed(list(named_parameters)):
            if parameter.grad is not None and not np.isfinite(to_device(parameter.grad, "cpu")).all():
                return name
        return None

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, on the host."""
        flat = {name: to_device(getattr(self, name), "cpu") for name in ("weights", "m", "v")}
        return {**flat, "state": read_state(self.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`. Raises ValueError, and changes nothing, if it is of other parameters."""
        if state["weights"].shape != self.weights.shape:
            raise ValueError("FlatAdam: this state belongs to parameters of another number or other shapes")
        xp = array_module(self.copy)
        for name in ("weights", "m", "v"):
            getattr(self, name)[...] = xp.asarray(state[name])
        self.copy[...] = self.weights.astype(self.copy.dtype)
        row = np.array([tuple(state["state"][name] for name in STATE.names or ())], STATE)
        self.state[...] = xp.asarray(row.view(np.float32))
        for parameter in self.parameters:
            parameter.mark_changed()
