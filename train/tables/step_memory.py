"""Memory of a training step on a CPU, with and without mixed precision."""

from __future__ import annotations

import tracemalloc
from contextlib import nullcontext
from typing import Any, Literal

from ...nn import Module
from ..optim.loss_scaling import HalfPrecision
from ..trainer import Loss


def step_memory(model: Module, loss: Loss, batch: Any, precision: Literal["fp32", "fp16"]) -> dict[str, Any]:
    """Measure the megabytes (10^6 bytes) of the arrays in one step of a model on the CPU.

    Gradients and weights are unchanged.

    Returns three numbers. `kept` counts weights, gradients and Adam's two moments, which are float32 in either
    precision. `forward` counts the arrays that the forward pass keeps for the backward pass; in fp16 it includes the
    half-precision copies of the weights. `peak` is the maximum during both passes, including gradients. tracemalloc, to
    which NumPy reports its arrays, counts the last two. Source: Micikevicius et al. 2018, arXiv 1710.03740, 3.1.
    """
    before = [parameter.grad for parameter in model.parameters()]

    def step() -> tuple[int, int]:
        model.zero_grad()
        half = HalfPrecision(model) if precision == "fp16" else None
        if half is not None:
            half.cast()
        with nullcontext() if half is None else half.passes():
            value = loss(model, batch)[0]
            forward = tracemalloc.get_traced_memory()[0]
            value.backward()
        return forward, tracemalloc.get_traced_memory()[1]

    model.train()
    try:
        step()  # things that are created once, such as compiled loops, are not part of a step
        model.zero_grad()
        tracemalloc.start()
        forward, peak = step()
    finally:
        tracemalloc.stop()
        model.eval()
        for parameter, grad in zip(model.parameters(), before, strict=True):
            parameter.grad = grad
    kept = 4 * sum(parameter.data.nbytes for parameter in model.parameters())
    return {"precision": precision, "kept": kept / 1e6, "forward": forward / 1e6, "peak": peak / 1e6}
