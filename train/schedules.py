"""Learning rates as functions of the step, which counts from 1."""

from __future__ import annotations

from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(lr: float) -> Schedule:
    """The same rate at every step."""
    return lambda step: lr


def noam(d_model: int, warmup: int, factor: float = 1.0) -> Schedule:
    """factor d_model^-0.5 min(step^-0.5, step warmup^-1.5): linear warm-up, then inverse square root.

    The peak, at step `warmup`, is factor / sqrt(d_model warmup). Source: arXiv 1706.03762, equation 3.
    Raises ValueError unless warmup >= 1.
    """
    if warmup < 1:
        raise ValueError(f"noam: warmup = {warmup} must be at least 1")
    return lambda step: factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
