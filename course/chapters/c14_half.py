"""Chapter 14, the exercises: gradients that 16 bits lose, the dynamic loss scale, and a training step that skips
overflows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Parameter, Tensor
from ...train.optim.loss_scaling import LossScaler
from ...train.optim.optimizers import SGD, clip_grad_norm
from ..exercise import need

RTOL = {"half_step": 1e-5}


def probe_lost(lost: Any) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    gradients = (rng.standard_normal(1000) * 2.0 ** rng.integers(-34, -4, 1000)).astype(np.float32)
    gradients[::10] = 0

    def shares(scale: float) -> np.ndarray:
        return np.array(need(lost(gradients.copy(), scale), tuple, "lost(...)"), dtype=float)

    return {
        "the shares with the scale 1": shares(1.0),
        "the shares with the scale 2^12": shares(2.0**12),
        "the shares with the scale 2^21": shares(2.0**21),
    }


def real_lost(gradients, scale):
    """Return the lost shares, computed from the limits of float16."""
    size = np.abs(gradients[gradients != 0]).astype(np.float64) * scale
    info = np.finfo(np.float16)
    below = size <= float(info.smallest_subnormal) / 2
    return float(below.mean()), float((size >= float(info.max) + 16).mean())


def probe_scaler(Scaler: Any) -> dict[str, Any]:  # noqa: N803 - a class
    def run(steps: str, **options: float) -> tuple[np.ndarray, list[int]]:
        """Return the scale after each step of `steps`, such as "++-", and the final counts."""
        scaler, scales = Scaler(**options), []
        for step in steps:
            scaler.update(step == "+")
            scales.append(float(scaler.scale))
        return np.array(scales), [int(scaler.good), int(scaler.skipped)]

    grown, _ = run("+++++++", initial=8.0, interval=3)
    mixed, counts = run("++-+++--++", initial=1024.0, interval=3)
    return {
        "the scale after each of two overflows": run("--", initial=1024.0)[0],
        "the scale after each of seven good steps, with an interval of 3": grown,
        "the scale after each of ten steps, some of which overflow": mixed,
        "the counts of good and of skipped steps": counts,
        "the scale after overflows at the least scale": run("---", initial=4.0, least=2.0)[0],
    }


real_scaler = LossScaler


GradientsOf = Callable[[list[np.ndarray], float], list[np.ndarray]]


def regression(rows: int = 64) -> tuple[list[np.ndarray], GradientsOf, Callable[[list[np.ndarray]], float]]:
    """Return initial weights, a function that computes their gradients in their precision, and the loss of a linear
    regression.
    """
    rng = np.random.default_rng(14)
    x = rng.standard_normal((rows, 5)).astype(np.float32)
    y = x @ rng.standard_normal((5, 1)).astype(np.float32) * 3 + 1

    def gradients_of(halves: list[np.ndarray], scale: float) -> list[np.ndarray]:
        w, b = (Tensor(half, requires_grad=True) for half in halves)
        miss = Tensor(x.astype(w.dtype)) @ w + b - Tensor(y.astype(w.dtype))
        (miss * miss).mean().backward(np.array(scale, w.dtype))
        return [w.grad, b.grad]

    def loss(weights: list[np.ndarray]) -> float:
        return float(((x @ weights[0] + weights[1] - y) ** 2).mean())

    return [np.zeros((5, 1), np.float32), np.zeros(1, np.float32)], gradients_of, loss


def probe_half_step(half_step: Any) -> dict[str, Any]:
    start, gradients_of, _ = regression()
    start = [w + np.float32(1 / 3) for w in start]  # not exact in 16 bits

    def after(steps: int, initial: float, gradients: GradientsOf = gradients_of, lr: float = 0.05) -> tuple[Any, Any]:
        weights, scaler = [w.copy() for w in start], LossScaler(initial, interval=10)
        for _ in range(steps):
            weights = need(half_step(weights, gradients, scaler, lr), list, "half_step(...)")
        return weights, scaler

    def tiny(halves: list[np.ndarray], scale: float) -> list[np.ndarray]:
        return [(np.float32(3.3e-7 * scale) * np.ones(half.shape)).astype(np.float16) for half in halves]

    def partly(value: float) -> GradientsOf:
        return lambda halves, scale: [np.full_like(halves[0], 1), np.full_like(halves[1], value)]

    one, _ = after(1, 16.0)
    many, scaler = after(40, 2.0**15)
    return {
        "the weights after one good step": one[0],
        "the type of the weights": str(one[0].dtype),
        "the weights after three steps with gradients that are tiny": after(3, 2.0**12, tiny, 1e4)[0][0],
        "the weights after an infinite second gradient": after(1, 4.0, partly(np.inf))[0][0],
        "the weights after a second gradient that is NaN": after(1, 4.0, partly(np.nan))[0][0],
        "the type of the weights after an overflow": str(after(1, 4.0, partly(np.inf))[0][0].dtype),
        "the scale after 40 steps, the first ones of which overflow": float(scaler.scale),
        "the number of skipped steps": int(scaler.skipped),
        "the weights after 40 steps": many[0],
    }


def real_half_step(weights, gradients_of, scaler, lr):
    parameters = [Parameter(w.copy()) for w in weights]
    scale = float(scaler.scale)
    for parameter, gradient in zip(
        parameters, gradients_of([w.astype(np.float16) for w in weights], scale), strict=True
    ):
        parameter.grad = gradient.astype(np.float32)
    finite = bool(np.isfinite(clip_grad_norm(parameters, None, scale=1 / scale)))
    scaler.update(finite)
    if finite:
        SGD(parameters, lr).step()
    return [parameter.data for parameter in parameters]
