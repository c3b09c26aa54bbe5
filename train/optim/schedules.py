"""Learning-rate schedules: functions of the number of the step, which starts at 1."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(lr: float, warmup: int = 0) -> Schedule:
    """Return a schedule with the same rate at every step, after a linear warm-up over `warmup` steps."""
    return lambda step: lr * _warm(step, warmup)


def noam(d_model: int, warmup: int, factor: float = 1.0) -> Schedule:
    """Return a schedule with a linear warm-up, then proportional to the inverse square root of the step.

    The rate is factor d_model^-0.5 min(step^-0.5, step warmup^-1.5). Its peak, at step `warmup`, is factor /
    sqrt(d_model warmup). Source: arXiv 1706.03762, equation 3.
    """
    return lambda step: factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def linear(lr: float, warmup: int, steps: int) -> Schedule:
    """Return a schedule with a linear warm-up to `lr` over `warmup` steps, then a linear decay to 0 at step `steps`.

    Source: Devlin et al. 2019, arXiv 1810.04805, appendix A.2.
    """
    return lambda step: lr * _warm(step, warmup) * (1 - _progress(step, warmup, steps))


def cosine(lr: float, warmup: int, steps: int, floor: float = 0.1) -> Schedule:
    """Return a schedule with a linear warm-up to `lr`, then half a cosine.

    The warm-up takes `warmup` steps, and the rate reaches `floor` lr at step `steps`. Source: Loshchilov and Hutter
    2017, arXiv 1608.03983, equation 5, without restarts.
    """

    def rate(step: int) -> float:
        wave = 0.5 * (1 + math.cos(math.pi * _progress(step, warmup, steps)))
        return lr * _warm(step, warmup) * (floor + (1 - floor) * wave)

    return rate


def _warm(step: int, warmup: int) -> float:
    return min(step / warmup, 1.0) if warmup else 1.0


def _progress(step: int, warmup: int, steps: int) -> float:
    """Return the position of a step between the end of the warm-up (0) and of the run (1)."""
    return min(max(step - warmup, 0) / (steps - warmup), 1.0)
