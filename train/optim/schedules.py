"""Learning-rate schedules: functions of the number of the step, which starts at 1."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from ...kinds import checked
from ...models.fields import Bounds, Count, NotNegative, Whole

Schedule = Callable[[int], float]


@checked
def constant(lr: NotNegative, warmup: Whole = 0) -> Schedule:
    """Return a schedule with the same rate at every step, after a linear warm-up over `warmup` steps.

    Raises ValueError unless warmup >= 0. All schedules raise TypeError for what is not a number.
    """
    return lambda step: lr * _warm(step, warmup)


@checked
def noam(d_model: Count, warmup: Count, factor: NotNegative = 1.0) -> Schedule:
    """Return a schedule with a linear warm-up, then proportional to the inverse square root of the step.

    The rate is factor d_model^-0.5 min(step^-0.5, step warmup^-1.5). Its peak, at step `warmup`, is factor /
    sqrt(d_model warmup). Source: arXiv 1706.03762, equation 3.
    Raises ValueError unless warmup >= 1.
    """
    return lambda step: factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


@checked
def linear(lr: NotNegative, warmup: Whole, steps: Count, floor: NotNegative = 0.0) -> Schedule:
    """Return a schedule with a linear warm-up to `lr`, then a linear decay.

    The warm-up takes `warmup` steps, and the rate reaches `floor` lr at step `steps`. Source: Devlin et al. 2019, arXiv
    1810.04805, appendix A.2. Raises ValueError unless 0 <= warmup < steps.
    """
    fraction = _descent("linear", warmup, steps)
    return lambda step: lr * _warm(step, warmup) * (floor + (1 - floor) * (1 - fraction(step)))


@checked
def cosine(lr: NotNegative, warmup: Whole, steps: Count, floor: NotNegative = 0.1) -> Schedule:
    """Return a schedule with a linear warm-up to `lr`, then half a cosine.

    The warm-up takes `warmup` steps, and the rate reaches `floor` lr at step `steps`. Source: Loshchilov and Hutter
    2017, arXiv 1608.03983, equation 5, without restarts. Raises ValueError unless 0 <= warmup < steps.
    """
    fraction = _descent("cosine", warmup, steps)
    return lambda step: lr * _warm(step, warmup) * (floor + (1 - floor) * (1 + math.cos(math.pi * fraction(step))) / 2)


@checked
class Plateau:
    """A rate that is multiplied by `factor` when the metric has not improved for `patience` validations.

    The Trainer calls `observe` after each validation. Its state is saved with the run.

    Args:
        lr: the learning rate after a linear warm-up over `warmup` steps.
        factor: factor by which the rate is multiplied, in (0, 1).
        patience: number of validations in a row without a better value before the rate falls.
        threshold: minimum relative improvement over the best value.
        floor: the rate never falls below `floor` lr.

    Raises ValueError for values out of range.
    """

    def __init__(
        self,
        lr: NotNegative,
        factor: Annotated[float, Bounds(0, 1, above=True, below=True)] = 0.5,
        patience: Count = 2,
        threshold: NotNegative = 1e-3,
        floor: NotNegative = 1e-3,
        warmup: Whole = 0,
    ):
        self.lr, self.factor, self.patience, self.threshold = lr, factor, patience, threshold
        self.floor, self.warmup = floor, warmup
        self.best: float | None = None
        self.stale = self.falls = 0

    def __call__(self, step: int) -> float:
        return self.lr * _warm(step, self.warmup) * max(self.factor**self.falls, self.floor)

    def observe(self, value: float, higher_is_better: bool = False) -> None:
        """Record the value of the metric at a validation."""
        value = -value if higher_is_better else value
        if self.best is None or value < self.best - self.threshold * abs(self.best):
            self.best, self.stale = value if math.isfinite(value) else None, 0
            return
        self.stale += 1
        if self.stale >= self.patience:
            self.stale, self.falls = 0, self.falls + 1

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "stale": self.stale, "falls": self.falls}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.stale, self.falls = state["best"], state["stale"], state["falls"]


def _warm(step: int, warmup: int) -> float:
    return min(step / warmup, 1.0) if warmup else 1.0


def _descent(name: str, warmup: int, steps: int) -> Callable[[int], float]:
    """Return the position of a step between the end of the warm-up (0) and of the run (1)."""
    if warmup >= steps:
        raise ValueError(f"{name}: the warm-up of {warmup} steps must end before the run's {steps}")
    return lambda step: min(max(step - warmup, 0) / (steps - warmup), 1.0)
