"""Learning-rate schedules: functions of the number of the step, which starts at 1."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(lr: float, warmup: int = 0) -> Schedule:
    """Return a schedule with the same rate at every step, after a linear warm-up over `warmup` steps.

    Raises ValueError unless warmup >= 0.
    """
    if warmup < 0:
        raise ValueError(f"constant: warmup = {warmup} must be at least 0")
    return lambda step: lr * _warm(step, warmup)


def noam(d_model: int, warmup: int, factor: float = 1.0) -> Schedule:
    """Return a schedule with a linear warm-up, then proportional to the inverse square root of the step.

    The rate is factor d_model^-0.5 min(step^-0.5, step warmup^-1.5). Its peak, at step `warmup`, is factor /
    sqrt(d_model warmup). Source: arXiv 1706.03762, equation 3.
    Raises ValueError unless warmup >= 1.
    """
    if warmup < 1:
        raise ValueError(f"noam: warmup = {warmup} must be at least 1")
    return lambda step: factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def linear(lr: float, warmup: int, steps: int, floor: float = 0.0) -> Schedule:
    """Return a schedule with a linear warm-up to `lr`, then a linear decay.

    The warm-up takes `warmup` steps, and the rate reaches `floor` lr at step `steps`. Source: Devlin et al. 2019, arXiv
    1810.04805, appendix A.2. Raises ValueError unless 0 <= warmup < steps.
    """
    fraction = _descent("linear", warmup, steps)
    return lambda step: lr * _warm(step, warmup) * (floor + (1 - floor) * (1 - fraction(step)))


def cosine(lr: float, warmup: int, steps: int, floor: float = 0.1) -> Schedule:
    """Return a schedule with a linear warm-up to `lr`, then half a cosine.

    The warm-up takes `warmup` steps, and the rate reaches `floor` lr at step `steps`. Source: Loshchilov and Hutter
    2017, arXiv 1608.03983, equation 5, without restarts. Raises ValueError unless 0 <= warmup < steps.
    """
    fraction = _descent("cosine", warmup, steps)
    return lambda step: (
        lr * _warm(step, warmup) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * fraction(step))))
    )


def _warm(step: int, warmup: int) -> float:
    return min(step / warmup, 1.0) if warmup else 1.0


def _descent(name: str, warmup: int, steps: int) -> Callable[[int], float]:
    """Return the position of a step between the end of the warm-up (0) and of the run (1)."""
    if not 0 <= warmup < steps:
        raise ValueError(f"{name}: the warm-up of {warmup} steps must end before the run's {steps}")
    return lambda step: min(max(step - warmup, 0) / (steps - warmup), 1.0)
